//! Sends revocations and login events to the other replicas through Redis, and receives theirs.
//!
//! Each revocation is an entry of one stream. A replica reads the stream from its beginning when it
//! connects, and then reads new entries every [`READ_PAUSE`]. A gateway that starts issues no tokens until it has read
//! the stream once, or until a deadline. After that no request waits long for Redis, and none fails
//! because of it: while Redis is unavailable, the freshness of cached data bounds how long another
//! replica accepts a session that has ended. The entries identify no user, and no entry, and no missing
//! entry, makes an ended session valid again. `tests/replication-model` checks the protocol. Login
//! events have streams and connections of their own.

mod fault;
mod format;
mod login_entry;
mod logins;
mod pending_queue;
mod redis;
mod shared_cache;
mod sync_state;

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Clock;
use tokio::time::{Instant, sleep};

pub use fault::RedisFault;
pub use pending_queue::PendingQueue;
pub use redis::{Address, InvalidRedis, Redis, Sentinels, Warning};

use crate::gateway::entry_key::{EntryKey, KEY_ID_LEN};
use crate::gateway::introspection_cache::shared::SharedCache;
use crate::gateway::keys::Keys;
use crate::gateway::revocations::Learned;
use crate::gateway::{Gateway, Random};
use crate::health::Health;
use crate::telemetry::metrics::{Ignored, ReplicaMetrics};
use logins::LoginExchange;
use redis::{Connection, Page, Primary};
use shared_cache::RedisCache;
use sync_state::SyncState;

/// The first and the longest pause before a reconnect.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// After a connection that lasted this long, the next pause is the first one again. Each reconnect
/// makes the cached data of this replica stale, which causes introspections.
const STABLE: Duration = Duration::from_secs(30);

/// The pause between two pings.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// After so many pings, the Sentinels are asked whether the primary is still the same one.
const PINGS_BETWEEN_SENTINELS: u32 = 5;

/// The pause before revocations that Redis refused are sent again.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// After this time with a read-only Redis the connection is closed and the name resolved again,
/// because a failover may have made another server the primary.
const READ_ONLY_MAX: Duration = Duration::from_secs(30);

/// How many revocations are sent at once.
const BATCH_MAX: usize = 500;

/// The pause after a batch, so that the next one has the revocations of that time. The first logout
/// after a pause does not wait. At 2,000 logouts a second, 5 ms take a third less time of the
/// processors than 2 ms.
const SEND_PAUSE: Duration = Duration::from_millis(5);

/// The time between two readings of the whole stream. They find lost entries without a reconnect and
/// remove expired ones. A million entries take about two seconds of the time of Redis.
const READING_INTERVAL: Duration = Duration::from_secs(600);

/// The pause between two reads of new entries. Redis could wait for an entry (`XREAD`), but would send it
/// whatever its size. And reading each entry by itself costs every replica more than the logout.
const READ_PAUSE: Duration = Duration::from_millis(25);

/// Missing revocations are added again after a random part of this time: so the first replica adds
/// most of them, and the others find them there.
const REQUEUE_DELAY_MAX: Duration = Duration::from_secs(2);

/// Connects a gateway to the other replicas.
#[derive(Debug)]
pub struct ReplicationStream {
    redis: Redis,
    pending: Arc<PendingQueue>,
    gateway: Arc<Gateway>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    metrics: ReplicaMetrics,
    sync_state: SyncState,
    catch_up_deadline: Duration,
    /// `None`: cached data is not shared.
    shared_cache: Option<RedisCache>,
    logins: LoginExchange,
}

/// The parts of a [`ReplicationStream`].
#[derive(Debug)]
pub struct ReplicationParts {
    /// The Redis of the replicas.
    pub redis: Redis,
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// Receives the state of the replication.
    pub health: Arc<Health>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of random delays.
    pub random: Arc<dyn Random>,
    /// The metrics.
    pub metrics: ReplicaMetrics,
    /// How long a gateway that starts issues no tokens if it cannot read the stream.
    pub catch_up_deadline: Duration,
    /// Whether cached data is shared with the other replicas.
    pub share_knowledge: bool,
}

