//! A Keycloak, its administrator, and gateways in front of it by one clock.

use std::fs;
use std::sync::Arc;

use iam_adapters::{Authenticated, ClientContext, Credentials, IamAdapter, IamError};
use iam_conformance::{Account, Fixture};
use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use test_support::ManualClock;
use test_support::gateway::{TestGateway, prepare};
use test_support::suite::IamFixture;

use crate::administrator::{Administrator, PermissionsFrom};
use crate::keycloak::Keycloak;

/// The freshness of these gateways, in seconds.
pub(crate) const FRESHNESS: u64 = 60;

/// That freshness for sessions and permissions.
pub(crate) const FRESHNESS_SETTINGS: [(&str, &str); 2] =
    [("session.freshness", "60s"), ("permissions.ttl", "60s")];

/// For gateways whose permissions do not become stale in a test.
pub(crate) const SESSIONS_ALONE: (&str, &str) = ("permissions.ttl", "1h");

/// For gateways whose sessions do not become stale in a test.
pub(crate) const PERMISSIONS_ALONE: (&str, &str) = ("session.freshness", "1h");

/// Deadlines for a Keycloak on a busy machine, and no login limits, whose windows would never end
/// by a clock that stands still.
pub(crate) const LONG_DEADLINES: [(&str, &str); 7] = [
    ("login_limits.account_sessions_per_minute", "0"),
    ("login_limits.rate", "0"),
    ("upstream.connect_deadline", "10s"),
    ("upstream.login_deadline", "60s"),
    ("upstream.introspection_deadline", "30s"),
    ("upstream.logout_deadline", "60s"),
    ("upstream.probe_deadline", "60s"),
];

pub(crate) struct LiveFixture {
    pub(crate) keycloak: Keycloak,
    pub(crate) administrator: Arc<Administrator>,
    pub(crate) iam: IamFixture,
}

impl LiveFixture {
    /// With the shared Keycloak.
    pub(crate) async fn new() -> Self {
        Self::with_keycloak(&Keycloak::shared(), PermissionsFrom::Client).await
    }

    pub(crate) async fn with_keycloak(keycloak: &Keycloak, permissions: PermissionsFrom) -> Self {
        let administrator = Arc::new(Administrator::new(keycloak, permissions).await);
        let iam = Arc::<Administrator>::clone(&administrator);
        Self {
            keycloak: keycloak.clone(),
            administrator,
            iam: IamFixture::new(|_| iam as Arc<dyn Fixture>),
        }
    }

    /// A gateway in front of this Keycloak.
    pub(crate) fn gateway(&self, more: &[(&str, &str)]) -> TestGateway {
        self.gateway_with_file(&json!({}), more)
    }

    /// A gateway in front of this Keycloak, with a settings file for what a variable cannot express.
    pub(crate) fn gateway_with_file(&self, file: &Value, more: &[(&str, &str)]) -> TestGateway {
        let path = NamedTempFile::new().expect("a file");
        fs::write(&path, toml::to_string(file).expect("TOML")).expect("written");
        let settings = self.keycloak.settings();
        let settings = [&settings[..], &LONG_DEADLINES, &FRESHNESS_SETTINGS, more].concat();
        let clock = Arc::<ManualClock>::clone(&self.iam.clock);
        let (settings, parts) = prepare(Some(path.path()), &settings, clock);
        TestGateway::with_namespaces(settings, parts)
    }

    pub(crate) async fn user(&self, permissions: &[&str]) -> Account {
        self.iam.user(permissions).await
    }

    /// Advances the clock until all cached data is stale.
    pub(crate) fn outlive_freshness(&self) {
        self.iam.advance(FRESHNESS);
    }
}

/// A server that a test starts, and gateways in front of it by one clock.
pub(crate) struct ServerFixture<S> {
    pub(crate) server: Arc<S>,
    pub(crate) iam: IamFixture,
}

impl<S: Fixture + 'static> ServerFixture<S> {
    pub(crate) fn new(server: S) -> Self {
        let server = Arc::new(server);
        let iam = Arc::<S>::clone(&server);
        Self {
            server,
            iam: IamFixture::new(|_| iam as Arc<dyn Fixture>),
        }
    }

    /// A gateway in front of this server.
    pub(crate) fn gateway(&self, more: &[(&str, &str)]) -> TestGateway {
        let settings = [&LONG_DEADLINES[..], &FRESHNESS_SETTINGS, more].concat();
        self.iam.gateway_with(&settings)
    }
}

/// A login by the adapter alone.
pub(crate) async fn log_in(
    adapter: &dyn IamAdapter,
    email: &str,
    password: impl Into<SecretString>,
) -> Result<Authenticated, IamError> {
    let credentials = Credentials::new(email.to_owned(), password.into()).expect("credentials");
    let client = ClientContext::default();
    adapter.authenticate(&credentials, &client).await
}

/// A timestamp of the API in seconds since 1970.
pub(crate) fn seconds(time: &str) -> u64 {
    let time = time.parse::<Timestamp>().expect("RFC 3339").as_second();
    u64::try_from(time).expect("a time after 1970")
}
