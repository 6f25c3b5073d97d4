//! An IAM that sends a logout token during the gateway's logout call, and waits for the response,
//! as Keycloak does.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use futures_util::future::join_all;
use iam_adapters::clock::SystemClock;
use iam_adapters::{IamAdapter, IamError, UpstreamSession};
use mock_iam::{Mock, MockSettings};
use test_support::client::Client;
use test_support::gateway::TestGateway;
use test_support::wrapper::{Wrapper, wrapped};

use super::FRESHNESS;
use crate::metrics::exposition;

#[derive(Debug)]
struct IamWithCallback {
    mock: Mock,
    gateway: OnceLock<Client>,
}

#[async_trait]
impl Wrapper for IamWithCallback {
    fn inner(&self) -> &dyn IamAdapter {
        &self.mock
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        let directory = self.mock.directory();
        let token = directory.logout_token(Some(&session.subject), Some(&session.id));
        let gateway = self.gateway.get().expect("a gateway");
        let answer = gateway
            .send_logout_token(&token.expect("a signature"))
            .await;
        assert_eq!(answer.status, 200);
        self.mock.end_session(session).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logout_completes_while_the_iam_waits_for_its_logout_token_to_be_accepted() {
    let clock = Arc::new(SystemClock::default());
    let mock = Mock::connect(&MockSettings::default(), Arc::<SystemClock>::clone(&clock));
    let iam = Arc::new(IamWithCallback {
        mock: mock.expect("the demo users"),
        gateway: OnceLock::new(),
    });
    // One worker and one concurrent logout.
    let few = [("http.workers", "1"), ("upstream.logout_concurrency", "1")];
    let settings = [&FRESHNESS[..], &few].concat();
    let gateway = TestGateway::with_adapter(wrapped(&iam), clock, &settings);
    iam.gateway.set(Client::clone(&gateway)).expect("the first");
    let mut sessions = Vec::new();
    for _ in 0..10 {
        let password = "alice-pass".into();
        sessions.push(
            gateway
                .log_in("alice@example.test", &password)
                .await
                .session(),
        );
    }
    // One logout is in progress and eight may wait: a tenth would be refused.
    for batch in sessions.chunks(9) {
        let answers = join_all(batch.iter().map(|session| gateway.log_out(session))).await;
        assert!(answers.iter().all(|answer| answer.status == 200));
    }
    let ended = "auth_gateway_logout_tokens_total{outcome=\"session_ended\",iam=\"mock\"}";
    assert_eq!(exposition(&gateway).count(ended), 10);
}