impl ReplicationStream {
    /// Makes the gateway one of the replicas that use this Redis, without connecting. The gateway issues
    /// no tokens until it has read the stream, or until the deadline.
    #[must_use]
    pub fn new(parts: ReplicationParts) -> Self {
        let ReplicationParts {
            redis,
            gateway,
            health,
            clock,
            random,
            metrics,
            catch_up_deadline,
            share_knowledge,
        } = parts;
        let revocations = Arc::clone(gateway.session_revoker().revocations());
        let pending = Arc::new(PendingQueue::new(revocations, metrics.clone()));
        gateway
            .session_revoker()
            .join(Arc::<PendingQueue>::clone(&pending));
        let shared_cache = share_knowledge
            .then(|| RedisCache::new(redis.prefix(), Arc::clone(&clock), metrics.clone()));
        if let Some(cache) = &shared_cache {
            let cache: Arc<dyn SharedCache> = Arc::new(cache.clone());
            gateway.share_knowledge(&cache);
        }
        let logins = LoginExchange::new(
            redis.clone(),
            Arc::clone(&gateway),
            &*random,
            metrics.clone(),
        );
        Self {
            redis,
            pending,
            gateway,
            clock,
            random,
            sync_state: SyncState::new(health, metrics.clone()),
            metrics,
            catch_up_deadline,
            shared_cache,
            logins,
        }
    }

    /// The revocations that are not sent yet.
    #[must_use]
    pub fn pending(&self) -> Arc<PendingQueue> {
        Arc::clone(&self.pending)
    }

    /// Sends and receives until the future is dropped.
    pub async fn run(self) {
        tokio::join!(self.keep_connected(), self.bound_catch_up());
    }

    /// Lets the gateway issue tokens without Redis after the deadline: its IAM has the sessions, and
    /// reports the ended ones as inactive. (With an IAM without sessions, it would have to refuse.)
    async fn bound_catch_up(&self) {
        sleep(self.catch_up_deadline).await;
        if self.gateway.session_revoker().serve_without_catching_up() {
            self.sync_state.catch_up_overdue();
        }
    }

