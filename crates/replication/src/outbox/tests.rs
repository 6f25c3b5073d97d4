use std::cell::{Cell, RefCell};
use std::hash::Hasher;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Wake, Waker};

use futures_util::FutureExt as _;
use iam_adapters::Moment;

use super::*;
use crate::RedisFault;
use auth_gateway_core::keys::DerivationKey;
use auth_gateway_core::revocations::{
    Cause, RevocationId, RevocationKey, RevocationKind, Revocations,
};
use auth_gateway_core::session_id::SessionId;

/// A table of revocations, and its outbox.
struct TestOutbox {
    revocations: Revocations,
    outbox: Outbox<RevocationIndex>,
}

const NOW: Moment = Moment {
    unix: Duration::ZERO,
    monotonic: Duration::ZERO,
};

type Batch = Vec<(RevocationIndex, Revocation)>;

const STORED: Result<(), RedisFault> = Ok(());
const FULL: Result<(), RedisFault> = Err(RedisFault::Refused("OOM"));

/// A revocation with this expiry, by which the tests distinguish them.
fn revocation(forget_at: u64) -> Revocation {
    let id = SessionId::generate(&aws_lc_rs::rand::SystemRandom::new()).unwrap();
    let name = RevocationKey::derive(&DerivationKey::new(
        b"secret",
        "k1",
        jiff::Timestamp::UNIX_EPOCH,
    ))
    .session(id);
    Revocation {
        forget_at,
        ..Revocation::of_session(name, Cause::LoggedOut, 0)
    }
}

fn expiries(batch: &Batch) -> Vec<u64> {
    batch.iter().map(|(_, sent)| sent.forget_at).collect()
}

impl TestOutbox {
    fn new() -> Self {
        let outbox = Outbox::new(usize::MAX);
        outbox.connected();
        Self {
            revocations: Revocations::new(false),
            outbox,
        }
    }

    /// Records and sends a revocation, as the gateway does.
    fn publish(&self, revocation: &Revocation) -> Delivered {
        let is_unpublished = self.revocations.record_published(revocation, NOW);
        self.outbox.publish(revocation, is_unpublished)
    }

    fn share_all(&self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            drop(self.publish(&revocation(number)));
        }
    }

    /// At most two; none if there are none.
    fn offer(&self) -> Batch {
        let load = |index: &RevocationIndex| self.revocations.get(index);
        self.outbox.offer(2, load)
    }

    fn settle(&self, batch: &Batch, result: &Result<(), RedisFault>) {
        let results = vec![result.clone(); batch.len()];
        let load = |index: &RevocationIndex| self.revocations.get(index);
        self.outbox.settle(batch, &results, load);
    }

    /// Offers, and settles with this result. Returns the expiries.
    fn send(&self, result: &Result<(), RedisFault>) -> Vec<u64> {
        let batch = self.offer();
        self.settle(&batch, result);
        expiries(&batch)
    }

    /// As if the stream had the revocation.
    fn read(&self, revocation: &Revocation) {
        self.revocations.apply_remote(revocation, NOW);
        let is_latest = || self.revocations.is_latest(revocation);
        self.outbox.found(&revocation.index(), is_latest);
    }

    fn requeue_missing(&self, seconds: u64) -> usize {
        let now = Moment {
            unix: Duration::from_secs(seconds),
            ..NOW
        };
        (self.outbox).requeue_missing(|| self.revocations.shared(now))
    }
}

#[test]
fn revocations_are_sent_in_order_and_stay_until_they_are_stored() {
    let test = TestOutbox::new();
    test.share_all(1..=3);
    assert_eq!(test.send(&STORED), [1, 2]);
    assert_eq!(expiries(&test.offer()), [3]);
    assert!(test.outbox.emptied().now_or_never().is_none());
    // As if the connection had failed.
    test.share_all([4]);
    assert_eq!(test.send(&STORED), [3, 4]);
    assert!(test.outbox.emptied().now_or_never().is_some());
    assert_eq!(test.outbox.pending(), 0);
}

#[test]
fn refused_revocations_stay_in_their_order() {
    let test = TestOutbox::new();
    test.share_all(1..=4);
    assert_eq!(test.send(&FULL), [1, 2]);
    assert_eq!(test.send(&STORED), [1, 2]);
    let batch = test.offer();
    let results = [STORED, FULL];
    let load = |index: &RevocationIndex| test.revocations.get(index);
    test.outbox.settle(&batch, &results, load);
    test.share_all([5]);
    assert_eq!(test.send(&STORED), [4, 5]);
}

#[test]
fn revocation_is_queued_once_and_sent_in_its_latest_form() {
    let test = TestOutbox::new();
    let first = revocation(100);
    for forget_at in [100, 200, 150] {
        drop(test.publish(&Revocation { forget_at, ..first }));
        assert_eq!(test.outbox.pending(), 1);
    }
    assert_eq!(test.send(&STORED), [200]);
    for (forget_at, sent) in [(200, &[][..]), (190, &[]), (201, &[201]), (201, &[])] {
        drop(test.publish(&Revocation { forget_at, ..first }));
        assert_eq!(test.send(&STORED), sent);
    }
}

