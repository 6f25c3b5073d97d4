//! Namespaces: their list, status, reset and snapshots.

use actix_web::HttpResponse;
use actix_web::web::Path;
use futures_util::future::join_all;
use iam_adapters::{IamAdapter as _, IamError};
use serde::Serialize;

use super::request::{Call, Parameters, Query, number};
use super::response::{ControlError, created, no_content, ok, time};
use super::time::TimeResponse;
use crate::snapshots::{SnapshotInfo, TooManySnapshots, UnknownSnapshot};
use crate::{DeleteError, Front, Namespace, NamespaceName};

/// The counts of a namespace.
#[derive(Serialize)]
struct Counts {
    users: usize,
    sessions: usize,
    faults: usize,
    calls: u64,
}

impl Counts {
    /// The counts now.
    fn of(namespace: &Namespace) -> Self {
        let directory = namespace.mock.directory();
        Self {
            users: directory.users().len(),
            sessions: directory.active_session_count(),
            faults: namespace.mock.faults().len(),
            calls: namespace.mock.journal().calls(),
        }
    }
}

/// `GET namespaces`.
pub(super) async fn list(call: Call) -> HttpResponse {
    #[derive(Serialize)]
    struct NamespacesResponse {
        namespaces: Vec<NamespaceResponse>,
    }
    #[derive(Serialize)]
    struct NamespaceResponse {
        name: String,
        #[serde(flatten)]
        counts: Counts,
    }

    let all = call.namespaces.all();
    let namespaces = all.iter().map(|namespace| NamespaceResponse {
        name: namespace.name.to_string(),
        counts: Counts::of(namespace),
    });
    ok(&NamespacesResponse {
        namespaces: namespaces.collect(),
    })
}

/// `DELETE namespaces/{name}`.
pub(super) async fn delete(call: Call, name: Path<String>) -> Result<HttpResponse, ControlError> {
    call.namespaces.delete(&NamespaceName::parse(&name)?)?;
    Ok(no_content())
}

/// `?all=true`.
pub(super) struct ResetQuery(bool);

impl Query for ResetQuery {
    const NAMES: &'static [&'static str] = &["all"];

    fn read(parameters: &Parameters<'_>) -> Result<Self, ControlError> {
        Ok(Self(parameters.flag("all")?))
    }
}

/// `POST reset`.
pub(super) async fn reset(call: Call<ResetQuery>) -> Result<HttpResponse, ControlError> {
    if call.query.0 {
        call.namespaces.reset_all();
    } else {
        call.namespaces.reset(&call.namespace.name)?;
    }
    Ok(no_content())
}

impl From<DeleteError> for ControlError {
    fn from(error: DeleteError) -> Self {
        match error {
            DeleteError::Unknown => Self::not_found(error.to_string()),
            DeleteError::Default => {
                Self::conflict(format!("{error}; `POST /mock/v1/reset` resets it"))
            }
        }
    }
}

/// `GET status`.
pub(super) async fn status(call: Call) -> HttpResponse {
    #[derive(Serialize)]
    struct Status {
        namespace: String,
        adapter: &'static str,
        time: TimeResponse,
        #[serde(flatten)]
        counts: Counts,
        namespaces: usize,
    }

    let namespace = &call.namespace;
    ok(&Status {
        namespace: namespace.name.to_string(),
        adapter: match namespace.front {
            Front::Gateway(_) => "mock",
            Front::Realm(_) => "mock-iam",
        },
        time: TimeResponse::of(&namespace.clock),
        counts: Counts::of(namespace),
        namespaces: call.namespaces.count(),
    })
}

/// `POST probe`.
pub(super) async fn probe(call: Call) -> HttpResponse {
    #[derive(Serialize)]
    struct Probe {
        outcome: &'static str,
    }

    let probed = match &call.namespace.front {
        Front::Gateway(app_state) => {
            let iams = &app_state.gateway.iams;
            let probes = join_all(iams.iter().map(|iam| iam.adapter.probe())).await;
            probes.into_iter().collect()
        }
        Front::Realm(_) => call.namespace.mock.probe().await,
    };
    let outcome = probed.as_ref().err().map_or("ok", IamError::kind);
    ok(&Probe { outcome })
}

/// `POST forget`: clears the caches of the gateway.
pub(super) async fn clear_caches(call: Call) -> Result<HttpResponse, ControlError> {
    let replica = &call.gateway()?.gateway.replica;
    replica.revocations.initial_sync_done(replica.clock.now());
    Ok(no_content())
}

#[derive(Serialize)]
struct SnapshotResponse {
    id: u64,
    taken_at: String,
}

impl From<SnapshotInfo> for SnapshotResponse {
    fn from(SnapshotInfo { id, taken_at }: SnapshotInfo) -> Self {
        Self {
            id,
            taken_at: time(taken_at),
        }
    }
}

/// `GET snapshots`.
pub(super) async fn list_snapshots(call: Call) -> HttpResponse {
    #[derive(Serialize)]
    struct SnapshotsResponse {
        snapshots: Vec<SnapshotResponse>,
    }

    let snapshots = call.namespace.snapshots.list();
    ok(&SnapshotsResponse {
        snapshots: snapshots.into_iter().map(Into::into).collect(),
    })
}

/// `POST snapshots`.
pub(super) async fn take_snapshot(call: Call) -> Result<HttpResponse, ControlError> {
    let snapshot = call.namespace.snapshots.take(&call.namespace)?;
    Ok(created(&SnapshotResponse::from(snapshot)))
}

/// `POST snapshots/{id}/restore`.
pub(super) async fn restore_snapshot(
    call: Call,
    id: Path<String>,
) -> Result<HttpResponse, ControlError> {
    let snapshot = call.namespace.snapshots.find(number(&id)?)?;
    call.namespaces.restore(&call.namespace, &snapshot);
    Ok(no_content())
}

/// `DELETE snapshots/{id}`.
pub(super) async fn delete_snapshot(
    call: Call,
    id: Path<String>,
) -> Result<HttpResponse, ControlError> {
    call.namespace.snapshots.delete(number(&id)?)?;
    Ok(no_content())
}

impl From<TooManySnapshots> for ControlError {
    fn from(full: TooManySnapshots) -> Self {
        Self::conflict(full.to_string())
    }
}

impl From<UnknownSnapshot> for ControlError {
    fn from(unknown: UnknownSnapshot) -> Self {
        Self::not_found(unknown.to_string())
    }
}
