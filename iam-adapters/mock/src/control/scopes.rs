//! Why a scope is granted, or is not.

use actix_web::HttpResponse;
use serde::Deserialize;

use super::answer::ok;
use super::body::Json;
use super::call::Call;
use super::refused::Refused;
use crate::explain::explain as explained;

/// Who asks, and what for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Explaining {
    user: String,
    scope: String,
}

/// `POST scopes/explain`.
pub(super) async fn explain(call: Call<(), Json<Explaining>>) -> Result<HttpResponse, Refused> {
    let Json(Explaining { user, scope }) = &call.body;
    let (user, _) = call.world.mock.directory().user_with_sessions(user)?;
    let told = explained(scope, user.permissions());
    let told = told.map_err(|fault| Refused::invalid(format!("`scope`: {fault}")))?;
    Ok(ok(&told))
}
