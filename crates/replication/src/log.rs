//! A log that replicas share: a stream in Redis. Each replica reads it from its beginning when it connects, then reads
//! new entries every [`Codec::READ_PAUSE`], and adds its own.

use std::convert::Infallible;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iam_adapters::name::Name as _;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::RedisFault;
use super::outbox::Outbox;
use super::redis::{BEGINNING, Connection, Page, Primary, Redis, Stream};
use auth_gateway_core::event::{EntryOutcome, Event, Ignored};
use auth_gateway_core::replica_state::ReplicaState;
use auth_gateway_core::stream_mac_key::KEY_ID_LEN;

/// The first and the longest pause before a reconnect.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// After a connection that lasted this long, the next pause is the first one again. Each reconnect
/// makes the cached data of this replica stale, which causes introspections.
const STABLE: Duration = Duration::from_secs(30);

/// How many entries are sent at once.
pub(super) const BATCH_MAX: usize = 500;

/// The pause after a batch, so that the next one has the entries of that time. The first logout
/// after a pause does not wait. At 2,000 logouts a second, 5 ms take a third less time of the
/// processors than 2 ms.
const SEND_PAUSE: Duration = Duration::from_millis(5);

/// The pause before entries that Redis refused are sent again.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// After this time with a read-only Redis the connection is closed and the name resolved again,
/// because a failover may have made another server the primary.
const READ_ONLY_MAX: Duration = Duration::from_secs(30);

/// The time between two readings of the whole stream. They find lost entries without a reconnect and
/// remove expired ones. A million entries take about two seconds of the time of Redis.
const READING_INTERVAL: Duration = Duration::from_secs(600);

/// Missing entries are added again after a random part of this time: so the first replica adds
/// most of them, and the others find them there.
const REQUEUE_DELAY_MAX: Duration = Duration::from_secs(2);

/// What a log is about: the format of its entries, and what they change. Entries have `N` bytes.
pub(super) trait Codec<const N: usize> {
    /// Identifies an entry that this replica adds.
    type Item: Copy + Eq + Hash + Send + Sync + 'static;

    /// What the entry has now.
    type Content: PartialEq;

    /// The pause between two reads of new entries. Redis could wait for an entry (`XREAD`), but would send it
    /// whatever its size. And reading each entry by itself costs every replica more than the logout.
    const READ_PAUSE: Duration;

    /// Whether entries that Redis has lost are added again.
    const ADDS_AGAIN: bool = false;

    /// Identifies the keys with which entries are authenticated. With other keys the stream is read again:
    /// entries of a key that was unknown were ignored.
    fn key_ids(&self) -> Vec<[u8; KEY_ID_LEN]>;

    /// `None`: the item need not be sent any more.
    fn load(&self, item: &Self::Item) -> Option<Self::Content>;

    fn encode(&self, batch: &[(Self::Item, Self::Content)]) -> Vec<[u8; N]>;

    /// Applies an entry; `None`: it was applied already, perhaps because it is this replica's own.
    fn apply(&self, entry: &[u8; N], outbox: &Outbox<Self::Item>) -> Option<EntryOutcome>;

    /// The whole stream has been read for the first time on this connection.
    fn initial_sync_done(&self) {}

    /// The items whose entries must be in the stream or in the outbox, if they are [added again](Self::ADDS_AGAIN).
    fn live(&self) -> Vec<Self::Item> {
        Vec::new()
    }

    /// Whether no access tokens are issued until the stream has been read.
    fn is_catching_up(&self) -> bool {
        false
    }
}

/// Whether the replicas have the entries of each other.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LogState {
    /// Whether the entries of the others are received.
    received: Result<(), RedisFault>,
    /// Whether Redis stores those of this replica.
    stored: Result<(), RedisFault>,
}

#[derive(Debug)]
pub(super) struct Log<C: Codec<N>, const N: usize> {
    stream: Stream<N>,
    codec: C,
    outbox: Outbox<C::Item>,
    /// Whether this replica has added an entry since the last reading of the whole stream began.
    has_added: AtomicBool,
    state: Mutex<LogState>,
    replica: Arc<ReplicaState>,
}

