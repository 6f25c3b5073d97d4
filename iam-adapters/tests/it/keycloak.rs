//! The Keycloak adapter against a scripted server: its requests, and the meaning of each response.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::ClientSection as _;
use iam_adapters::clock::SystemClock;
use iam_adapters::keycloak::KeycloakSettings;
use iam_adapters::settings::AdapterSettings as _;
use iam_adapters::{IamAdapter, Permissions, Subject, UpstreamSession};
use serde_json::{Value, json};
use test_support::json::{with, without};
use test_support::scripted_upstream::keycloak::{
    CLIENT, PERMISSIONS, PERMISSIONS_CLIENT, REALM, SESSION, SUBJECT, refresh_token,
};

use super::calls::{
    PASSWORD, SECRET, client, credentials, is_misconfigured, kind, log_in, misconfigured,
    permissions,
};

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
/// Long enough for loopback.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

fn settings_with(url: &str, changes: &Value) -> KeycloakSettings {
    let settings = json!({
        "url": url,
        "realm": REALM,
        "client_id": CLIENT,
        "client_secret": SECRET,
        "permissions_client": PERMISSIONS_CLIENT,
    });
    let section = serde_json::from_value(with(settings, changes)).expect("a section");
    KeycloakSettings::read(section).expect("settings")
}

fn adapter_with(url: &str, changes: &Value) -> Arc<dyn IamAdapter> {
    let clock = Arc::new(SystemClock::default());
    let settings = settings_with(url, changes);
    let adapter = settings.connect("iam.keycloak", clock, CONNECT_DEADLINE, None);
    adapter.expect("an adapter")
}

pub(super) fn adapter(url: &str) -> Arc<dyn IamAdapter> {
    adapter_with(url, &json!({}))
}

pub(super) fn session() -> UpstreamSession {
    session_of(CLIENT)
}

/// The session, as one of this client.
fn session_of(client: &str) -> UpstreamSession {
    UpstreamSession {
        subject: Subject::new(SUBJECT).expect("a subject"),
        id: SESSION.to_owned(),
        secret: refresh_token(client).into(),
    }
}

fn all_permissions() -> Permissions {
    permissions(&PERMISSIONS)
}
