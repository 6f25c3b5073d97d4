//! Test tokens, the inspection of tokens, and the explanation of scopes.

use actix_web::HttpResponse;
use auth_gateway_core::keys::Key as _;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::request::{Call, Json};
use super::response::{ControlError, created, ok};
use crate::explain::explain as explain_scope;
use crate::fixed_key::FIXED_SIGNING_KEY;
use crate::test_tokens::{self, TestToken};
use crate::tokens::inspect as inspect_token;

/// `GET signing-key`.
pub(super) async fn signing_key(call: Call) -> Result<HttpResponse, ControlError> {
    let gateway = &call.gateway()?.gateway;
    let fixed: Map<String, Value> = serde_json::from_str(FIXED_SIGNING_KEY)
        .map_err(|_| ControlError::failed("the fixed signing key is not JSON"))?;
    let kid = fixed.get("kid").and_then(Value::as_str);
    let key_set = gateway.replica.keys.signing.key_set();
    // Compare with the key in use: `keys.signing_dir` takes precedence over the setting.
    if kid != Some(key_set.current(gateway.replica.clock.now()).kid()) {
        return Err(ControlError::not_found(
            "the signing key is secret; with `iam.mock.fixed_signing_key = true` and without \
             `keys.signing_dir` it is the published key",
        ));
    }
    Ok(ok(&fixed))
}

/// The claims and header members to override.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MintRequest {
    #[serde(default)]
    claims: Map<String, Value>,
    #[serde(default)]
    header: Map<String, Value>,
}

/// `POST tokens`.
pub(super) async fn mint(call: Call<(), Json<MintRequest>>) -> Result<HttpResponse, ControlError> {
    #[derive(Serialize)]
    struct MintResponse<'a> {
        access_token: &'a str,
    }

    let gateway = &call.gateway()?.gateway;
    let Json(MintRequest { claims, header }) = &call.body;
    let token = TestToken {
        claims: claims.clone(),
        header: header.clone(),
    };
    let signed = test_tokens::sign(gateway, token)
        .map_err(|error| ControlError::failed(error.to_string()))?;
    Ok(created(&MintResponse {
        access_token: signed.expose_secret(),
    }))
}

/// The token to inspect.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InspectRequest {
    token: String,
}

/// `POST tokens/inspect`.
pub(super) async fn inspect(
    call: Call<(), Json<InspectRequest>>,
) -> Result<HttpResponse, ControlError> {
    let app_state = call.gateway()?;
    let Json(InspectRequest { token }) = &call.body;
    let inspection = inspect_token(&app_state.gateway, token)
        .map_err(|error| ControlError::invalid(format!("`token`: {error}")))?;
    Ok(ok(&inspection))
}

/// The user and the requested scope.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainRequest {
    user: String,
    scope: String,
}

/// `POST scopes/explain`.
pub(super) async fn explain(
    call: Call<(), Json<ExplainRequest>>,
) -> Result<HttpResponse, ControlError> {
    let app_state = call.gateway()?;
    if call.namespace.has_permission_source {
        return Err(ControlError::conflict(
            "the permissions come from `permissions.source`, not from the mock, which can explain \
             only its own",
        ));
    }
    let Json(ExplainRequest { user, scope }) = &call.body;
    let (user, _) = call.namespace.mock.directory().user_with_sessions(user)?;
    // The mock is the only IAM.
    let iam = app_state.gateway.iams.iter().next();
    let allowed = iam.and_then(|iam| iam.policy.allowed_scopes.as_ref());
    // As in the exchange.
    let scope = match scope.as_str() {
        "" => app_state.gateway.policy.default_scope.as_str(),
        scope => scope,
    };
    let explanation = explain_scope(scope, user.permissions(), allowed)
        .map_err(|fault| ControlError::invalid(format!("`scope`: {fault}")))?;
    Ok(ok(&explanation))
}
