//! Sends revocations and login events to the other replicas through Redis, and receives theirs.
//!
//! Each is an entry of a [log](log::Log). A gateway that starts issues no tokens until it has read the log of
//! revocations once, or until a deadline. After that no request waits long for Redis, and none fails
//! because of it: while Redis is unavailable, the freshness of cached data bounds how long another
//! replica accepts a session that has ended. The entries identify no user, and no entry, and no missing
//! entry, makes an ended session valid again. `tests/replication-model` checks the protocol.

mod fault;
mod format;
mod log;
mod login_entry;
mod logins;
mod outbox;
mod redis;
mod revocations;
mod shared_cache;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Clock;
use tokio::time::sleep;

pub use crate::redis::{Address, Connect, Connecting, InvalidRedis, Redis, Sentinels, Warning};
pub use fault::RedisFault;
pub use outbox::Outbox;

use crate::redis::{Connection, Primary};
use auth_gateway_core::Random;
use auth_gateway_core::event::{EntryOutcome, Event, Ignored, Replicated};
use auth_gateway_core::replica_state::{ReplicaState, Replicas};
use auth_gateway_core::revocations::RevocationIndex;
use auth_gateway_core::shared_cache::SharedCache;
use log::{Log, again_and_again};
use logins::{LoginLog, LoginOutboxes};
use revocations::RevocationCodec;
use shared_cache::RedisCache;

const PING_INTERVAL: Duration = Duration::from_secs(1);

/// After this number of pings, the Sentinels are asked whether the primary is still the same one.
const PINGS_BETWEEN_SENTINELS: u32 = 5;

/// Connects a gateway to the other replicas.
#[derive(Debug)]
pub struct ReplicationStream {
    redis: Redis,
    outboxes: Outboxes,
    replica: Arc<ReplicaState>,
    catch_up_deadline: Option<Duration>,
    revocations: Log<RevocationCodec, { format::ENTRY_LEN }>,
    logins: [LoginLog; 2],
}

/// What this replica sends: built before its gateway, which sends through it.
#[derive(Debug, Clone)]
pub struct Outboxes {
    revocations: Outbox<RevocationIndex>,
    logins: Arc<LoginOutboxes>,
    /// `None`: cached data is not shared.
    shared_cache: Option<Arc<RedisCache>>,
}

impl Outboxes {
    /// Empty ones. Cached data is shared through this Redis if `share_knowledge`.
    #[must_use]
    pub fn new(
        redis: &Redis,
        clock: &Arc<dyn Clock>,
        random: &dyn Random,
        share_knowledge: bool,
    ) -> Self {
        let cache = || Arc::new(RedisCache::new(redis.prefix(), Arc::clone(clock)));
        Self {
            // The table of revocations bounds it.
            revocations: Outbox::new(usize::MAX),
            logins: Arc::new(LoginOutboxes::new(logins::QUEUE_MAX, random)),
            shared_cache: share_knowledge.then(cache),
        }
    }

    /// What the gateway of this replica uses.
    #[must_use]
    pub fn replicas(&self) -> Replicas {
        Replicas {
            revocations: Some(Arc::new(self.revocations.clone())),
            logins: Some(Arc::<LoginOutboxes>::clone(&self.logins)),
            cache: (self.shared_cache.clone()).map(|cache| cache as Arc<dyn SharedCache>),
        }
    }
}

impl ReplicationStream {
    /// Makes the replica one of those that use this Redis, without connecting. What it sends comes from the
    /// outboxes. If it cannot read the stream, it issues no tokens until the deadline has passed; `None`: until it can.
    #[must_use]
    pub fn new(
        redis: Redis,
        outboxes: Outboxes,
        replica: Arc<ReplicaState>,
        catch_up_deadline: Option<Duration>,
    ) -> Self {
        let outbox = outboxes.revocations.clone();
        let codec = RevocationCodec(Arc::clone(&replica));
        Self {
            revocations: Log::new(
                redis.stream(Replicated::Revocations),
                codec,
                outbox,
                &replica,
            ),
            logins: logins::logs(&redis, &outboxes.logins, &replica),
            redis,
            outboxes,
            replica,
            catch_up_deadline,
        }
    }

    /// The revocations that are not sent yet.
    #[must_use]
    pub fn pending(&self) -> Outbox<RevocationIndex> {
        self.outboxes.revocations.clone()
    }

    /// Sends and receives until the future is dropped.
    pub async fn run(self) {
        tokio::join!(self.keep_connected(), self.enforce_sync_deadline());
    }

    async fn keep_connected(&self) {
        again_and_again(|| async move {
            let Err(fault) = self.run_connections().await;
            self.disconnected(&fault);
        })
        .await;
    }

    /// Lets the gateway issue tokens without Redis after the deadline.
    async fn enforce_sync_deadline(&self) {
        let Some(deadline) = self.catch_up_deadline else {
            return;
        };
        sleep(deadline).await;
        if self.replica.revocations.serve_without_catching_up() {
            tracing::warn!("tokens are issued without the revocations of the other replicas");
            self.revocations.report();
        }
    }

    fn disconnected(&self, fault: &RedisFault) {
        if let Some(cache) = &self.outboxes.shared_cache {
            cache.disconnected();
        }
        self.revocations.disconnected(fault);
        for log in &self.logins {
            log.disconnected(fault);
        }
    }

    /// Sends and receives until a connection fails. Revocations do not depend on the logs of login events.
    async fn run_connections(&self) -> Result<Infallible, RedisFault> {
        let primary = self.redis.primary().await?;
        let connection = self.redis.connect(&primary).await?;
        self.measure(&connection).await?;
        self.compare_keys(&connection).await?;
        if let Some(cache) = &self.outboxes.shared_cache {
            cache.connected(connection.commands(), &primary);
        }
        let [failures, known_networks] = &self.logins;
        tokio::select! {
            biased;
            fault = self.revocations.run(&self.redis, &primary) => fault,
            fault = self.keep_alive(&connection, &primary) => fault,
            never = failures.keep_connected(&self.redis, &primary) => match never {},
            never = known_networks.keep_connected(&self.redis, &primary) => match never {},
        }
    }

    /// Asks Redis for its time, also to find a connection that failed silently, compares the keys, and finds
    /// out whether Sentinel has made another server the primary.
    async fn keep_alive(
        &self,
        connection: &Connection,
        primary: &Primary,
    ) -> Result<Infallible, RedisFault> {
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
        let sent = self.replica.clock.now();
        let time = connection.time().await?;
        let timeline = &self.replica.timeline;
        let offset = timeline.measured(sent, time, self.replica.clock.now());
        self.replica.subscribers.emit(&Event::Clock { offset });
        Ok(())
    }

    /// Compares the keys of this replica with those of the others. A Redis that refuses it does not
    /// prevent the exchange of revocations.
    async fn compare_keys(&self, connection: &Connection) -> Result<(), RedisFault> {
        let (keys, now) = (&self.replica.keys, self.replica.clock.now());
        let [used, stored] = keys.names(now);
        match connection.key_statements(&self.redis, &used, &stored).await {
            Ok(statements) => {
                let count = keys.compare(statements.lines(), now);
                if count > 0 {
                    self.replica.subscribers.emit(&Event::Entries {
                        of: Replicated::Keys,
                        outcome: EntryOutcome::Ignored(Ignored::Malformed),
                        count,
                    });
                }
                Ok(())
            }
            Err(RedisFault::Refused(_)) => Ok(()),
            Err(fault) => Err(fault),
        }
    }
}

#[cfg(test)]
mod golden_tests;
