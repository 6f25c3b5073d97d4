//! Connects the gateway with the other replicas, if a Redis is configured.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::files;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::ServiceDependencies;
use crate::config::{Problems, RedisSettings, SentinelSettings, Settings};
use auth_gateway_core::Gateway;
use auth_gateway_core::revocations::RevocationIndex;
use auth_gateway_replication::{
    Address, Outbox, Redis, ReplicationParts, ReplicationStream, Sentinels,
};

/// How long a gateway that stops sends its pending revocations.
const FINAL_DELIVERY_DEADLINE: Duration = Duration::from_secs(1);

/// The Redis of the settings, without connecting; `None` if there is none, or if its files have
/// problems.
pub(super) fn redis(settings: &Settings, problems: &mut Problems) -> Option<Redis> {
    let redis = settings.redis.as_ref()?;
    prepare(redis, redis.prefix(&settings.http.public_url), problems)
}

fn prepare(settings: &RedisSettings, prefix: String, problems: &mut Problems) -> Option<Redis> {
    let ca_file = settings.ca_file.as_deref();
    let mut refuse = |problem: &dyn Display| {
        let file = ca_file.unwrap_or(Path::new("")).display();
        problems.add("redis.ca_file", format!("{file}: {problem}"));
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
        sentinels: settings.sentinel.as_ref().map(sentinels),
        prefix,
    };
    Redis::new(address).map_err(|invalid| refuse(&invalid)).ok()
}

fn sentinels(settings: &SentinelSettings) -> Sentinels {
    let addresses = settings.addresses.iter();
    Sentinels {
        addresses: addresses
            .map(|each| (each.host.clone(), each.port))
            .collect(),
        master: settings.master.clone(),
        username: settings.username.clone(),
        password: settings.password.clone(),
    }
}

/// The replication stream, which is not running yet; `None` without a Redis.
pub(super) fn replication_stream(
    settings: &Settings,
    parts: &ServiceDependencies,
    gateway: &Gateway,
) -> Option<ReplicationStream> {
    let (redis, outboxes) = parts.replication.clone()?;
    Some(ReplicationStream::new(ReplicationParts {
        redis,
        outboxes,
        tables: gateway.tables().clone(),
        keys: Arc::clone(&parts.keys),
        subscribers: gateway.subscribers().clone(),
        random: Arc::clone(&parts.random),
        catch_up_deadline: settings.redis.as_ref()?.catch_up_deadline,
    }))
}

/// A running replication stream.
pub(super) struct RunningReplication {
    task: JoinHandle<()>,
    pending: Outbox<RevocationIndex>,
}

/// Starts the replication stream, if there is one.
pub(super) fn run(stream: Option<ReplicationStream>) -> Option<RunningReplication> {
    stream.map(|stream| RunningReplication {
        pending: stream.pending(),
        task: actix_web::rt::spawn(stream.run()),
    })
}

/// Sends the pending revocations, within a deadline, and stops the replication stream.
pub(super) async fn end(running: Option<RunningReplication>) {
    if let Some(running) = running {
        let _ = timeout(FINAL_DELIVERY_DEADLINE, running.pending.emptied()).await;
        running.task.abort();
    }
}