impl<C: Codec<N>, const N: usize> Log<C, N> {
    pub(super) fn new(
        stream: Stream<N>,
        codec: C,
        outbox: Outbox<C::Item>,
        replica: &Arc<ReplicaState>,
    ) -> Self {
        let log = Self {
            stream,
            codec,
            outbox,
            has_added: AtomicBool::new(false),
            state: Mutex::new(LogState {
                received: Err(RedisFault::NotRead),
                stored: Ok(()),
            }),
            replica: Arc::clone(replica),
        };
        log.report();
        log
    }

    /// Connects again and again.
    pub(super) async fn keep_connected(&self, redis: &Redis, primary: &Primary) -> Infallible {
        again_and_again(|| async move {
            let Err(fault) = self.run(redis, primary).await;
            self.disconnected(&fault);
        })
        .await
    }

    /// Sends and receives until the connection fails.
    pub(super) async fn run(
        &self,
        redis: &Redis,
        primary: &Primary,
    ) -> Result<Infallible, RedisFault> {
        let connection = redis.connect(primary).await?;
        self.outbox.connected();
        tokio::select! {
            biased;
            fault = self.receive(&connection) => fault,
            fault = self.send(&connection) => fault,
        }
    }

    pub(super) fn disconnected(&self, fault: &RedisFault) {
        let must_be_sent = |item: &C::Item| self.codec.load(item).is_some();
        self.outbox.disconnected(must_be_sent);
        self.change(|state| {
            state.received = Err(fault.clone());
            state.stored = Ok(());
        });
    }

    pub(super) fn report(&self) {
        let state = self.state.lock().clone();
        let [received, stored] =
            [state.received, state.stored].map(|result| result.map_err(|why| why.to_string()));
        self.replica.subscribers.emit(&Event::Replication {
            of: self.stream.of,
            received: received.as_ref().copied().map_err(String::as_str),
            stored: stored.as_ref().copied().map_err(String::as_str),
            is_catching_up: self.codec.is_catching_up(),
        });
    }

    fn emit_entries(&self, outcome: EntryOutcome, count: usize) {
        if count > 0 {
            let of = self.stream.of;
            self.replica
                .subscribers
                .emit(&Event::Entries { of, outcome, count });
        }
    }

    /// Changes the state, and reports it if it is another one.
    fn change(&self, change: impl FnOnce(&mut LogState)) {
        let mut state = self.state.lock();
        let before = state.clone();
        change(&mut state);
        if *state == before {
            return;
        }
        let log = self.stream.of.name();
        let is_same_connection = state.received == before.received;
        match (&state.received, &state.stored) {
            (Ok(()), _) if !is_same_connection => {
                tracing::info!(log, "synchronized with the other replicas");
            }
            (Err(fault), _) if !is_same_connection => {
                tracing::warn!(log, error = %fault, "not synchronized with the other replicas");
            }
            (_, Err(fault)) => tracing::warn!(log, error = %fault, "Redis stores no entries"),
            (_, Ok(())) => tracing::info!(log, "Redis stores entries again"),
        }
        drop(state);
        self.report();
    }

    /// Applies entries. Some are this replica's own.
    fn apply(&self, page: &Page<N>) {
        let malformed = EntryOutcome::Ignored(Ignored::Malformed);
        self.emit_entries(malformed, page.invalid);
        for entry in &page.entries {
            if let Some(outcome) = self.codec.apply(entry, &self.outbox) {
                self.emit_entries(outcome, 1);
            }
        }
    }

