//! Cached data about sessions in Redis. A slow, unreachable, full or hostile Redis has the same effect as none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use iam_adapters::Clock;
use iam_adapters::name::Name as _;
use iam_adapters::resilient::{Circuit, CircuitBreaker};
use iam_adapters::trace::{self, ChildSpan};
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanBuilder, SpanKind};
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, cmd, pipe};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::redis::Primary;
use auth_gateway_core::introspection_cache::shared::ENTRY_BYTES_MAX;
use auth_gateway_core::results::LookUp;
use auth_gateway_core::revocations::RevocationId;
use auth_gateway_core::shared_cache::{LookUpFuture, SharedCache, Stored};

/// The deadline of a look-up. Redis takes less than a millisecond, and the IAM some 10 ms.
const LOOK_UP_DEADLINE: Duration = Duration::from_millis(20);

/// The deadline of a write, for which nothing waits.
const WRITE_DEADLINE: Duration = Duration::from_secs(1);

/// How many writes can be in progress. Further data is not shared: with a Redis that responds within
/// 1 ms, that takes 128,000 logins and introspections a second.
const WRITES_MAX: usize = 128;

/// The entries of sessions, each under a key with the id of the session's revocation.
#[derive(derive_more::Debug)]
#[debug("RedisCache {{ prefix: {prefix:?}, .. }}")]
pub(super) struct RedisCache {
    prefix: String,
    connection: ArcSwapOption<(MultiplexedConnection, Primary)>,
    circuit: CircuitBreaker,
    writes: Arc<Semaphore>,
}

impl RedisCache {
    /// Without a connection. All keys begin with the prefix.
    pub(super) fn new(prefix: &str, clock: Arc<dyn Clock>) -> Self {
        Self {
            prefix: prefix.to_owned(),
            connection: ArcSwapOption::empty(),
            circuit: CircuitBreaker::new(clock, report_pauses()),
            writes: Arc::new(Semaphore::new(WRITES_MAX)),
        }
    }

    pub(super) fn connected(&self, connection: MultiplexedConnection, primary: &Primary) {
        let connected = (connection, primary.clone());
        self.connection.store(Some(Arc::new(connected)));
    }

    /// From now on, finds and stores nothing.
    pub(super) fn disconnected(&self) {
        self.connection.store(None);
    }

    pub(super) fn key(&self, id: RevocationId) -> String {
        let id = URL_SAFE_NO_PAD.encode(id.as_bytes());
        format!("{}:session:{id}", self.prefix)
    }

    fn connection(&self) -> Option<MultiplexedConnection> {
        let connected = self.connection.load();
        connected
            .as_deref()
            .map(|(connection, _)| connection.clone())
    }

    /// Starts the span of an operation, by the semantic conventions of OpenTelemetry for Redis.
    fn span(&self, operation: &'static str) -> ChildSpan {
        ChildSpan::start(|| {
            let mut attributes = vec![
                KeyValue::new("db.system.name", "redis"),
                KeyValue::new("db.operation.name", operation),
            ];
            if let Some((_, Primary(host, port))) = self.connection.load().as_deref() {
                attributes.push(KeyValue::new("server.address", host.clone()));
                attributes.push(KeyValue::new("server.port", i64::from(*port)));
            }
            SpanBuilder::from_name(operation)
                .with_kind(SpanKind::Client)
                .with_attributes(attributes)
        })
    }

    /// # Errors
    ///
    /// The result of the look-up, if there is no entry.
    async fn look_up(&self, id: RevocationId) -> Result<Stored, LookUp> {
        let connection = self.connection().ok_or(LookUp::Unavailable)?;
        let permit = self.circuit.admit().ok_or(LookUp::Unavailable)?;
        let read = timeout(LOOK_UP_DEADLINE, read(connection, self.key(id))).await;
        permit.settle(!matches!(read, Ok(Ok(_))), &[]);
        match read {
            Ok(Ok(stored)) if stored.entry.is_empty() => Err(LookUp::Miss),
            Ok(Ok(stored)) => Ok(stored),
            Ok(Err(_)) => Err(LookUp::Unavailable),
            Err(_) => Err(LookUp::TimedOut),
        }
    }
}

/// Logs the first of several pauses in a row, and their end.
fn report_pauses() -> impl Fn(Circuit) + Send + Sync {
    let is_paused = AtomicBool::new(false);
    move |circuit| match circuit {
        Circuit::Open => {
            if !is_paused.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "cached data of other replicas is not used: look-ups in Redis fail or take too long"
                );
            }
        }
        Circuit::HalfOpen => {}
        Circuit::Closed => {
            is_paused.store(false, Ordering::Relaxed);
            tracing::info!("cached data of other replicas is used again");
        }
    }
}

/// Reads the entry of a key, and not more than the longest one and a byte. It is empty if there is none.
///
/// The remaining time is read first. So if the entry is replaced in between, it seems older than it
/// is, and not younger.
async fn read(mut connection: MultiplexedConnection, key: String) -> RedisResult<Stored> {
    let mut commands = pipe();
    commands.cmd("PTTL").arg(&key);
    commands
        .cmd("GETRANGE")
        .arg(&key)
        .arg(0)
        .arg(ENTRY_BYTES_MAX);
    let (remaining, entry): (i64, Vec<u8>) = commands.query_async(&mut connection).await?;
    // Negative: no key, or a key without an expiry, which no replica stores.
    let remaining = Duration::from_millis(u64::try_from(remaining).unwrap_or_default());
    Ok(Stored { entry, remaining })
}

impl SharedCache for RedisCache {
    fn get(&self, id: RevocationId) -> LookUpFuture<'_> {
        Box::pin(async move {
            let span = self.span("PIPELINE");
            let found = span.around(self.look_up(id)).await;
            span.end(|span| match &found {
                Ok(_) | Err(LookUp::Miss) => {}
                Err(fault) => trace::fail(span, fault.name()),
            });
            found
        })
    }

    fn put(&self, id: RevocationId, entry: Vec<u8>, lifetime: Duration) {
        let millis = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        let Some(mut connection) = self.connection() else {
            return;
        };
        let Ok(permit) = Arc::clone(&self.writes).try_acquire_owned() else {
            return;
        };
        if millis == 0 || !self.circuit.admits() {
            return;
        }
        let mut set = cmd("SET");
        set.arg(self.key(id)).arg(entry).arg("PX").arg(millis);
        let span = self.span("SET");
        tokio::spawn(async move {
            // If Redis does not store it, another replica calls the IAM.
            let stored = timeout(WRITE_DEADLINE, set.exec_async(&mut connection)).await;
            drop(permit);
            span.end(|span| match stored {
                Ok(Ok(())) => {}
                Ok(Err(_)) => trace::fail(span, LookUp::Unavailable.name()),
                Err(_) => trace::fail(span, LookUp::TimedOut.name()),
            });
        });
    }
}
