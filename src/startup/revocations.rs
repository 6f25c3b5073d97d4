//! Connects the gateway with its other replicas, where a Redis is set.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::{Clock, files};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::{Problems, RedisSettings, Settings};
use crate::gateway::Gateway;
use crate::health::Health;
use crate::replicas::{Address, Bus, Outbox, Redis};
use crate::telemetry::metrics::Metrics;

/// How long a gateway that stops goes on telling what ended at it.
const FAREWELL: Duration = Duration::from_secs(1);

/// The Redis that the settings name; none where they name none, or something is wrong with its
/// files. Speaks to nobody.
pub(super) fn redis(settings: &Settings, problems: &mut Problems) -> Option<Redis> {
    let redis = settings.revocations.redis.as_ref()?;
    prepare(redis, problems)
}

fn prepare(settings: &RedisSettings, problems: &mut Problems) -> Option<Redis> {
    let ca_file = settings.ca_file.as_deref();
    let mut refuse = |problem: &dyn Display| {
        let file = ca_file.unwrap_or(Path::new("")).display();
        problems.add("revocations.redis.ca_file", format!("{file}: {problem}"));
    };
    let authorities = ca_file.map(std::fs::read).transpose();
    let authorities = authorities.map_err(|error| refuse(&files::reason(&error)));
    let address = Address {
        host: settings.host(),
        port: settings.port(),
        tls: settings.has_tls(),
        database: settings.database().unwrap_or_default(),
        username: settings.username.clone(),
        password: settings.password.clone(),
        authorities: authorities.ok()?,
    };
    Redis::new(&address)
        .map_err(|invalid| refuse(&invalid))
        .ok()
}

/// The bus to the other replicas, which runs only when it is told to; none without a Redis.
pub(super) fn bus(
    settings: &Settings,
    redis: Option<Redis>,
    gateway: &Arc<Gateway>,
    health: &Arc<Health>,
    clock: &Arc<dyn Clock>,
    metrics: &Metrics,
) -> Option<Bus> {
    let deadline = settings.revocations.redis.as_ref()?.catch_up_deadline;
    let bus = |redis| {
        Bus::new(
            redis,
            Arc::clone(gateway),
            Arc::clone(health),
            Arc::clone(clock),
            metrics.replicas(),
            deadline,
        )
    };
    redis.map(bus)
}

/// A bus under way.
pub(super) struct Running {
    task: JoinHandle<()>,
    outbox: Arc<Outbox>,
}

/// Sets the bus under way, where there is one.
pub(super) fn run(bus: Option<Bus>) -> Option<Running> {
    bus.map(|bus| Running {
        outbox: bus.outbox(),
        task: actix_web::rt::spawn(bus.run()),
    })
}

/// Lets the bus tell what is left to tell, for a moment, and ends it.
pub(super) async fn end(running: Option<Running>) {
    if let Some(running) = running {
        let _ = timeout(FAREWELL, running.outbox.emptied()).await;
        running.task.abort();
    }
}
