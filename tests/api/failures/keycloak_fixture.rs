//! A gateway in front of a scripted Keycloak.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::ManualClock;
use test_support::client::{Response, Session};
use test_support::gateway::{TestGateway, keycloak_settings, manual_clock};
use test_support::scripted_upstream::keycloak::{
    CLIENT, DISCOVERY, INTROSPECTION, LOGOUT, PERMISSIONS, REALM, TOKEN,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};
use test_support::wait::until;

use super::STALE;

pub(super) const EMAIL: &str = "alice@example.test";
pub(super) const PASSWORD: &str = "a password that stays here";
pub(super) const SECRET: &str = "a client secret that stays here";

/// The endpoints of Keycloak that a client's request can cause a call to.
pub(super) const PATHS: [&str; 3] = [TOKEN, INTROSPECTION, LOGOUT];

/// A gateway and its Keycloak. The first probe is never answered, so that readiness shows the results
/// of operations only.
pub(super) struct KeycloakFixture {
    pub(super) keycloak: ScriptedUpstream,
    clock: Arc<ManualClock>,
    pub(super) gateway: TestGateway,
}

/// A gateway for a Keycloak at this address.
pub(super) fn gateway(
    url: &str,
    clock: &Arc<ManualClock>,
    overrides: &[(&str, &str)],
) -> TestGateway {
    let keycloak = keycloak_settings(url, REALM, CLIENT, SECRET);
    let clock = Arc::<ManualClock>::clone(clock);
    TestGateway::start_with_clock(clock, &[&keycloak, overrides].concat())
}

impl KeycloakFixture {
    pub(super) async fn new(overrides: &[(&str, &str)]) -> Self {
        let (keycloak, clock) = (ScriptedUpstream::keycloak().await, manual_clock());
        keycloak.once(DISCOVERY, Answer::hanging());
        // The machine may be busy, and the age of data must not be shorter than an introspection.
        let long = [
            ("upstream.connect_deadline", "60s"),
            ("upstream.login_deadline", "60s"),
            ("upstream.introspection_deadline", "30s"),
            ("upstream.logout_deadline", "60s"),
            ("upstream.probe_deadline", "60s"),
        ];
        let overrides = [&long, overrides].concat();
        let gateway = gateway(&keycloak.url(), &clock, &overrides);
        keycloak.received(DISCOVERY, 1).await;
        Self {
            keycloak,
            clock,
            gateway,
        }
    }

    /// From now on every endpoint works.
    pub(super) fn recovers(&self) {
        self.keycloak.in_good_health();
    }

    pub(super) async fn log_in(&self) -> Response {
        self.gateway.log_in(EMAIL, &PASSWORD.into()).await
    }

    pub(super) async fn exchange(&self, session: &Session) -> Response {
        self.gateway.exchange(session, PERMISSIONS[0]).await
    }

    /// The gateway's response to the request that calls this path, which has this answer.
    pub(super) async fn call_with_fault(&self, path: &str, answer: &Answer) -> Response {
        self.recovers();
        match path {
            INTROSPECTION => {
                let session = self.stale_session().await;
                self.keycloak.on(path, answer.clone());
                self.exchange(&session).await
            }
            LOGOUT => {
                let session = self.stale_session().await;
                self.keycloak.on(path, answer.clone());
                self.gateway.log_out(&session).await
            }
            _ => {
                self.keycloak.on(path, answer.clone());
                self.log_in().await
            }
        }
    }

    /// A session whose cached data is stale. Before, the gateway finishes the logouts that failed in
    /// earlier cases, because readiness would report them.
    pub(super) async fn stale_session(&self) -> Session {
        const LONGEST_PAUSE: Duration = Duration::from_secs(300);
        let unfinished = async || self.gateway.metric("unfinished_logouts", "").await;
        if unfinished().await > 0 {
            self.clock.advance(LONGEST_PAUSE);
            until("the end of failed logouts", async || {
                unfinished().await == 0
            })
            .await;
        }
        let session = self.log_in().await.session();
        self.clock.advance(STALE);
        session
    }

    /// Panics unless readiness has this status, for exactly these reasons.
    pub(super) async fn is_ready(&self, status: &str, codes: &[&str]) {
        self.gateway.ready().await.is_readiness(status, codes);
    }
}
