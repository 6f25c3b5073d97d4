//! The Keycloak adapter before a server that follows a script.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::ManualClock;
use serde_json::json;
use test_support::app::TestApp;
use test_support::client::{Response, Session};
use test_support::scripted_upstream::keycloak::{
    CLIENT, DISCOVERY, INTROSPECTION, LOGOUT, PERMISSIONS, PERMISSIONS_CLIENT, REALM, TOKEN,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{STALE, clock};

pub(super) const EMAIL: &str = "alice@example.test";
pub(super) const PASSWORD: &str = "a password that stays here";
pub(super) const SECRET: &str = "a client secret that stays here";

/// Where Keycloak serves what a client brings about.
pub(super) const PATHS: [&str; 3] = [TOKEN, INTROSPECTION, LOGOUT];

/// Far longer than it takes a gateway to ask its IAM.
const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway and the server behind it. The first probe is never answered, so that the operations
/// alone have the last word on the IAM.
pub(super) struct Wired {
    pub(super) keycloak: ScriptedUpstream,
    clock: Arc<ManualClock>,
    pub(super) gateway: TestApp,
}

/// A gateway for a Keycloak at this address.
pub(super) fn gateway(url: &str, clock: &Arc<ManualClock>, overrides: &[(&str, &str)]) -> TestApp {
    let keycloak = [
        ("iam.keycloak.url", url),
        ("iam.keycloak.realm", REALM),
        ("iam.keycloak.client_id", CLIENT),
        ("iam.keycloak.client_secret", SECRET),
        ("iam.keycloak.permissions_client", PERMISSIONS_CLIENT),
    ];
    let clock = Arc::<ManualClock>::clone(clock);
    TestApp::spawn(clock, &[&keycloak, overrides].concat())
}

impl Wired {
    pub(super) async fn new(overrides: &[(&str, &str)]) -> Self {
        let (keycloak, clock) = (ScriptedUpstream::keycloak().await, clock());
        keycloak.once(DISCOVERY, Answer::hanging());
        let unanswered = [("upstream.probe_deadline", "60s")];
        let overrides = [&unanswered, overrides].concat();
        let gateway = gateway(&keycloak.url(), &clock, &overrides);
        keycloak.received(DISCOVERY, 1).await;
        Self {
            keycloak,
            clock,
            gateway,
        }
    }

    /// From now on everything is in good health.
    pub(super) fn recovers(&self) {
        self.keycloak.in_good_health();
    }

    pub(super) async fn log_in(&self) -> Response {
        self.gateway.log_in(EMAIL, &PASSWORD.into()).await
    }

    pub(super) async fn exchange(&self, session: &Session) -> Response {
        self.gateway.exchange(session, PERMISSIONS[0]).await
    }

    /// The answer to the one request that needs this path, which is answered so.
    pub(super) async fn meets(&self, path: &str, answer: &Answer) -> Response {
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

    /// A session of which nothing is known that is fresh.
    pub(super) async fn stale_session(&self) -> Session {
        let session = self.log_in().await.session();
        self.clock.advance(STALE);
        session
    }

    /// Panics unless readiness says so of the IAM.
    pub(super) async fn is_ready(&self, status: &str, code: Option<&str>) {
        is_ready(&self.gateway.ready().await, status, code);
    }
}

/// Panics unless the report says this, and gives this reason.
#[track_caller]
pub(super) fn is_ready(report: &Response, status: &str, code: Option<&str>) {
    let told = report.told();
    let http = if status == "not_ready" { 503 } else { 200 };
    assert_eq!(report.status, http, "{told}");
    let report = report.json();
    assert_eq!(report["status"], json!(status), "{told}");
    let reasons = report["reasons"].as_array().expect("a list of reasons");
    let codes: Vec<_> = reasons.iter().map(|one| one["code"].as_str()).collect();
    assert_eq!(codes, Vec::from_iter(code.map(Some)), "{told}");
}

/// Waits until readiness says this, for these reasons and no others.
pub(crate) async fn says(gateway: &TestApp, status: &str, codes: &[&str]) {
    let there = async {
        loop {
            let report = gateway.ready().await.json();
            let reasons = report["reasons"].as_array().expect("a list of reasons");
            let told: Vec<_> = reasons.iter().map(|one| one["code"].clone()).collect();
            if report["status"] == json!(status) && told == codes {
                return;
            }
        }
    };
    let there = tokio::time::timeout(PATIENCE, there).await;
    assert!(there.is_ok(), "{}", gateway.ready().await.told());
}

/// Waits until the first word of the IAM, which is that to the first probe, or a later one has
/// brought readiness there. Each question is an exchange over the network, so this is no busy loop.
pub(super) async fn becomes(gateway: &TestApp, status: &str, code: Option<&str>) {
    let there = async {
        loop {
            let report = gateway.ready().await;
            let told = report.json();
            if told["status"] == json!(status) && told["iam"]["last_result"] != json!("none") {
                return report;
            }
        }
    };
    let report = tokio::time::timeout(PATIENCE, there).await;
    is_ready(&report.expect("the readiness waited for"), status, code);
}