    async fn keep_connected(&self) {
        let mut pause = PAUSE_MIN;
        loop {
            let started = Instant::now();
            let Err(fault) = self.run_connections().await;
            self.pending.disconnected();
            if let Some(cache) = &self.shared_cache {
                cache.disconnected();
            }
            self.logins.disconnected(&fault);
            self.sync_state.disconnected(&fault);
            if started.elapsed() >= STABLE {
                pause = PAUSE_MIN;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Sends and receives until a connection fails. Two connections, because a read waits in Redis.
    async fn run_connections(&self) -> Result<Never, RedisFault> {
        let primary = self.redis.primary().await?;
        let reader = self.redis.connect(&primary).await?;
        let writer = self.redis.connect(&primary).await?;
        self.measure(&writer).await?;
        self.compare_keys(&writer).await?;
        self.pending.connected();
        if let Some(cache) = &self.shared_cache {
            cache.connected(writer.commands(), &primary);
        }
        tokio::select! {
            fault = self.receive(&reader) => fault,
            fault = self.send(&writer) => fault,
            fault = self.keep_alive(&writer, &primary) => fault,
            never = self.logins.run(&primary) => match never {},
        }
    }

    /// Reads the stream, then receives new entries. Reads it again from time to time, and when this
    /// replica has other keys: entries of a key that was unknown were ignored.
    async fn receive(&self, connection: &Connection) -> Result<Never, RedisFault> {
        let mut is_first = true;
        loop {
            let keys = self.key_ids();
            self.gateway.session_revoker().revocations().begin_reading();
            let stream = self.redis.revocations();
            let mut last = connection
                .read_all(&stream, |page| self.learn(page))
                .await?;
            if std::mem::take(&mut is_first) {
                self.gateway.caught_up();
            }
            self.sync_state.synchronized();
            let read_at = Instant::now();
            let mut requeue_at = Some(read_at + self.random_delay());
            while read_at.elapsed() < READING_INTERVAL && keys == self.key_ids() {
                sleep(READ_PAUSE).await;
                let Some(page) = connection.read_new(&stream, &last).await? else {
                    tracing::warn!("the revocations in Redis were replaced: reading all of them");
                    break;
                };
                self.learn(&page);
                last = page.last.unwrap_or(last);
                if requeue_at.is_some_and(|at| at <= Instant::now()) {
                    requeue_at = None;
                    self.requeue_missing();
                }
            }
        }
    }

    fn learn(&self, page: &Page<{ format::ENTRY_LEN }>) {
        let keys = self.gateway.keys().sealing.key_set();
        let mut ignored = page.invalid;
        for entry in &page.entries {
            let revocation = match format::read(entry, &keys) {
                Ok(revocation) => revocation,
                Err(Ignored::Malformed) => {
                    ignored += 1;
                    continue;
                }
                Err(why) => {
                    self.metrics.ignored(why, 1);
                    continue;
                }
            };
            match self.gateway.session_revoker().learn(&revocation) {
                Learned::New => {
                    self.metrics.received.inc();
                }
                Learned::Known | Learned::Expired => {}
            }
        }
        self.metrics.ignored(Ignored::Malformed, ignored);
    }

    fn requeue_missing(&self) {
        let missing = self.pending.requeue_missing(self.clock.now());
        if missing > 0 {
            tracing::warn!(
                revocations = missing,
                "Redis has lost revocations: adding them again"
            );
        }
    }

    /// Identifies the keys with which entries are authenticated.
    fn key_ids(&self) -> Vec<[u8; KEY_ID_LEN]> {
        let keys = self.gateway.keys().sealing.key_set();
        let keys = keys.iter().map(|key| key.revocations().entries());
        keys.map(EntryKey::id).collect()
    }

    /// A random part of [`REQUEUE_DELAY_MAX`]. Without randomness it is all of it.
    fn random_delay(&self) -> Duration {
        let mut bytes = [u8::MAX; 2];
        let _ = self.random.fill(&mut bytes);
        let part = f64::from(u16::from_be_bytes(bytes)) / f64::from(u16::MAX);
        REQUEUE_DELAY_MAX.mul_f64(part)
    }

    /// Sends the revocations of this replica, and those again that Redis refused.
    async fn send(&self, connection: &Connection) -> Result<Never, RedisFault> {
        let mut refused_since = None;
        loop {
            let batch = self.pending.take(BATCH_MAX);
            if batch.is_empty() {
                self.pending.wait(REFUSED_PAUSE).await;
                continue;
            }
            let keys = self.gateway.keys().sealing.key_set();
            let key = Arc::clone(keys.current(self.clock.now()).revocations());
            drop(keys);
            let entries = batch
                .iter()
                .map(|revocation| format::write(revocation, key.entries()));
            let results = connection
                .append(&self.redis.revocations(), entries)
                .await?;
            let refusal = results.iter().find_map(|result| result.clone().err());
            self.pending.settle(&batch, &results);
            sleep(SEND_PAUSE).await;
            if let Some(fault) = refusal {
                self.sync_state.refused(&fault);
                let since = refused_since.get_or_insert_with(Instant::now);
                if matches!(fault, RedisFault::ReadOnly) && since.elapsed() >= READ_ONLY_MAX {
                    return Err(fault);
                }
            } else {
                refused_since = None;
                self.sync_state.accepted();
            }
        }
    }

    /// Asks Redis for its time, also to find a connection that failed silently, compares the keys, and finds
    /// out whether Sentinel has made another server the primary.
    async fn keep_alive(
        &self,
        connection: &Connection,
        primary: &Primary,
    ) -> Result<Never, RedisFault> {
        loop {
            for _ in 0..PINGS_BETWEEN_SENTINELS {
                sleep(PING_INTERVAL).await;
                self.measure(connection).await?;
            }
            self.compare_keys(connection).await?;
            // Sentinels that do not respond are no reason to leave a Redis that does.
            let now = self.redis.primary().await;
            if now.is_ok_and(|now| now != *primary) {
                return Err(RedisFault::Replaced);
            }
        }
    }

    /// Compares the clock of this replica with that of Redis.
    async fn measure(&self, connection: &Connection) -> Result<(), RedisFault> {
        let sent = self.clock.now();
        let time = connection.time().await?;
        let timeline = self.gateway.session_revoker().timeline();
        let offset = timeline.measured(sent, time, self.clock.now());
        self.sync_state.clock(offset);
        Ok(())
    }

    /// Compares the keys of this replica with those of the others. A Redis that refuses it does not
    /// prevent the exchange of revocations.
    async fn compare_keys(&self, connection: &Connection) -> Result<(), RedisFault> {
        let (keys, now) = (self.gateway.keys(), self.clock.now());
        let (names, used) = (keys.names(now), Keys::USED);
        match connection.key_statements(&self.redis, &names, used).await {
            Ok(statements) => {
                let invalid = keys.compare(statements.lines(), now);
                self.metrics.ignored(Ignored::Malformed, invalid);
                Ok(())
            }
            Err(RedisFault::Refused(_)) => Ok(()),
            Err(fault) => Err(fault),
        }
    }
}

/// Has no value: the functions that return it end only with an error.
#[derive(Debug)]
enum Never {}

#[cfg(test)]
mod golden_tests;
