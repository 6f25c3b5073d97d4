//! A gateway in front of a scripted IAM.

use std::sync::Arc;
use std::time::Duration;

use test_support::ManualClock;
use test_support::client::{Response, Session};
use test_support::gateway::{TestGateway, manual_clock};
use test_support::scripted_upstream::keycloak::PERMISSIONS;
use test_support::scripted_upstream::{Answer, ScriptedUpstream, WireProtocol};
use test_support::wait::until;

use super::STALE;

pub(super) const EMAIL: &str = "alice@example.test";
pub(super) const PASSWORD: &str = "a password that stays here";
pub(super) const SECRET: &str = "a client secret that stays here";

/// A gateway and its IAM. The first probe is never answered, so that readiness shows the results of
/// operations only.
pub(super) struct WireFixture {
    pub(super) protocol: WireProtocol,
    pub(super) iam: ScriptedUpstream,
    pub(super) clock: Arc<ManualClock>,
    pub(super) gateway: TestGateway,
}

/// A gateway for an IAM at this address.
pub(super) fn gateway(
    protocol: &WireProtocol,
    url: &str,
    clock: &Arc<ManualClock>,
    overrides: &[(&str, &str)],
) -> TestGateway {
    let settings = (protocol.settings)(url, SECRET);
    let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
    let settings: Vec<_> = settings.chain(overrides.iter().copied()).collect();
    TestGateway::start_with_clock(Arc::<ManualClock>::clone(clock), &settings)
}

impl WireFixture {
    pub(super) async fn new(protocol: &WireProtocol, overrides: &[(&str, &str)]) -> Self {
        let (iam, clock) = (ScriptedUpstream::of(protocol).await, manual_clock());
        iam.once(protocol.discovery, Answer::hanging());
        // The machine may be busy, and the age of data must not be shorter than an introspection.
        let long = [
            ("upstream.connect_deadline", "60s"),
            ("upstream.login_deadline", "60s"),
            ("upstream.introspection_deadline", "30s"),
            ("upstream.logout_deadline", "60s"),
            ("upstream.probe_deadline", "60s"),
        ];
        let overrides = [&long, overrides].concat();
        let gateway = gateway(protocol, &iam.url(), &clock, &overrides);
        iam.received(protocol.discovery, 1).await;
        Self {
            protocol: *protocol,
            iam,
            clock,
            gateway,
        }
    }

    /// From now on every endpoint works.
    pub(super) fn recovers(&self) {
        (self.protocol.works)(&self.iam);
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
        if path == self.protocol.introspection {
            let session = self.stale_session().await;
            self.iam.on(path, answer.clone());
            self.exchange(&session).await
        } else if path == self.protocol.logout {
            let session = self.stale_session().await;
            self.iam.on(path, answer.clone());
            self.gateway.log_out(&session).await
        } else {
            self.iam.on(path, answer.clone());
            self.log_in().await
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
