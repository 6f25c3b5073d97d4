use base64::Engine as _;
use iam_adapters::{Clock as _, Refusal, Subject};
use test_support::ManualClock;
use test_support::misconfigurations::MISCONFIGURATIONS;

use super::*;
use crate::gateway::tests::recorded::Recorded;
use crate::keys::DerivationKey;
use crate::revocations::{Cause, RevocationKey};
use crate::timeline::DIFFERENCE_MAX;

const START: u64 = 1_800_000_000;
const LIFETIME: u64 = 3_600;

fn session_id(number: usize) -> SessionId {
    let bytes = (number as u128).to_be_bytes();
    SessionId::parse(&crate::base64url::BASE64.encode(bytes)).unwrap()
}

/// A logout of the session with this number.
fn logout(number: usize) -> UpstreamLogout {
    let key = RevocationKey::derive(&DerivationKey::new(
        &[7; 32],
        "k1",
        jiff::Timestamp::UNIX_EPOCH,
    ));
    let (_, id) = key.upstream_session("scripted", "issuer", &number.to_string());
    UpstreamLogout {
        upstream: UpstreamSession {
            subject: Subject::new("alice").unwrap(),
            id: format!("upstream-{number}"),
            secret: format!("secret-{number}").into(),
        },
        session_id: session_id(number),
        confirmed: Revocation::of_session(id, Cause::Upstream, START + LIFETIME),
    }
}

fn id(logout: Option<&UpstreamLogout>) -> Option<&str> {
    logout.map(|logout| logout.upstream.id.as_str())
}

struct Fixture {
    clock: ManualClock,
    table: UnfinishedLogouts,
    events: Arc<Recorded>,
}

impl Fixture {
    fn with(logouts: usize) -> Self {
        let events = Arc::<Recorded>::default();
        let mut fixture = Self {
            clock: ManualClock::at(Duration::from_secs(START)),
            table: UnfinishedLogouts::new("scripted".into(), events.subscribed()),
            events,
        };
        for number in 0..logouts {
            fixture.add(number, FaultEffect::FAILED);
        }
        fixture
    }

    fn add(&mut self, number: usize, effect: FaultEffect) {
        let now = self.clock.now();
        self.table.add(logout(number), effect, now, u8::MAX);
    }

    fn next(&mut self) -> Option<UpstreamLogout> {
        self.table.next(self.clock.now())
    }

    /// The next call fails; the pause after it.
    fn fail(&mut self, effect: FaultEffect) -> Duration {
        let id = self.next().unwrap().confirmed.id;
        let now = self.clock.now();
        self.table.failed_again(id, effect, now, u8::MAX);
        self.table
            .pause
            .map_or(Duration::ZERO, |pause| pause.length)
    }

    fn outcomes(&self) -> [usize; 4] {
        self.events.logout_outcomes()
    }
}

#[test]
fn pauses_double_up_to_thirty_seconds_of_which_a_half_is_random() {
    for (failures, longest_s) in [
        (0, 1),
        (1, 1),
        (2, 2),
        (3, 4),
        (4, 8),
        (5, 16),
        (6, 30),
        (7, 30),
        (u32::MAX, 30),
    ] {
        let longest = Duration::from_secs(longest_s);
        assert_eq!(pause_after(failures, u8::MAX), longest, "{failures}");
        assert_eq!(pause_after(failures, 0), longest / 2, "{failures}");
        let between = pause_after(failures, 100);
        assert!(longest / 2 < between && between < longest, "{between:?}");
    }
}

#[test]
fn calls_that_fail_lengthen_the_pause_and_the_next_call_is_for_the_next_session() {
    let mut fixture = Fixture::with(3);
    assert!(
        fixture.next().is_none(),
        "the pause after the client's call"
    );
    for (longest_s, failing) in [(2, 0), (4, 1), (8, 2), (16, 0), (30, 1), (30, 2)] {
        fixture.clock.advance(PAUSE_MAX);
        let waiting = fixture.table.by_age.len();
        let before = fixture.table.next_call;
        assert_eq!(before % 3, failing % 3, "{before}");
        let pause = fixture.fail(FaultEffect::FAILED);
        assert_eq!(pause, Duration::from_secs(longest_s));
        fixture
            .clock
            .advance(pause.saturating_sub(Duration::from_millis(1)));
        assert!(fixture.next().is_none());
        assert_eq!(fixture.table.by_age.len(), waiting);
    }
}

