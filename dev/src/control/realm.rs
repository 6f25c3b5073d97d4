//! The settings of a realm of `mock-iam`.

use std::sync::Arc;

use actix_web::HttpResponse;
use mock_iam::wire::{Realm, RealmSettingsChange};

use super::request::{Call, Json};
use super::response::{ControlError, ok};

/// `GET realm`.
pub(super) async fn show(call: Call) -> Result<HttpResponse, ControlError> {
    Ok(ok(&realm(&call)?.description()))
}

/// `PATCH realm`.
pub(super) async fn change(
    call: Call<(), Json<RealmSettingsChange>>,
) -> Result<HttpResponse, ControlError> {
    let realm = realm(&call)?;
    let Json(change) = &call.body;
    realm.change(change);
    Ok(ok(&realm.description()))
}

fn realm<B>(call: &Call<(), B>) -> Result<&Realm, ControlError> {
    let realm = call.namespace.realm().map(Arc::as_ref);
    realm.ok_or_else(|| ControlError::not_found("only `mock-iam` has realms"))
}
