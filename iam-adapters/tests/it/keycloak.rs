//! The Keycloak adapter against a scripted server: its requests, and the meaning of each response.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::SystemClock;
use iam_adapters::keycloak::{Keycloak, KeycloakSettings};
use iam_adapters::{
    Authenticated, ClientContext, Credentials, IamAdapter, IamError, Misconfiguration, Permission,
    Permissions, Subject, UpstreamSession,
};
use serde_json::{Value, json};
use test_support::scripted_upstream::keycloak::{
    CLIENT, PERMISSIONS, PERMISSIONS_CLIENT, REALM, SESSION, SUBJECT, refresh_token,
};

mod faults;
mod grant;
mod introspection;
mod issuer;
mod keys;
mod login;
mod logout;
mod probe;
mod proof;
mod roles;
mod secrecy;
mod tls;

pub(super) const PASSWORD: &str = "alice-pass";
const SECRET: &str = "gate-secret-0123456789";

/// Long enough for loopback.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

fn settings_with(url: &str, changes: &Value) -> KeycloakSettings {
    let mut settings = json!({
        "url": url,
        "realm": REALM,
        "client_id": CLIENT,
        "client_secret": SECRET,
        "permissions_client": PERMISSIONS_CLIENT,
    });
    for (key, value) in changes.as_object().expect("an object") {
        settings[key] = value.clone();
    }
    serde_json::from_value(settings).expect("settings")
}

fn adapter_with(url: &str, changes: &Value) -> Keycloak {
    let clock = Arc::new(SystemClock::default());
    let adapter = Keycloak::new(&settings_with(url, changes), CONNECT_DEADLINE, clock);
    adapter.expect("an adapter")
}

pub(super) fn adapter(url: &str) -> Keycloak {
    adapter_with(url, &json!({}))
}

pub(super) fn credentials(password: &str) -> Credentials {
    Credentials::new("alice@example.test".to_owned(), password.into()).expect("credentials")
}

pub(super) fn client() -> ClientContext {
    ClientContext {
        address: Some(IpAddr::from([192, 0, 2, 7]).into()),
        request_id: "request-1".to_owned(),
    }
}

pub(super) fn session() -> UpstreamSession {
    session_of(CLIENT)
}

/// A login with the right password.
async fn log_in(adapter: &impl IamAdapter) -> Result<Authenticated, IamError> {
    let credentials = credentials(PASSWORD);
    adapter.authenticate(&credentials, &client()).await
}

/// The session, as one of this client.
fn session_of(client: &str) -> UpstreamSession {
    UpstreamSession {
        subject: Subject::new(SUBJECT).expect("a subject"),
        id: SESSION.to_owned(),
        secret: refresh_token(client).into(),
    }
}

pub(super) fn permissions(names: &[&str]) -> Permissions {
    names
        .iter()
        .map(|name| Permission::parse(name).expect(name))
        .collect()
}

fn all_permissions() -> Permissions {
    permissions(&PERMISSIONS)
}

/// The cause, if the result is a misconfiguration.
fn misconfigured<T>(result: &Result<T, IamError>) -> Option<Misconfiguration> {
    match result {
        Err(IamError::Misconfigured { what, .. }) => Some(*what),
        _ => None,
    }
}

/// The kind of the error, or `ok`.
fn kind<T>(result: &Result<T, IamError>) -> &'static str {
    result.as_ref().map_or_else(IamError::kind, |_| "ok")
}