    /// Reads the stream, then receives new entries. Reads it again from time to time, and when this
    /// replica has other keys.
    async fn receive(&self, connection: &Connection) -> Result<Infallible, RedisFault> {
        let Self {
            stream,
            codec,
            outbox,
            ..
        } = self;
        let mut received: Option<String> = None;
        loop {
            let keys = codec.key_ids();
            outbox.begin_reading();
            self.has_added.store(false, Ordering::Relaxed);
            let apply = |page: &Page<N>| self.apply(page);
            let mut last = connection.read_all(stream, received.clone(), apply).await?;
            if received.is_none() {
                codec.initial_sync_done();
            }
            self.change(|state| state.received = Ok(()));
            let read_at = Instant::now();
            let mut requeue_at = Some(read_at + self.random_delay());
            let mut is_behind = false;
            while read_at.elapsed() < READING_INTERVAL && keys == codec.key_ids() {
                if !is_behind {
                    sleep(C::READ_PAUSE).await;
                }
                let Some(page) = connection.read_new(stream, &last).await? else {
                    tracing::warn!(
                        log = stream.of.name(),
                        "the stream in Redis was replaced: reading all of it"
                    );
                    break;
                };
                self.apply(&page);
                is_behind = page.is_full();
                if C::ADDS_AGAIN && last == BEGINNING && self.has_added.load(Ordering::Relaxed) {
                    // If the stream was deleted meanwhile, no earlier entry shows it.
                    break;
                }
                last = page.last.unwrap_or(last);
                if requeue_at.take_if(|at| *at <= Instant::now()).is_some() {
                    let missing = outbox.requeue_missing(|| codec.live());
                    if missing > 0 {
                        tracing::warn!(
                            log = stream.of.name(),
                            missing,
                            "Redis has lost entries, or a sealing key was removed: adding them again"
                        );
                    }
                }
            }
            received = Some(last);
        }
    }

    /// A random part of [`REQUEUE_DELAY_MAX`]. Without randomness it is all of it.
    fn random_delay(&self) -> Duration {
        let mut bytes = [u8::MAX; 2];
        let _ = self.replica.random.fill(&mut bytes);
        let part = f64::from(u16::from_be_bytes(bytes)) / f64::from(u16::MAX);
        REQUEUE_DELAY_MAX.mul_f64(part)
    }

    /// Sends the entries of this replica, and those again that Redis refused.
    async fn send(&self, connection: &Connection) -> Result<Infallible, RedisFault> {
        let (codec, mut refused_since) = (&self.codec, None);
        loop {
            let batch = self.outbox.offer(BATCH_MAX, |item| codec.load(item));
            if batch.is_empty() {
                // Another replica has added what Redis refused, or it has expired.
                refused_since = None;
                self.change(|state| state.stored = Ok(()));
                self.outbox.added().await;
                continue;
            }
            let entries = codec.encode(&batch);
            let results = connection.append(&self.stream, entries.into_iter()).await?;
            self.has_added.store(true, Ordering::Relaxed);
            self.outbox
                .settle(&batch, &results, |item| codec.load(item));
            let refused: Vec<_> = results.into_iter().filter_map(Result::err).collect();
            let stored = batch.len().saturating_sub(refused.len());
            self.emit_entries(EntryOutcome::Sent, stored);
            self.emit_entries(EntryOutcome::Refused, refused.len());
            let refusal = refused.into_iter().next();
            self.change(|state| state.stored = refusal.clone().map_or(Ok(()), Err));
            let Some(fault) = refusal else {
                refused_since = None;
                sleep(SEND_PAUSE).await;
                continue;
            };
            let since = refused_since.get_or_insert_with(Instant::now);
            if matches!(fault, RedisFault::ReadOnly) && since.elapsed() >= READ_ONLY_MAX {
                return Err(fault);
            }
            sleep(REFUSED_PAUSE).await;
        }
    }
}

/// Connects again and again. `connect` ends when the connection has failed. The pauses grow.
pub(super) async fn again_and_again<F: Future<Output = ()>>(connect: impl Fn() -> F) -> Infallible {
    let mut pause = PAUSE_MIN;
    loop {
        let began = Instant::now();
        connect().await;
        if began.elapsed() >= STABLE {
            pause = PAUSE_MIN;
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
pub(super) mod tests;