#[test]
fn revocation_that_is_extended_while_it_is_sent_is_sent_again() {
    for result in [STORED, FULL] {
        let test = TestOutbox::new();
        let first = revocation(100);
        drop(test.publish(&first));
        let batch = test.offer();
        let forget_at = 200;
        drop(test.publish(&Revocation { forget_at, ..first }));
        test.settle(&batch, &result);
        assert_eq!(test.send(&STORED), [200]);
        assert!(test.offer().is_empty());
    }
}

#[test]
fn revocation_that_expired_or_that_the_stream_has_is_not_sent() {
    let test = TestOutbox::new();
    let (one, gone) = (revocation(100), revocation(200));
    drop(test.publish(&one));
    test.outbox.push(gone.index());
    assert!(test.outbox.is_pending(&one));
    // An earlier form of it.
    test.read(&Revocation {
        forget_at: 50,
        ..one
    });
    assert!(test.outbox.is_pending(&one));
    test.read(&one);
    assert!(!test.outbox.is_pending(&one));
    assert!(test.offer().is_empty());
    assert_eq!(test.outbox.pending(), 0);
}

#[test]
fn items_that_need_not_be_sent_are_removed_without_a_connection() {
    let outbox = Outbox::new(usize::MAX);
    for item in 0..PRUNED_FROM {
        outbox.push(item);
    }
    outbox.disconnected(|item| item % 2 == 0);
    assert_eq!(outbox.len(), PRUNED_FROM / 2);
    outbox.disconnected(|_| false);
    assert_eq!(outbox.len(), PRUNED_FROM / 2, "there are too few");
}

#[test]
fn full_outbox_drops_the_oldest_items() {
    let outbox = Outbox::new(3);
    let dropped = (1..=5).map(|item| outbox.push(item));
    assert_eq!(dropped.filter(|dropped| *dropped).count(), 2);
    let items = outbox.offer(9, |item| Some(*item));
    assert_eq!(items, [(3, 3), (4, 4), (5, 5)]);
}

#[test]
fn revocation_that_the_stream_has_lost_is_sent_again_once() {
    let test = TestOutbox::new();
    let [own, learned, local, late] = [(); 4].map(|()| revocation(100));
    test.outbox.begin_reading();
    drop(test.publish(&own));
    assert_eq!(test.send(&STORED), [100]);
    test.read(&learned);
    test.revocations.record(&local, NOW);
    assert_eq!(test.requeue_missing(0), 0);
    // The next reading finds nothing, except one that is added meanwhile.
    test.outbox.begin_reading();
    test.read(&late);
    assert_eq!(test.requeue_missing(0), 2);
    // Another replica was faster with one of them.
    test.read(&learned);
    let batch = test.offer();
    assert_eq!(batch, [(own.index(), own)]);
    test.settle(&batch, &STORED);
    assert!(test.offer().is_empty());
}

thread_local! {
    static PROBED: RefCell<Option<Outbox<Probe>>> = const { RefCell::new(None) };
    static HASHED_WITH_LOCK: Cell<usize> = const { Cell::new(0) };
}

/// An item that counts how often it is hashed while the lock of [`PROBED`] is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Probe(usize);

impl Hash for Probe {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let is_locked = |outbox: &Outbox<Self>| outbox.0.state.try_lock().is_none();
        if PROBED.with_borrow(|outbox| outbox.as_ref().is_some_and(is_locked)) {
            HASHED_WITH_LOCK.set(HASHED_WITH_LOCK.get() + 1);
        }
        self.0.hash(hasher);
    }
}

#[test]
fn item_can_be_added_during_the_search_for_lost_ones_and_is_not_lost() {
    const FOUND: usize = 1_000;
    let outbox = Outbox::new(usize::MAX);
    PROBED.set(Some(outbox.clone()));
    outbox.begin_reading();
    for number in 0..FOUND {
        outbox.found(&Probe(number), || true);
    }
    let (lost, new) = (Probe(FOUND), Probe(FOUND + 1));
    HASHED_WITH_LOCK.set(0);
    let missing = outbox.requeue_missing(|| {
        assert!(outbox.0.state.try_lock().is_some());
        outbox.push(new);
        (0..FOUND).map(Probe).chain([lost, new]).collect()
    });
    assert!(HASHED_WITH_LOCK.get() < 10, "{}", HASHED_WITH_LOCK.get());
    assert_eq!(missing, 1);
    let offered = outbox.offer(9, |item| Some(*item));
    assert_eq!(offered, [(new, new), (lost, lost)]);
}

#[test]
fn new_and_extended_revocations_are_sent_before_those_that_the_stream_has_lost() {
    let test = TestOutbox::new();
    let lost = [(); 4].map(|()| revocation(1));
    for revocation in &lost {
        test.read(revocation);
    }
    test.outbox.begin_reading();
    assert_eq!(test.requeue_missing(0), lost.len());
    test.share_all([3]);
    let [extended, ..] = lost;
    drop(test.publish(&Revocation {
        forget_at: 2,
        ..extended
    }));
    assert_eq!(test.outbox.pending(), 5);
    // Without a result they are offered again.
    assert_eq!(expiries(&test.offer()), [3, 2]);
    assert_eq!(test.send(&STORED), [3, 2]);
    assert_eq!(test.send(&FULL), [1, 1]);
    assert_eq!(test.send(&STORED), [1, 1]);
    assert_eq!(test.send(&STORED), [1]);
    assert_eq!(test.outbox.pending(), 0);
}

