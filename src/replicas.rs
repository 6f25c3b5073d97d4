//! The other replicas, by way of a Redis between them: what ends here is told there, and what ends
//! there is learned here.
//!
//! A revocation is a key in Redis, which whoever was away finds on coming back, and a message,
//! which whoever is there hears at once. A gateway that starts issues no tokens before it has read
//! those keys, or a deadline is over. From then on no request waits long for Redis and none fails for
//! it: while it is away, the freshness of knowledge bounds how long a session that ended at one
//! replica goes on at another. Nothing in Redis tells whose session ended, and nothing in it, or
//! missing from it, revives one.

mod connection;
mod fault;
mod outbox;
mod standing;
mod text;

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Clock;
use tokio::time::{Instant, sleep};

pub use connection::{Address, InvalidRedis, Redis};
pub use fault::RedisFault;
pub use outbox::Outbox;

use crate::gateway::Gateway;
use crate::gateway::revocations::{Learned, Revocation};
use crate::health::Health;
use crate::telemetry::metrics::{Ignored, ReplicaFigures};
use connection::{Connection, Incoming, PAGE};
use outbox::Sent;
use standing::Standing;

/// The first pause before Redis is tried again, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// After a connection that lasted this long, the pauses begin anew. One that breaks again and again
/// makes this replica distrust what it knows each time, which the IAM has to bear.
const STEADY: Duration = Duration::from_secs(30);

/// The pause between two looks at whether Redis is there at all. Its answer has as long again.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The pause before what Redis refused to keep is offered again.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// A Redis that may only be read for this long may be one that was replaced: its name is looked up
/// again.
const READ_ONLY_MAX: Duration = Duration::from_secs(30);

/// What carries revocations to and fro.
#[derive(Debug)]
pub struct Bus {
    redis: Redis,
    outbox: Arc<Outbox>,
    gateway: Arc<Gateway>,
    clock: Arc<dyn Clock>,
    figures: ReplicaFigures,
    standing: Standing,
    catch_up_deadline: Duration,
}

impl Bus {
    /// Makes the gateway one of the replicas around this Redis. Speaks to nobody yet. The gateway
    /// issues no tokens until it has read what ended before, or this deadline is over.
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
        let outbox = Arc::new(Outbox::new(revocations, figures.clone()));
        gateway.session_ends().join(Arc::<Outbox>::clone(&outbox));
        Self {
            redis,
            outbox,
            gateway,
            clock,
            standing: Standing::new(health, figures.clone()),
            figures,
            catch_up_deadline,
        }
    }

    /// What is still to be told.
    #[must_use]
    pub fn outbox(&self) -> Arc<Outbox> {
        Arc::clone(&self.outbox)
    }

    /// Goes on until it is dropped.
    pub async fn run(self) {
        tokio::join!(self.keep_connected(), self.bound_catch_up());
    }

    /// Lets the gateway serve without Redis once the deadline is over: its IAM holds the sessions,
    /// and calls those inactive that ended there. (Before one that does not hold them, it would have
    /// to go on refusing.)
    async fn bound_catch_up(&self) {
        sleep(self.catch_up_deadline).await;
        if self.gateway.session_ends().serve_without_catching_up() {
            self.standing.overdue();
        }
    }

    async fn keep_connected(&self) {
        let mut pause = PAUSE_MIN;
        loop {
            let began = Instant::now();
            let Err(fault) = self.connected().await;
            self.outbox.disconnected();
            self.standing.out_of_step(&fault);
            if began.elapsed() >= STEADY {
                pause = PAUSE_MIN;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Goes on until the connection is lost.
    async fn connected(&self) -> Result<Never, RedisFault> {
        let (connection, incoming) = self.redis.connect().await?;
        connection.subscribe().await?;
        self.outbox.connected();
        tokio::select! {
            fault = self.hear(incoming) => fault,
            fault = self.catch_up(&connection) => fault,
            fault = self.tell(&connection) => fault,
            fault = beat(&connection) => fault,
        }
    }

    /// Learns what is told from now on.
    async fn hear(&self, mut incoming: Incoming) -> Result<Never, RedisFault> {
        loop {
            let message = incoming.next().await?;
            self.learn(text::read_message(&message));
        }
    }

    /// Learns what was told before. Whatever is told meanwhile is heard already.
    async fn catch_up(&self, connection: &Connection) -> Result<Never, RedisFault> {
        let mut cursor = 0;
        loop {
            let (next, page) = connection.page(cursor).await?;
            for (key, value) in page {
                // A key that expired between two looks has no value any more.
                if value.as_ref().is_none_or(|value| !value.is_empty()) {
                    self.learn(value.and_then(|value| text::read_entry(&key, &value)));
                }
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
        self.gateway.in_step_again();
        self.standing.in_step();
        std::future::pending().await
    }

    fn learn(&self, told: Option<Revocation>) {
        let Some(revocation) = told else {
            self.figures.ignored(Ignored::Malformed);
            return;
        };
        match self.gateway.session_ends().learn(&revocation) {
            Learned::New => self.figures.received(),
            Learned::Known | Learned::Past => {}
            Learned::Implausible => self.figures.ignored(Ignored::Implausible),
        }
    }

    /// Tells what ends here, and again what Redis refused.
    async fn tell(&self, connection: &Connection) -> Result<Never, RedisFault> {
        let mut refused_since = None;
        loop {
            let batch = self.outbox.take(PAGE);
            if batch.is_empty() {
                self.outbox.wait(REFUSED_PAUSE).await;
                continue;
            }
            let now = self.clock.now().unix_seconds();
            let results = connection.send(&batch, now).await?;
            let refusal = results.iter().find_map(Sent::refusal).cloned();
            self.outbox.settle(&batch, &results);
            if let Some(fault) = refusal {
                self.standing.refused(&fault);
                let since = refused_since.get_or_insert_with(Instant::now);
                if matches!(fault, RedisFault::ReadOnly) && since.elapsed() >= READ_ONLY_MAX {
                    return Err(fault);
                }
            } else {
                refused_since = None;
                self.standing.accepted();
            }
        }
    }
}

/// There is no such value.
#[derive(Debug)]
enum Never {}

/// Notices a Redis that is gone without a word.
async fn beat(connection: &Connection) -> Result<Never, RedisFault> {
    loop {
        sleep(HEARTBEAT).await;
        connection.ping().await?;
    }
}
