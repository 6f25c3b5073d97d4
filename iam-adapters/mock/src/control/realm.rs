//! The settings of a realm of `mock-iam`.

use actix_web::HttpResponse;
use actix_web::web::Data;

use super::request::{Call, Json};
use super::response::{ControlError, ok};
use crate::wire::{Realm, RealmSettingsChange, Realms};

/// The realms; none in `auth-gateway-dev`.
pub(super) type OptionalRealms = Option<Data<Realms>>;

/// `GET realm`.
pub(super) async fn show(call: Call, realms: OptionalRealms) -> Result<HttpResponse, ControlError> {
    Ok(ok(&realm(&call, realms.as_ref())?.settings_response()))
}

/// `PATCH realm`.
pub(super) async fn change(
    call: Call<(), Json<RealmSettingsChange>>,
    realms: OptionalRealms,
) -> Result<HttpResponse, ControlError> {
    let realm = realm(&call, realms.as_ref())?;
    let Json(change) = call.body;
    realm.change(change);
    Ok(ok(&realm.settings_response()))
}

fn realm<B>(call: &Call<(), B>, realms: Option<&Data<Realms>>) -> Result<Realm, ControlError> {
    let realms = realms.ok_or_else(|| ControlError::not_found("only `mock-iam` has realms"))?;
    let realm = realms.of(call.namespace.clone());
    realm.ok_or_else(|| ControlError::failed("the system has no random numbers"))
}
