//! The adapter of a generic authorization server against a scripted server: its requests, and the
//! meaning of each response.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::oauth2::OAuth2Settings;
use iam_adapters::settings::AdapterSettings as _;
use iam_adapters::{ClientSection as _, IamAdapter, UpstreamSession};
use serde_json::{Value, json};
use test_support::ManualClock;
use test_support::json::{with, without};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::calls::{
    PASSWORD, SECRET, client, credentials, is_misconfigured, kind, log_in, misconfigured,
    permissions,
};

mod client_authentication;
mod discovery;
mod errors;
mod login;
mod sessions;

const CLIENT: &str = "auth-gateway";
const SUBJECT: &str = "orCYyUmjKcxJz4sFsmvgwVhgzhwgDmmZ";
const ACCESS_TOKEN: &str = "access-canary";
const REFRESH_TOKEN: &str = "refresh-canary";
const READ: &str = "urn:shop:orders:order:read";
const WRITE: &str = "urn:shop:orders:order:write";
const NOW: u64 = 1_800_000_000;

const DISCOVERY: &str = "/iam/.well-known/openid-configuration";
/// Without OpenID Connect, django-oauth-toolkit has only this one.
const RFC8414_DISCOVERY: &str = "/iam/.well-known/oauth-authorization-server";
const TOKEN: &str = "/iam/token";
const INTROSPECTION: &str = "/iam/introspect";
const REVOCATION: &str = "/iam/revoke";

/// A server on which every login succeeds, as the one user.
async fn healthy() -> ScriptedUpstream {
    let upstream = ScriptedUpstream::start().await;
    upstream
        .on(DISCOVERY, Answer::json(200, metadata(&upstream)))
        .on(RFC8414_DISCOVERY, Answer::json(200, metadata(&upstream)))
        .on(TOKEN, Answer::json(200, grant()))
        .on(INTROSPECTION, Answer::json(200, active()))
        .on(REVOCATION, Answer::empty(200));
    upstream
}

fn metadata(upstream: &ScriptedUpstream) -> Value {
    let url = upstream.url();
    json!({
        "issuer": format!("{url}/iam"),
        "token_endpoint": format!("{url}{TOKEN}"),
        "introspection_endpoint": format!("{url}{INTROSPECTION}"),
        "revocation_endpoint": format!("{url}{REVOCATION}"),
    })
}

fn grant() -> Value {
    json!({
        "access_token": ACCESS_TOKEN,
        "token_type": "bearer",
        "expires_in": 300,
        "refresh_token": REFRESH_TOKEN,
        "scope": "openid",
    })
}

fn active() -> Value {
    json!({
        "active": true,
        "sub": SUBJECT,
        "username": "alice@example.test",
        "client_id": CLIENT,
        "iat": NOW + 5,
        "exp": NOW + 1805,
        "scope": format!("openid {READ} {WRITE}"),
        "groups": ["sales", "two words"],
        "https://example.test/roles": ["admin"],
        "resource": {"a/b": {"roles": ["deep"]}},
        "employee": 1815,
    })
}

fn inactive() -> Answer {
    Answer::json(200, json!({"active": false}))
}

/// The error response with this code (RFC 6749 section 5.2).
fn error(status: u16, code: &str) -> Answer {
    Answer::json(status, json!({"error": code}))
}

fn settings_with(upstream: &ScriptedUpstream, changes: &Value) -> OAuth2Settings {
    let settings = json!({
        "issuer": format!("{}/iam", upstream.url()),
        "client_id": CLIENT,
        "client_secret": SECRET,
    });
    let section = serde_json::from_value(with(settings, changes)).expect("a section");
    OAuth2Settings::read(section).expect("settings")
}

fn adapter_with(upstream: &ScriptedUpstream, changes: &Value) -> Arc<dyn IamAdapter> {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(NOW)));
    let settings = settings_with(upstream, changes);
    let adapter = settings.connect("iam.oauth2", clock, Duration::from_secs(5), None);
    adapter.expect("an adapter")
}

fn adapter(upstream: &ScriptedUpstream) -> Arc<dyn IamAdapter> {
    adapter_with(upstream, &json!({}))
}

/// The session of a login that must succeed.
async fn session(adapter: &Arc<dyn IamAdapter>) -> UpstreamSession {
    log_in(adapter).await.expect("a login").session
}
