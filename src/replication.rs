//! Sends revocations to the other replicas through Redis, and receives theirs.
//!
//! A revocation is stored as a key in Redis, for replicas that connect later, and published as a
//! message to the connected replicas. A gateway that starts issues no tokens until it has read the
//! keys, or until a deadline. After that no request waits long for Redis, and none fails because of it:
//! while Redis is unavailable, the freshness of cached data bounds how long another replica accepts a
//! session that has ended. The entries in Redis identify no user, and no entry, and no missing entry,
//! makes an ended session valid again.

mod connection;
mod fault;
mod format;
mod pending_queue;
mod sync_state;

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Clock;
use tokio::time::{Instant, sleep};

pub use connection::{Address, InvalidRedis, Redis};
pub use fault::RedisFault;
pub use pending_queue::PendingQueue;

use crate::gateway::Gateway;
use crate::gateway::revocations::{Learned, Revocation};
use crate::health::Health;
use crate::telemetry::metrics::{Ignored, ReplicaFigures};
use connection::{BATCH_MAX, Connection, Incoming};
use pending_queue::Sent;
use sync_state::SyncState;

/// The first and the longest pause before a reconnect.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// After a connection that lasted this long, the next pause is the first one again. Each reconnect
/// makes the cached data of this replica stale, which causes introspections.
const STABLE: Duration = Duration::from_secs(30);

/// The pause between two pings.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// The pause before revocations that Redis refused are sent again.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// After this time with a read-only Redis the connection is closed and the name resolved again,
/// because a failover may have made another server the primary.
const READ_ONLY_MAX: Duration = Duration::from_secs(30);

/// Connects a gateway to the other replicas.
#[derive(Debug)]
pub struct ReplicationStream {
    redis: Redis,
    pending: Arc<PendingQueue>,
    gateway: Arc<Gateway>,
    clock: Arc<dyn Clock>,
    figures: ReplicaFigures,
    sync_state: SyncState,
    catch_up_deadline: Duration,
}

impl ReplicationStream {
    /// Makes the gateway one of the replicas that use this Redis, without connecting. The gateway issues
    /// no tokens until it has read the revocations in Redis, or until `catch_up_deadline`.
    #[must_use]
    pub fn new(
        redis: Redis,
        gateway: Arc<Gateway>,
        health: Arc<Health>,
        clock: Arc<dyn Clock>,
        figures: ReplicaFigures,
        catch_up_deadline: Duration,
    ) -> Self {
        let revocations = Arc::clone(gateway.session_ends().revocations());
        let pending = Arc::new(PendingQueue::new(revocations, figures.clone()));
        gateway
            .session_ends()
            .join(Arc::<PendingQueue>::clone(&pending));
        Self {
            redis,
            pending,
            gateway,
            clock,
            sync_state: SyncState::new(health, figures.clone()),
            figures,
            catch_up_deadline,
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
        if self.gateway.session_ends().serve_without_catching_up() {
            self.sync_state.catch_up_overdue();
        }
    }

    async fn keep_connected(&self) {
        let mut pause = PAUSE_MIN;
        loop {
            let started = Instant::now();
            let Err(fault) = self.run_connection().await;
            self.pending.disconnected();
            self.sync_state.disconnected(&fault);
            if started.elapsed() >= STABLE {
                pause = PAUSE_MIN;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Sends and receives until the connection fails.
    async fn run_connection(&self) -> Result<Never, RedisFault> {
        let (connection, incoming) = self.redis.connect().await?;
        connection.subscribe().await?;
        self.pending.connected();
        tokio::select! {
            fault = self.receive(incoming) => fault,
            fault = self.catch_up(&connection) => fault,
            fault = self.send(&connection) => fault,
            fault = keep_alive(&connection) => fault,
        }
    }

    /// Receives the messages of other replicas.
    async fn receive(&self, mut incoming: Incoming) -> Result<Never, RedisFault> {
        loop {
            let message = incoming.next().await?;
            self.learn(format::read_message(&message));
        }
    }

    /// Reads the stored revocations. Those that are stored meanwhile arrive as messages.
    async fn catch_up(&self, connection: &Connection) -> Result<Never, RedisFault> {
        let mut cursor = 0;
        loop {
            let (next, page) = connection.page(cursor).await?;
            for (key, value) in page {
                // A key that has expired since the scan has an empty value.
                if value.as_ref().is_none_or(|value| !value.is_empty()) {
                    self.learn(value.and_then(|value| format::read_entry(&key, &value)));
                }
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
        self.gateway.caught_up();
        self.sync_state.synchronized();
        std::future::pending().await
    }

    fn learn(&self, received: Option<Revocation>) {
        let Some(revocation) = received else {
            self.figures.ignored(Ignored::Malformed);
            return;
        };
        match self.gateway.session_ends().learn(&revocation) {
            Learned::New => self.figures.received(),
            Learned::Known | Learned::Expired => {}
            Learned::Implausible => self.figures.ignored(Ignored::Implausible),
        }
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
            let now = self.clock.now().unix_seconds();
            let results = connection.send(&batch, now).await?;
            let refusal = results.iter().find_map(Sent::refusal).cloned();
            self.pending.settle(&batch, &results);
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
}

/// Has no value: the functions that return it end only with an error.
#[derive(Debug)]
enum Never {}

/// Pings Redis, to find a connection that failed silently.
async fn keep_alive(connection: &Connection) -> Result<Never, RedisFault> {
    loop {
        sleep(PING_INTERVAL).await;
        connection.ping().await?;
    }
}
