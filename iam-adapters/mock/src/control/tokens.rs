//! Access tokens with any content, and what stands in one.

use actix_web::HttpResponse;
use auth_gateway::gateway::keys::Dated as _;
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::answer::{created, ok};
use super::body::Json;
use super::call::Call;
use super::refused::Refused;
use crate::fixed_key::FIXED_SIGNING_KEY;
use crate::test_tokens::{self, TestToken};
use crate::tokens::inspect as inspected;

/// `GET signing-key`.
pub(super) async fn signing_key(call: Call) -> Result<HttpResponse, Refused> {
    let gateway = &call.house()?.front.gateway;
    let fixed: Map<String, Value> = serde_json::from_str(FIXED_SIGNING_KEY)
        .map_err(|_| Refused::failed("the fixed signing key is no JSON"))?;
    let kid = fixed.get("kid").and_then(Value::as_str);
    let key_set = gateway.keys().signing.key_set();
    // By the key that signs, whatever the settings say: a folder of keys goes before.
    if kid != Some(key_set.current(gateway.now()).kid()) {
        return Err(Refused::not_found(
            "the signing key is secret; where `iam.mock.fixed_signing_key = true`, and no \
             `keys.signing_dir` is set, it is the published one",
        ));
    }
    Ok(ok(&fixed))
}

/// What shall be different about a token.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Minting {
    #[serde(default)]
    claims: Map<String, Value>,
    #[serde(default)]
    header: Map<String, Value>,
}

/// `POST tokens`.
pub(super) async fn mint(call: Call<(), Json<Minting>>) -> Result<HttpResponse, Refused> {
    #[derive(Serialize)]
    struct Minted<'a> {
        access_token: &'a str,
    }

    let gateway = &call.house()?.front.gateway;
    let Json(Minting { claims, header }) = &call.body;
    let token = TestToken {
        claims: claims.clone(),
        header: header.clone(),
    };
    let made = test_tokens::sign(gateway, token);
    let made = made.map_err(|error| Refused::failed(error.to_string()))?;
    Ok(created(&Minted {
        access_token: made.expose_secret(),
    }))
}

/// The token.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inspected {
    token: String,
}

/// `POST tokens/inspect`.
pub(super) async fn inspect(call: Call<(), Json<Inspected>>) -> Result<HttpResponse, Refused> {
    let front = &call.house()?.front;
    let Json(Inspected { token }) = &call.body;
    let told = inspected(&front.gateway, front.jwks_max_age, token);
    let told = told.map_err(|no_token| Refused::invalid(format!("`token`: {no_token}")))?;
    Ok(ok(&told))
}