#[test]
fn success_ends_the_pause_and_the_next_failure_begins_with_the_shortest_one() {
    let mut fixture = Fixture::with(3);
    for _ in 0..4 {
        fixture.clock.advance(PAUSE_MAX);
        fixture.fail(FaultEffect::FAILED);
    }
    assert!(fixture.next().is_none());
    // Also that of a session that was never in the table.
    fixture.table.succeeded(logout(7).confirmed.id);
    assert_eq!(fixture.outcomes(), [0, 0, 0, 0]);
    let next = fixture.next().unwrap();
    fixture.table.succeeded(next.confirmed.id);
    assert_eq!(fixture.outcomes(), [1, 0, 0, 0]);
    assert_eq!(fixture.fail(FaultEffect::FAILED), PAUSE_MIN);
}

#[test]
fn call_that_the_iam_did_not_receive_does_not_lengthen_the_pause() {
    let mut fixture = Fixture::with(0);
    fixture.add(0, FaultEffect::NotCalled);
    for _ in 0..10 {
        fixture.clock.advance(PAUSE_MIN);
        assert_eq!(fixture.fail(FaultEffect::NotCalled), PAUSE_MIN);
    }
    assert_eq!(fixture.table.failures, 0);
}

#[test]
fn failures_of_clients_neither_lengthen_nor_restart_the_pause() {
    let mut fixture = Fixture::with(1);
    let half = PAUSE_MIN / 2;
    fixture.clock.advance(half);
    for number in 0..100 {
        fixture.add(number, FaultEffect::FAILED);
    }
    assert!(fixture.next().is_none());
    fixture.clock.advance(half);
    let next = fixture.next();
    assert_eq!(id(next.as_ref()), Some("upstream-0"));
    assert_eq!(fixture.table.by_age.len(), 100);
}

#[test]
fn retry_after_of_the_iam_is_respected_up_to_five_minutes() {
    for (seconds, pause) in [(0, 2), (1, 2), (60, 60), (300, 300), (86_400, 300)] {
        let mut fixture = Fixture::with(1);
        fixture.clock.advance(PAUSE_MAX);
        let retry_after = Some(Duration::from_secs(seconds));
        let effect = FaultEffect::of(&IamError::Throttled { retry_after });
        assert_eq!(fixture.fail(effect), Duration::from_secs(pause));
    }
}

#[test]
fn full_table_drops_the_oldest_logout_and_counts_it() {
    let mut fixture = Fixture::with(CAPACITY);
    fixture.clock.advance(PAUSE_MAX);
    let calls_before: Vec<_> = (0..2).map(|_| fixture.next().unwrap()).collect();
    assert_eq!(id(calls_before.first()), Some("upstream-0"));
    fixture.add(CAPACITY, FaultEffect::FAILED);
    assert_eq!(fixture.outcomes(), [0, 0, 0, 1]);
    assert_eq!(fixture.table.by_age.len(), CAPACITY);
    assert_eq!(fixture.table.numbers.len(), CAPACITY);
    assert!(!fixture.table.contains(logout(0).confirmed.id));
    assert!(fixture.table.contains(logout(1).confirmed.id));
    assert!(fixture.table.contains(logout(CAPACITY).confirmed.id));
    // One that is in the table already drops none.
    fixture.add(CAPACITY, FaultEffect::FAILED);
    assert_eq!(fixture.outcomes(), [0, 0, 0, 1]);
}

