//! What most tests play in: a Keycloak, its administrator, and gateways before it by one clock.

use std::sync::Arc;

use iam_adapters::clock::ManualClock;
use iam_conformance::{Account, Fixture};
use jiff::Timestamp;
use test_support::app::TestApp;
use test_support::suite::World;

use crate::administrator::{Administrator, PermissionsFrom};
use crate::keycloak::Keycloak;

/// The longest that anything may go unnoticed, in seconds, as these gateways are set.
pub(crate) const FRESHNESS: u64 = 60;

/// For gateways that only notice in time what becomes of sessions.
pub(crate) const SESSIONS_ALONE: (&str, &str) = ("permissions.ttl", "1h");

/// For gateways that only notice in time what becomes of permissions.
pub(crate) const PERMISSIONS_ALONE: (&str, &str) = ("session.freshness", "1h");

/// How slow a Keycloak may be on a busy machine, and how many logins it should be spared by a clock
/// that mostly stands still, is not what is tried here.
pub(crate) const PATIENCE: [(&str, &str); 7] = [
    ("login_limits.account_sessions_per_minute", "0"),
    ("login_limits.rate", "0"),
    ("upstream.connect_deadline", "10s"),
    ("upstream.login_deadline", "60s"),
    ("upstream.introspection_deadline", "30s"),
    ("upstream.logout_deadline", "60s"),
    ("upstream.probe_deadline", "60s"),
];

pub(crate) struct Scene {
    pub(crate) keycloak: Keycloak,
    pub(crate) administrator: Arc<Administrator>,
    pub(crate) world: World,
}

impl Scene {
    /// Before the shared Keycloak.
    pub(crate) async fn new() -> Self {
        Self::before(&Keycloak::shared()).await
    }

    pub(crate) async fn before(keycloak: &Keycloak) -> Self {
        let client = PermissionsFrom::Client;
        let administrator = Administrator::new(keycloak, client, |bare| bare).await;
        let administrator = Arc::new(administrator);
        let fixture = Arc::<Administrator>::clone(&administrator);
        Self {
            keycloak: keycloak.clone(),
            administrator,
            world: World::new(|_| fixture as Arc<dyn Fixture>),
        }
    }

    /// A gateway that was told of this Keycloak by its settings.
    pub(crate) fn gateway(&self, more: &[(&str, &str)]) -> TestApp {
        self.gateway_of(&self.keycloak, more)
    }

    /// A gateway that was told this of a Keycloak.
    pub(crate) fn gateway_of(&self, keycloak: &Keycloak, more: &[(&str, &str)]) -> TestApp {
        let freshness = [("session.freshness", "60s"), ("permissions.ttl", "60s")];
        let settings = [&keycloak.settings()[..], &PATIENCE, &freshness, more].concat();
        let clock = Arc::<ManualClock>::clone(&self.world.clock);
        TestApp::spawn(clock, &settings)
    }

    pub(crate) async fn user(&self, permissions: &[&str]) -> Account {
        self.world.user(permissions).await
    }

    /// Lets so much time pass that nothing known before counts any more.
    pub(crate) fn outlive_freshness(&self) {
        self.world.advance(FRESHNESS);
    }
}

/// A timestamp of the API in seconds since 1970.
pub(crate) fn seconds(time: &str) -> u64 {
    let time = time.parse::<Timestamp>().expect("RFC 3339").as_second();
    u64::try_from(time).expect("a time after 1970")
}
