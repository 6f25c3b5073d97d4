//! A namespace as it was, to come back to.

use actix_web::HttpResponse;
use actix_web::web::Path;
use serde::Serialize;

use super::answer::{created, done, ok, time};
use super::call::{Call, number};
use super::refused::Refused;
use crate::snapshots::{Full, Kept, Unknown};

#[derive(Serialize)]
struct SnapshotTold {
    id: u64,
    taken_at: String,
}

impl From<Kept> for SnapshotTold {
    fn from(Kept { id, taken_at }: Kept) -> Self {
        Self {
            id,
            taken_at: time(taken_at),
        }
    }
}

/// `GET snapshots`.
pub(super) async fn list(call: Call) -> HttpResponse {
    #[derive(Serialize)]
    struct SnapshotsTold {
        snapshots: Vec<SnapshotTold>,
    }

    let kept = call.world.snapshots.list();
    ok(&SnapshotsTold {
        snapshots: kept.into_iter().map(Into::into).collect(),
    })
}

/// `POST snapshots`.
pub(super) async fn take(call: Call) -> Result<HttpResponse, Refused> {
    let kept = call.world.snapshots.take(&call.world)?;
    Ok(created(&SnapshotTold::from(kept)))
}

/// `POST snapshots/{id}/restore`.
pub(super) async fn restore(call: Call, id: Path<String>) -> Result<HttpResponse, Refused> {
    let snapshot = call.world.snapshots.find(number(&id)?)?;
    call.namespaces.restore(&call.world, &snapshot);
    Ok(done())
}

/// `DELETE snapshots/{id}`.
pub(super) async fn forget(call: Call, id: Path<String>) -> Result<HttpResponse, Refused> {
    call.world.snapshots.forget(number(&id)?)?;
    Ok(done())
}

impl From<Full> for Refused {
    fn from(full: Full) -> Self {
        Self::conflict(full.to_string())
    }
}

impl From<Unknown> for Refused {
    fn from(unknown: Unknown) -> Self {
        Self::not_found(unknown.to_string())
    }
}
