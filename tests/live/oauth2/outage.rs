//! An OAuth 2 server is killed and started again under running gateways.

use iam_adapters::UpstreamSession;
use test_support::gateway::TestGateway;
use test_support::suite::IamFixture;

use super::server::{OAuth2Fixture, SessionTokens};
use crate::outage::RestartableIam;

impl RestartableIam for &OAuth2Fixture {
    fn iam(&self) -> &IamFixture {
        &self.iam
    }

    fn settings(&self) -> Vec<(String, String)> {
        let settings = self.server.settings("basic").into_iter();
        let settings = settings.map(|(name, value)| (format!("iam.oauth2.{name}"), value));
        settings.collect()
    }

    fn gateway(&self, more: &[(&str, &str)]) -> TestGateway {
        OAuth2Fixture::gateway(self, more)
    }

    async fn is_active(&self, session: &UpstreamSession) -> bool {
        let tokens = SessionTokens::of(session);
        self.server.is_active(&tokens.access_token).await
    }

    fn keeps_sessions(&self) -> bool {
        true
    }

    fn kill(&mut self) {
        self.server.kill();
    }

    async fn start_again(&mut self) {
        self.server.start_again().await;
    }
}

pub(super) async fn outage_is_reported_as_such_and_ends_without_a_restart(
    mut fixture: &OAuth2Fixture,
) {
    crate::outage::outage_is_reported_as_such_and_ends_without_a_restart(&mut fixture).await;
}
