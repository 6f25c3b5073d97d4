//! How a realm of `mock-iam` is set, beside its users.

use actix_web::HttpResponse;
use actix_web::web::Data;

use super::answer::ok;
use super::body::Json;
use super::call::Call;
use super::refused::Refused;
use crate::wire::{Change, Realm, Realms};

/// Where there are realms; a gateway has none.
pub(super) type Here = Option<Data<Realms>>;

/// `GET realm`.
pub(super) async fn show(call: Call, realms: Here) -> Result<HttpResponse, Refused> {
    Ok(ok(&realm(&call, realms.as_ref())?.shown()))
}

/// `PATCH realm`.
pub(super) async fn change(
    call: Call<(), Json<Change>>,
    realms: Here,
) -> Result<HttpResponse, Refused> {
    let realm = realm(&call, realms.as_ref())?;
    let Json(change) = call.body;
    realm.change(change);
    Ok(ok(&realm.shown()))
}

fn realm<B>(call: &Call<(), B>, realms: Option<&Data<Realms>>) -> Result<Realm, Refused> {
    let realms = realms.ok_or_else(|| {
        Refused::not_found("only the IAM of `mock-iam`, which is asked over the wire, is a realm")
    })?;
    let realm = realms.of(call.world.clone());
    realm.ok_or_else(|| Refused::failed("the machine has no randomness"))
}