#[test]
fn lost_revocation_is_not_sent_again_after_its_expiry_or_in_an_older_form() {
    let test = TestOutbox::new();
    let lost = revocation(100);
    test.read(&lost);
    test.outbox.begin_reading();
    assert_eq!(test.requeue_missing(100), 0);
    test.outbox.begin_reading();
    // The stream has an earlier expiry only.
    test.read(&Revocation {
        forget_at: 50,
        ..lost
    });
    assert_eq!(test.requeue_missing(0), 1);
    assert_eq!(test.send(&STORED), [100]);
}

/// More repeats than the capacity of an earlier, bounded queue.
#[test]
fn repeated_logouts_of_one_session_do_not_displace_the_revocation_of_another() {
    let test = TestOutbox::new();
    test.share_all([1]);
    let repeated = revocation(2);
    for _ in 0..100_001 {
        drop(test.publish(&repeated));
    }
    assert_eq!(test.send(&STORED), [1, 2]);
    drop(test.publish(&repeated));
    assert!(test.offer().is_empty());
}

#[tokio::test(start_paused = true)]
async fn logouts_do_not_wait_for_an_unavailable_redis_and_only_one_waits_for_a_hanging_one() {
    let test = TestOutbox::new();
    test.outbox.disconnected(|_| true);
    let started = tokio::time::Instant::now();
    test.publish(&revocation(1)).await;
    assert_eq!(started.elapsed(), Duration::ZERO);
    test.outbox.connected();
    test.publish(&revocation(2)).await;
    assert_eq!(started.elapsed(), DELIVERY_DEADLINE);
    test.publish(&revocation(3)).await;
    assert_eq!(started.elapsed(), DELIVERY_DEADLINE);
    test.outbox.connected();
    test.send(&FULL);
    test.publish(&revocation(4)).await;
    assert_eq!(started.elapsed(), DELIVERY_DEADLINE);
}

#[tokio::test]
async fn logouts_wait_again_when_what_redis_refused_need_not_be_sent_any_more() {
    let test = TestOutbox::new();
    let refused = revocation(1);
    drop(test.publish(&refused));
    test.send(&FULL);
    test.read(&refused);
    assert!(test.offer().is_empty());
    let logout = test.publish(&revocation(2));
    assert!(logout.now_or_never().is_none());
}

#[tokio::test]
async fn logout_and_its_repeats_end_when_redis_responds_stored_or_not() {
    for result in [STORED, FULL] {
        let test = TestOutbox::new();
        let revocation = revocation(1);
        let mut logouts = [test.publish(&revocation), test.publish(&revocation)];
        for logout in &mut logouts {
            assert!(logout.as_mut().now_or_never().is_none());
        }
        test.send(&result);
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
    let test = TestOutbox::new();
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let mut logout = test.publish(&revocation(1));
    let waits = logout.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(waits.is_pending());
    test.share_all(2..=5);
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    test.send(&STORED);
    assert!(woken.0.load(Ordering::Relaxed) > 0);
    assert!(logout.now_or_never().is_some());
}

/// A measurement: `cargo test --lib memory_of_ -- --ignored --nocapture`. The expected bytes are the difference of the
/// figures of `docs/capacity.md` with and without Redis.
#[test]
#[ignore = "measures the memory of the whole process: run it alone"]
fn memory_of_the_outbox() {
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096
    };
    let (outbox, before) = (Outbox::new(usize::MAX), resident());
    for (count, documented) in [(1_000_000, 59_000_000), (3_500_000, 142_000_000)] {
        while outbox.len() < count {
            let number = u128::try_from(outbox.len()).unwrap();
            outbox.push((
                RevocationKind::Session,
                RevocationId::from_bytes(number.to_be_bytes()),
            ));
        }
        let bytes = resident() - before;
        println!("{count} items: {bytes} bytes");
        let range = documented / 10 * 9..=documented / 10 * 11;
        assert!(range.contains(&bytes), "{count} items: {bytes} bytes");
    }
}

/// Requests look at the outbox while they are woken, and others change it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn logouts_end_although_others_begin_at_the_same_time() {
    let test = Arc::new(TestOutbox::new());
    let redis = {
        let test = Arc::clone(&test);
        tokio::spawn(async move {
            while Arc::strong_count(&test) > 1 {
                test.send(&STORED);
                tokio::task::yield_now().await;
            }
        })
    };
    let logouts = (0..8).map(|_| {
        let test = Arc::clone(&test);
        tokio::spawn(async move {
            for number in 1..=500 {
                test.publish(&revocation(number)).await;
            }
        })
    });
    for ended in futures_util::future::join_all(logouts).await {
        ended.unwrap();
    }
    drop(test);
    redis.await.unwrap();
}
