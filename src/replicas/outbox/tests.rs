use futures_util::FutureExt as _;
use iam_adapters::Moment;

use super::*;
use crate::gateway::revocations::{End, RevocationKey};
use crate::gateway::session::SessionId;

fn outbox() -> Outbox {
    Outbox::new(Arc::default(), ReplicaFigures::default())
}

const NOW: Moment = Moment {
    unix: Duration::ZERO,
    monotonic: Duration::ZERO,
};

/// One that is told from the others by when it may be forgotten.
fn revocation(forget_at: u64) -> Revocation {
    let id = SessionId::generate(&aws_lc_rs::rand::SystemRandom::new()).unwrap();
    let name = RevocationKey::derive(b"secret").unwrap().session(id);
    Revocation {
        forget_at,
        ..Revocation::of_session(name, End::LoggedOut, 0)
    }
}

/// What the gateway does with an end.
fn share(outbox: &Outbox, revocation: Revocation) -> Delivered {
    if outbox.revocations.share(&revocation, NOW) {
        outbox.tell(revocation)
    } else {
        Box::pin(std::future::ready(()))
    }
}

fn tell(outbox: &Outbox, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        drop(share(outbox, revocation(number)));
    }
}

/// Takes two and settles them so.
fn settle(outbox: &Outbox, sent: &Sent) -> Vec<u64> {
    let taken = outbox.take(2);
    outbox.settle(&taken, &vec![sent.clone(); taken.len()]);
    taken.iter().map(|sent| sent.forget_at).collect()
}

fn taken(outbox: &Outbox) -> Vec<u64> {
    let taken = outbox.take(2).into_iter();
    taken.map(|revocation| revocation.forget_at).collect()
}

fn full() -> RedisFault {
    RedisFault::Refused("OOM")
}

#[test]
fn what_is_to_be_told_leaves_in_its_order_and_only_when_it_is_kept() {
    let outbox = outbox();
    tell(&outbox, 1..=3);
    assert_eq!(settle(&outbox, &Sent::Kept), [1, 2]);
    assert_eq!(taken(&outbox), [3]);
    assert!(outbox.emptied().now_or_never().is_none());
    // As if it had been lost with its connection.
    outbox.connected();
    assert_eq!(settle(&outbox, &Sent::Kept), [3]);
    assert!(outbox.emptied().now_or_never().is_some());
}

#[test]
fn what_a_lost_connection_took_along_is_offered_first_over_the_next() {
    let outbox = outbox();
    tell(&outbox, 1..=3);
    assert_eq!(taken(&outbox), [1, 2]);
    outbox.disconnected();
    tell(&outbox, [4]);
    outbox.connected();
    assert_eq!(taken(&outbox), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_waits_its_turn_and_holds_up_nothing_new() {
    let outbox = outbox();
    tell(&outbox, [1]);
    assert_eq!(settle(&outbox, &Sent::Told(full())), [1]);
    assert!(taken(&outbox).is_empty());
    tell(&outbox, [2]);
    assert_eq!(taken(&outbox), [2]);
    // Those told of wake it once; then the pause goes by.
    for _ in 0..2 {
        outbox.wait(Duration::from_secs(1)).await;
    }
    outbox.connected();
    assert_eq!(settle(&outbox, &Sent::Refused(full())), [2, 1]);
    assert!(taken(&outbox).is_empty());
    outbox.wait(Duration::from_secs(1)).await;
    assert_eq!(taken(&outbox), [2, 1]);
}

#[test]
fn refused_revocations_follow_at_once_when_redis_stores_again() {
    let outbox = outbox();
    tell(&outbox, 1..=4);
    for _ in 0..2 {
        settle(&outbox, &Sent::Refused(full()));
    }
    assert!(taken(&outbox).is_empty());
    tell(&outbox, [5]);
    assert_eq!(settle(&outbox, &Sent::Kept), [5]);
    assert_eq!(settle(&outbox, &Sent::Kept), [1, 2]);
    assert_eq!(settle(&outbox, &Sent::Kept), [3, 4]);
}

/// More repeats of one user than the outbox had places, once.
#[test]
fn repeated_logouts_of_one_session_do_not_displace_the_revocation_of_another() {
    let outbox = outbox();
    tell(&outbox, [1]);
    let repeated = revocation(2);
    for _ in 0..100_001 {
        drop(share(&outbox, repeated));
    }
    assert_eq!(settle(&outbox, &Sent::Kept), [1, 2]);
    assert!(!outbox.revocations.share(&repeated, NOW));
    assert!(taken(&outbox).is_empty());
}

#[tokio::test(start_paused = true)]
async fn no_logout_waits_for_a_redis_that_is_away_and_only_one_for_one_that_hangs() {
    let outbox = outbox();
    let began = tokio::time::Instant::now();
    share(&outbox, revocation(1)).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    outbox.connected();
    share(&outbox, revocation(2)).await;
    assert_eq!(began.elapsed(), PATIENCE);
    share(&outbox, revocation(3)).await;
    assert_eq!(began.elapsed(), PATIENCE);
}

#[tokio::test]
async fn a_logout_and_its_repeats_go_on_once_the_others_were_told_kept_or_not() {
    for sent in [Sent::Kept, Sent::Told(full())] {
        let outbox = outbox();
        outbox.connected();
        let revocation = revocation(1);
        let mut told = [share(&outbox, revocation), share(&outbox, revocation)];
        for told in &mut told {
            assert!(told.as_mut().now_or_never().is_none());
        }
        settle(&outbox, &sent);
        for told in told {
            assert!(told.now_or_never().is_some());
        }
    }
}
