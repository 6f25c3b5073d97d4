use futures_util::FutureExt as _;

use super::*;
use crate::gateway::revocations::{End, RevocationKey};
use crate::gateway::session::SessionId;

fn outbox(room: usize) -> Outbox {
    Outbox {
        room,
        ..Outbox::new(ReplicaFigures::default())
    }
}

/// One that is told from the others by when it may be forgotten.
fn revocation(forget_at: u64) -> Revocation {
    let id = SessionId::generate(&aws_lc_rs::rand::SystemRandom::new()).unwrap();
    let name = RevocationKey::derive(b"secret").unwrap().session(id);
    Revocation {
        forget_at,
        ..Revocation::of_session(name, End::LoggedOut, 0)
    }
}

fn tell(outbox: &Outbox, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        drop(outbox.tell(revocation(number)));
    }
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
    let outbox = outbox(10);
    tell(&outbox, 1..=3);
    assert_eq!(taken(&outbox), [1, 2]);
    outbox.settle(&[Sent::Kept, Sent::Kept]);
    assert_eq!(taken(&outbox), [3]);
    assert!(outbox.emptied().now_or_never().is_none());
    outbox.settle(&[Sent::Kept]);
    assert!(outbox.emptied().now_or_never().is_some());
}

#[test]
fn what_a_lost_connection_took_along_is_offered_first_over_the_next() {
    let outbox = outbox(10);
    tell(&outbox, 1..=3);
    assert_eq!(taken(&outbox), [1, 2]);
    outbox.disconnected();
    tell(&outbox, [4]);
    outbox.connected();
    assert_eq!(taken(&outbox), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_waits_its_turn_and_holds_up_nothing_new() {
    let outbox = outbox(10);
    tell(&outbox, [1]);
    assert_eq!(taken(&outbox), [1]);
    outbox.settle(&[Sent::Told(full())]);
    assert!(taken(&outbox).is_empty());
    tell(&outbox, [2]);
    assert_eq!(taken(&outbox), [2]);
    outbox.settle(&[Sent::Kept]);
    // Those told of wake it once; then the pause goes by.
    for _ in 0..2 {
        outbox.wait(Duration::from_secs(1)).await;
    }
    assert_eq!(taken(&outbox), [1]);
}

#[test]
fn the_newest_are_kept_where_there_is_no_room_for_all() {
    let outbox = outbox(3);
    tell(&outbox, 1..=10);
    assert_eq!(taken(&outbox), [8, 9]);
    outbox.settle(&[Sent::Kept, Sent::Kept]);
    assert_eq!(taken(&outbox), [10]);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_redis_that_is_away_and_each_only_once_for_one_that_hangs() {
    let outbox = outbox(10);
    let began = tokio::time::Instant::now();
    outbox.tell(revocation(1)).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    outbox.connected();
    outbox.tell(revocation(2)).await;
    assert_eq!(began.elapsed(), PATIENCE);
    outbox.tell(revocation(3)).await;
    assert_eq!(began.elapsed(), PATIENCE);
}

#[tokio::test]
async fn whoever_waits_goes_on_once_the_others_were_told_kept_or_not() {
    for sent in [Sent::Kept, Sent::Told(full())] {
        let outbox = outbox(10);
        outbox.connected();
        let mut told = outbox.tell(revocation(1));
        assert!(told.as_mut().now_or_never().is_none());
        taken(&outbox);
        outbox.settle(&[sent]);
        assert!(told.now_or_never().is_some());
    }
}