#[test]
fn every_fault_is_repeated_unless_only_other_settings_could_change_the_answer() {
    let misconfigured = |what| FaultEffect::of(&IamError::misconfigured(what, "detail"));
    for what in MISCONFIGURATIONS {
        let effect = match what {
            Misconfiguration::ForeignClient => FaultEffect::Final,
            _ => FaultEffect::FAILED,
        };
        assert_eq!(misconfigured(what), effect, "{what:?}");
    }
    let text = || "text".to_owned();
    for (fault, effect) in [
        (IamError::Refused(Refusal::Disabled), FaultEffect::Final),
        (IamError::Unreachable(text().into()), FaultEffect::FAILED),
        (IamError::Disconnected(text().into()), FaultEffect::FAILED),
        (IamError::TimedOut(PAUSE_MIN), FaultEffect::FAILED),
        (IamError::Failed(text()), FaultEffect::FAILED),
        (IamError::Unreadable(text().into()), FaultEffect::FAILED),
        (
            IamError::Throttled { retry_after: None },
            FaultEffect::FAILED,
        ),
        (IamError::Saturated, FaultEffect::NotCalled),
        (IamError::CircuitOpen, FaultEffect::NotCalled),
    ] {
        assert_eq!(FaultEffect::of(&fault), effect, "{fault:?}");
    }
}

#[test]
fn logout_is_overdue_after_thirty_seconds() {
    let mut fixture = Fixture::with(0);
    assert_eq!(fixture.table.overdue(fixture.clock.now()), None);
    fixture.add(0, FaultEffect::FAILED);
    let almost = OVERDUE.saturating_sub(Duration::from_millis(1));
    fixture.clock.advance(almost);
    fixture.add(1, FaultEffect::FAILED);
    assert_eq!(fixture.table.overdue(fixture.clock.now()), None);
    fixture.clock.advance(Duration::from_millis(1));
    let overdue = OverdueLogouts {
        unfinished: 2,
        oldest: OVERDUE,
    };
    assert_eq!(fixture.table.overdue(fixture.clock.now()), Some(overdue));
    // An age is not infinite after the clock was set back.
    fixture.clock.set_wall(Duration::ZERO);
    assert_eq!(fixture.table.overdue(fixture.clock.now()), Some(overdue));
    fixture.table.succeeded(logout(0).confirmed.id);
    assert_eq!(fixture.table.overdue(fixture.clock.now()), None);
}

#[test]
fn outcomes_are_counted_for_the_log_while_logouts_are_overdue() {
    let mut fixture = Fixture::with(2);
    fixture.table.succeeded(logout(0).confirmed.id);
    assert_eq!(fixture.table.logged, None);
    fixture.clock.advance(OVERDUE);
    fixture.table.log_change(fixture.clock.now());
    assert_eq!(fixture.table.logged, Some([0, 0, 0, 0]));
    fixture.table.succeeded(logout(1).confirmed.id);
    assert_eq!(fixture.table.logged, Some([1, 0, 0, 0]));
    fixture.table.log_change(fixture.clock.now());
    assert_eq!(fixture.table.logged, None);
}

#[test]
fn final_answer_to_a_client_is_counted_and_not_repeated() {
    let mut fixture = Fixture::with(1);
    for number in [0, 1] {
        fixture.add(number, FaultEffect::Final);
        assert!(fixture.table.by_age.is_empty());
    }
    assert_eq!(fixture.outcomes(), [0, 0, 2, 0]);
}

#[test]
fn each_end_of_a_failed_logout_is_reported_once_with_its_session() {
    let mut fixture = Fixture::with(3);
    assert_eq!(fixture.events.take(), [""; 0]);
    fixture.table.succeeded(logout(1).confirmed.id);
    fixture.table.succeeded(logout(1).confirmed.id);
    fixture.add(2, FaultEffect::Final);
    fixture.add(3, FaultEffect::Final);
    let by_every_clock = Duration::from_secs(LIFETIME) + 2 * DIFFERENCE_MAX;
    fixture.clock.advance(by_every_clock);
    fixture.table.remove_expired(fixture.clock.now());
    let expected = [
        (1, "finished"),
        (2, "rejected"),
        (3, "rejected"),
        (0, "expired"),
    ];
    let expected = expected.map(|(number, outcome)| {
        format!("logout of {} at scripted: {outcome}", session_id(number))
    });
    assert_eq!(fixture.events.take(), expected);
}
