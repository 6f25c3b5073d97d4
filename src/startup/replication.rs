//! Connects the gateway with the other replicas, if a Redis is configured.

use std::fmt::Display;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actix_web::rt::spawn;
use iam_adapters::files;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::ServiceDependencies;
use crate::config::{ConfigErrors, Settings};
use auth_gateway_core::Gateway;
use auth_gateway_core::revocations::RevocationIndex;
use auth_gateway_replication::{Outbox, Redis, ReplicationStream};

/// How long a gateway that stops sends its pending revocations.
const FINAL_DELIVERY_DEADLINE: Duration = Duration::from_secs(1);

/// The Redis of the settings, without connecting; `None` if there is none, or if its files have
/// problems.
pub(super) fn redis(settings: &Settings, problems: &mut ConfigErrors) -> Option<Redis> {
    let settings = settings.redis.as_ref()?;
    let ca_file = settings.ca_file.as_deref();
    let mut refuse = |problem: &dyn Display| {
        let file = ca_file.unwrap_or(Path::new("")).display();
        problems.add("redis.ca_file", format!("{file}: {problem}"));
    };
    let read = |path| -> io::Result<Vec<u8>> {
        let mut authorities = Vec::new();
        files::open(path)?.read_to_end(&mut authorities)?;
        Ok(authorities)
    };
    let authorities = ca_file.map(read).transpose();
    let authorities = authorities.map_err(|error| refuse(&files::reason(&error)));
    let redis = Redis::new(settings.address(authorities.ok()?));
    redis.map_err(|invalid| refuse(&invalid)).ok()
}

/// The replication stream, which is not running yet; `None` without a Redis.
pub(super) fn stream(
    settings: &Settings,
    parts: &ServiceDependencies,
    gateway: &Gateway,
) -> Option<ReplicationStream> {
    let (redis, outboxes) = parts.replication.clone()?;
    let deadline = catch_up_deadline(settings);
    let replica = Arc::clone(&gateway.replica);
    Some(ReplicationStream::new(redis, outboxes, replica, deadline))
}

/// When a gateway that cannot read Redis issues tokens: its IAMs have the sessions and report the ended ones as
/// inactive. `None`: never, because an IAM can end no session, so that only Redis knows which ones were ended.
pub(super) fn catch_up_deadline(settings: &Settings) -> Option<Duration> {
    if settings.iams.iter().any(|iam| iam.adapter.needs_redis()) {
        return None;
    }
    settings.redis.as_ref().map(|redis| redis.catch_up_deadline)
}

/// A running replication stream: what is pending, and its task.
type Running = (Outbox<RevocationIndex>, JoinHandle<()>);

/// Starts the replication stream, if there is one.
pub(super) fn run(stream: Option<ReplicationStream>) -> Option<Running> {
    stream.map(|stream| (stream.pending(), spawn(stream.run())))
}

/// Sends the pending revocations, within a deadline, and stops the replication stream.
pub(super) async fn end(running: Option<Running>) {
    if let Some((pending, task)) = running {
        let _ = timeout(FINAL_DELIVERY_DEADLINE, pending.emptied()).await;
        task.abort();
    }
}
