//! Replicas that share login events.

use std::sync::Mutex;

use super::*;
use crate::event::Replicated;

const ALICE: &str = "alice@example.test";

/// The events that a replica has sent.
#[derive(Debug, Default)]
struct Sent(Mutex<Vec<LoginEvent>>);

impl LoginPublisher for Sent {
    fn publish(&self, event: LoginEvent) -> bool {
        self.0.lock().unwrap().push(event);
        false
    }
}

/// Replicas by one clock with one key.
struct Group {
    replicas: Vec<(TestLimiter, Arc<Sent>)>,
    /// All events, in order.
    history: Vec<LoginEvent>,
}

impl Group {
    fn new(count: usize) -> Self {
        let mut group = Self {
            replicas: Vec::new(),
            history: Vec::new(),
        };
        for _ in 0..count {
            group.start_replica();
        }
        group
    }

    /// A new replica, which receives the history.
    fn start_replica(&mut self) {
        let sent = Arc::new(Sent::default());
        let mut limiter = TestLimiter::replica(login_limits(), Some(Arc::<Sent>::clone(&sent)));
        if let Some((first, _)) = self.replicas.first() {
            // Its monotonic clock begins at zero.
            limiter.clock.set_wall(first.clock.now().unix);
        }
        for event in &self.history {
            limiter.login_limiter.apply_remote(event);
        }
        limiter.calls = 0;
        self.replicas.push((limiter, sent));
    }

    /// Delivers what every replica has sent to all others.
    fn deliver(&mut self) {
        for from in 0..self.replicas.len() {
            let events = std::mem::take(&mut *self.replicas[from].1.0.lock().unwrap());
            for event in events {
                self.history.push(event);
                for (to, (limiter, _)) in self.replicas.iter().enumerate() {
                    if to != from {
                        assert!(limiter.login_limiter.apply_remote(&event), "{event:?}");
                    }
                }
            }
        }
    }

    fn at(&mut self, replica: usize) -> &mut TestLimiter {
        &mut self.replicas[replica].0
    }

    /// Fails at each replica in turn. Returns how many attempts reached the IAM.
    fn fail_in_turn(&mut self, email: &str, attempts: usize, seconds_between: u64) -> usize {
        let mut reached = 0;
        for number in 0..attempts {
            let replica = number % self.replicas.len();
            let refused = self.at(replica).refused(email, unrelated_address(number));
            reached += usize::from(refused);
            self.deliver();
            self.advance(seconds_between);
        }
        reached
    }

    fn advance(&self, seconds: u64) {
        for (limiter, _) in &self.replicas {
            limiter.advance(seconds);
        }
    }
}

#[test]
fn guesses_over_three_replicas_reach_the_iam_as_often_as_over_one() {
    for (attempts, seconds) in [(30, 0), (200, 5), (300, 30), (400, 60)] {
        let alone = Group::new(1).fail_in_turn(ALICE, attempts, seconds);
        let together = Group::new(3).fail_in_turn(ALICE, attempts, seconds);
        assert_eq!(together, alone, "{attempts} {seconds}");
    }
}

/// One guess at each replica before any replica receives the events of the others.
#[test]
fn concurrent_guesses_at_several_replicas_are_deducted_from_later_ones() {
    let mut group = Group::new(3);
    let mut reached = 0;
    let hours = 48;
    // As soon as the slow rate allows one, all replicas allow one.
    for number in 0..hours * 3_600 / 30 {
        for replica in 0..3 {
            let refused = group.at(replica).refused(ALICE, unrelated_address(number));
            reached += usize::from(refused);
        }
        group.deliver();
        group.advance(30);
    }
    let alone = Group::new(1).fail_in_turn(ALICE, hours * 3_600 / 30, 30);
    assert!(
        (alone - 3..=alone + 4).contains(&reached),
        "{reached} instead of {alone}"
    );
}

#[test]
fn failures_of_an_address_count_at_every_replica() {
    let mut group = Group::new(3);
    for number in 0..100 {
        let email = format!("user{number}@example.test");
        assert!(group.at(number % 3).refused(&email, HOME));
        group.deliver();
    }
    for replica in 0..3 {
        let more = group.at(replica).log_in(ALICE, RIGHT, HOME);
        assert_eq!(limited_by(&more), Some((Limit::Address, 9.0)));
    }
    let mut group = Group::new(2);
    for number in 0..1_000 {
        let email = format!("user{number}@example.test");
        assert!(group.at(0).refused(&email, address_in_one_48(number)));
    }
    group.deliver();
    assert_eq!(group.at(1).events.untracked_logins(), 0);
    let more = group.at(1).log_in(ALICE, RIGHT, address_in_one_48(2_000));
    assert_eq!(limit_of(&more), Some(Limit::Address));
}

