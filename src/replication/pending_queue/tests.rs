use std::sync::atomic::AtomicUsize;
use std::task::{Context, Wake, Waker};

use futures_util::FutureExt as _;
use iam_adapters::Moment;

use super::*;
use crate::gateway::revocations::{Cause, RevocationKey};
use crate::gateway::session::SessionId;

fn pending_queue() -> PendingQueue {
    PendingQueue::new(Arc::default(), ReplicaMetrics::default())
}

const NOW: Moment = Moment {
    unix: Duration::ZERO,
    monotonic: Duration::ZERO,
};

/// A revocation with this expiry, by which the tests distinguish them.
fn revocation(forget_at: u64) -> Revocation {
    let id = SessionId::generate(&aws_lc_rs::rand::SystemRandom::new()).unwrap();
    let name = RevocationKey::derive(b"secret").unwrap().session(id);
    Revocation {
        forget_at,
        ..Revocation::of_session(name, Cause::LoggedOut, 0)
    }
}

/// Records and sends a revocation, as the gateway does.
fn share(queue: &PendingQueue, revocation: Revocation) -> Delivered {
    if queue.revocations.share(&revocation, NOW) {
        queue.send(revocation)
    } else {
        Box::pin(std::future::ready(()))
    }
}

fn share_all(queue: &PendingQueue, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        drop(share(queue, revocation(number)));
    }
}

/// Takes two revocations and settles them with this result.
fn settle(queue: &PendingQueue, result: &Result<(), RedisFault>) -> Vec<u64> {
    let taken = queue.take(2);
    queue.settle(&taken, &vec![result.clone(); taken.len()]);
    taken.iter().map(|sent| sent.forget_at).collect()
}

fn taken(queue: &PendingQueue) -> Vec<u64> {
    let taken = queue.take(2).into_iter();
    taken.map(|revocation| revocation.forget_at).collect()
}

const STORED: Result<(), RedisFault> = Ok(());
const FULL: Result<(), RedisFault> = Err(RedisFault::Refused("OOM"));

#[test]
fn revocations_are_sent_in_order_and_stay_pending_until_they_are_stored() {
    let queue = pending_queue();
    share_all(&queue, 1..=3);
    assert_eq!(settle(&queue, &STORED), [1, 2]);
    assert_eq!(taken(&queue), [3]);
    assert!(queue.emptied().now_or_never().is_none());
    // As if the connection had failed.
    queue.connected();
    assert_eq!(settle(&queue, &STORED), [3]);
    assert!(queue.emptied().now_or_never().is_some());
}

#[test]
fn revocations_of_a_failed_connection_are_sent_first_on_the_next_one() {
    let queue = pending_queue();
    share_all(&queue, 1..=3);
    assert_eq!(taken(&queue), [1, 2]);
    queue.disconnected();
    share_all(&queue, [4]);
    queue.connected();
    assert_eq!(taken(&queue), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn refused_revocation_waits_for_the_pause_without_delaying_new_ones() {
    let queue = pending_queue();
    share_all(&queue, [1]);
    assert_eq!(settle(&queue, &FULL), [1]);
    assert!(taken(&queue).is_empty());
    share_all(&queue, [2]);
    assert_eq!(taken(&queue), [2]);
    // The new revocations end the first wait; the second one lasts for the pause.
    for _ in 0..2 {
        queue.wait(Duration::from_secs(1)).await;
    }
    queue.connected();
    assert_eq!(settle(&queue, &FULL), [2, 1]);
    assert!(taken(&queue).is_empty());
    queue.wait(Duration::from_secs(1)).await;
    assert_eq!(taken(&queue), [2, 1]);
}

#[test]
fn refused_revocations_follow_at_once_when_redis_stores_again() {
    let queue = pending_queue();
    share_all(&queue, 1..=4);
    for _ in 0..2 {
        settle(&queue, &FULL);
    }
    assert!(taken(&queue).is_empty());
    share_all(&queue, [5]);
    assert_eq!(settle(&queue, &STORED), [5]);
    assert_eq!(settle(&queue, &STORED), [1, 2]);
    assert_eq!(settle(&queue, &STORED), [3, 4]);
}

/// More repeats than the capacity of an earlier, bounded queue.
#[test]
fn repeated_logouts_of_one_session_do_not_displace_the_revocation_of_another() {
    let queue = pending_queue();
    share_all(&queue, [1]);
    let repeated = revocation(2);
    for _ in 0..100_001 {
        drop(share(&queue, repeated));
    }
    assert_eq!(settle(&queue, &STORED), [1, 2]);
    assert!(!queue.revocations.share(&repeated, NOW));
    assert!(taken(&queue).is_empty());
}

#[tokio::test(start_paused = true)]
async fn logouts_do_not_wait_for_an_unavailable_redis_and_only_one_waits_for_a_hanging_one() {
    let queue = pending_queue();
    let started = tokio::time::Instant::now();
    share(&queue, revocation(1)).await;
    assert_eq!(started.elapsed(), Duration::ZERO);
    queue.connected();
    share(&queue, revocation(2)).await;
    assert_eq!(started.elapsed(), DELIVERY_DEADLINE);
    share(&queue, revocation(3)).await;
    assert_eq!(started.elapsed(), DELIVERY_DEADLINE);
}

#[tokio::test]
async fn logout_and_its_repeats_end_when_redis_responds_stored_or_not() {
    for result in [STORED, FULL] {
        let queue = pending_queue();
        queue.connected();
        let revocation = revocation(1);
        let mut logouts = [share(&queue, revocation), share(&queue, revocation)];
        for logout in &mut logouts {
            assert!(logout.as_mut().now_or_never().is_none());
        }
        settle(&queue, &result);
        for logout in logouts {
            assert!(logout.now_or_never().is_some());
        }
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// With a wake-up for each, the cost of a logout would grow with the number of those that wait.
#[tokio::test]
async fn waiting_logout_is_woken_by_a_result_and_not_by_further_revocations() {
    let queue = pending_queue();
    queue.connected();
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let mut logout = share(&queue, revocation(1));
    let waits = logout.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(waits.is_pending());
    share_all(&queue, 2..=5);
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    settle(&queue, &STORED);
    assert!(woken.0.load(Ordering::Relaxed) > 0);
    assert!(logout.now_or_never().is_some());
}