#[test]
fn counts_and_known_networks_survive_a_restart() {
    let mut group = Group::new(1);
    assert_eq!(group.at(0).log_in(ALICE, RIGHT, HOME), Ok(()));
    assert_eq!(group.fail_in_turn(ALICE, 60, 30), 50);
    group.advance(60);
    group.start_replica();
    for replica in 0..2 {
        let unknown = group
            .at(replica)
            .log_in(ALICE, RIGHT, unrelated_address(99));
        let (limit, wait) = limited_by(&unknown).expect("a limit");
        assert_eq!(limit, Limit::AccountSlow);
        assert!(wait > 0.0 && wait < 900.0, "{wait}");
        assert_eq!(group.at(replica).log_in(ALICE, RIGHT, HOME), Ok(()));
    }
    let waits = [0, 1].map(|replica| {
        let limited = group.at(replica).log_in(ALICE, RIGHT, None);
        limited_by(&limited).map(|(_, wait)| wait.round())
    });
    assert_eq!(waits[0], waits[1]);
}

#[test]
fn success_ends_a_row_at_every_replica_and_a_reset_takes_effect_at_every_replica() {
    let mut group = Group::new(2);
    assert_eq!(group.fail_in_turn(ALICE, 49, 30), 49);
    assert_eq!(group.at(1).log_in(ALICE, RIGHT, HOME), Ok(()));
    group.deliver();
    assert_eq!(group.fail_in_turn(ALICE, 60, 30), 50);
    group.at(0).login_limiter.clear_failures(ALICE, None);
    group.deliver();
    for replica in 0..2 {
        assert_eq!(group.at(replica).log_in(ALICE, RIGHT, None), Ok(()));
    }
    // Also after a restart.
    group.deliver();
    group.start_replica();
    assert!(group.at(2).refused(ALICE, None));
    // The failures of a known network.
    for _ in 0..10 {
        assert!(group.at(0).refused(ALICE, HOME));
    }
    group.deliver();
    assert!(!group.at(1).refused(ALICE, HOME));
    group
        .at(0)
        .login_limiter
        .clear_failures(ALICE, Some(HOME.into()));
    group.deliver();
    assert!(group.at(1).refused(ALICE, HOME));
}

#[test]
fn network_known_to_one_replica_is_known_to_all() {
    let mut group = Group::new(2);
    assert_eq!(group.at(0).log_in(ALICE, RIGHT, HOME), Ok(()));
    group.deliver();
    group.fail_in_turn(ALICE, 30, 0);
    assert!(!group.at(1).refused(ALICE, unrelated_address(99)));
    assert_eq!(group.at(1).log_in(ALICE, RIGHT, HOME), Ok(()));
}

#[test]
fn successful_logins_send_one_event_for_each_network_and_week() {
    let mut group = Group::new(2);
    for number in 0..1_000 {
        assert_eq!(group.at(number % 2).log_in(ALICE, RIGHT, HOME), Ok(()));
        group.deliver();
        group.advance(60);
    }
    let [event] = group.history[..] else {
        panic!("{:?}", group.history);
    };
    assert!(matches!(event.change, LoginChange::KnownNetwork { .. }));
    assert_eq!(event.change.log(), Replicated::KnownNetworks);
    assert_eq!(event.forget_at - event.at / 1_000, 30 * 24 * 3_600 + 1);
}

#[test]
fn fault_and_limited_attempt_send_no_event() {
    let mut group = Group::new(1);
    assert_eq!(group.fail_in_turn(ALICE, 100, 0), 10);
    let fault = group
        .at(0)
        .log_in_with("bob@example.test", RIGHT, None, |_| {
            Err(IamError::Saturated)
        });
    assert_eq!(fault, Err(IamError::Saturated.into()));
    group.deliver();
    let logs: Vec<_> = group.history.iter().map(|one| one.change.log()).collect();
    assert_eq!(logs, [Replicated::Logins; 10]);
}

#[test]
fn abandoned_attempt_counts_at_every_replica() {
    let mut group = Group::new(2);
    for _ in 0..10 {
        let limiter = &group.replicas[0].0.login_limiter;
        let call = pending::<Result<(), IamError>>();
        let account = limiter.key.account(ALICE);
        let attempt = limiter.limit(account, ALICE, None, true, None, call);
        assert!(attempt.now_or_never().is_none());
    }
    group.deliver();
    assert!(!group.at(1).refused(ALICE, None));
}

#[test]
fn expired_event_and_one_from_the_future_are_ignored() {
    let mut limiter = TestLimiter::without_rate(login_limits());
    let of = limiter.login_limiter.key.account(ALICE).index();
    let now = START.as_secs();
    let apply = |limiter: &TestLimiter, seconds: u64, forget_at| {
        limiter.login_limiter.apply_remote(&LoginEvent {
            at: seconds * 1_000,
            forget_at,
            change: LoginChange::Failed {
                of,
                networks: [0; 2],
                in_a_row: true,
            },
        })
    };
    assert!(!apply(&limiter, now - 10, now));
    assert!(!apply(&limiter, now + 601, now + 1_000));
    // Older than the window of failures, but not than that of a streak.
    for _ in 0..10 {
        assert!(apply(&limiter, now - 301, now + 1_000));
    }
    assert_eq!((0..20).filter(|_| limiter.refused(ALICE, None)).count(), 10);
    // Only these count then.
    limiter.advance(300);
    for _ in 0..10 {
        assert!(apply(&limiter, now + 900, now + 1_000));
    }
    let result = limiter.log_in(ALICE, RIGHT, None);
    assert_eq!(limit_of(&result), Some(Limit::Account));
}
