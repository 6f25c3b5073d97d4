//! An IAM that does not respond in time.

use test_support::scripted_upstream::{Answer, PROTOCOLS, WireProtocol};

use super::wire_fixture::WireFixture;
use super::{TOO_SLOW, precisely};

/// The deadline of the operation under test; all others are long.
const SHORT: &str = "200ms";

async fn holds(path: fn(&WireProtocol) -> &'static str, deadline: &str, ready: &str) {
    for protocol in &PROTOCOLS {
        let path = path(protocol);
        for precise in [false, true] {
            for answer in [Answer::hanging(), Answer::dripping()] {
                let settings = [precisely(precise), (deadline, SHORT)];
                let fixture = WireFixture::new(protocol, &settings).await;
                let response = fixture.call_with_fault(path, &answer).await;
                TOO_SLOW.is_in(&response, precise, path);
                fixture.is_ready(ready, &["timed_out"]).await;
                // The adapter closes the connection of an abandoned call.
                fixture.iam.disconnected(1).await;
            }
        }
    }
}

#[tokio::test]
async fn login_that_takes_too_long_is_a_500() {
    holds(|iam| iam.token, "upstream.login_deadline", "degraded").await;
}

#[tokio::test]
async fn login_whose_issuer_is_not_confirmed_in_time_is_a_500() {
    holds(|iam| iam.discovery, "upstream.login_deadline", "degraded").await;
}

#[tokio::test]
async fn introspection_that_takes_too_long_is_a_500() {
    let deadline = "upstream.introspection_deadline";
    holds(|iam| iam.introspection, deadline, "degraded").await;
}

#[tokio::test]
async fn logout_that_takes_too_long_is_a_500_and_ends_the_session() {
    holds(|iam| iam.logout, "upstream.logout_deadline", "degraded").await;
    for protocol in &PROTOCOLS {
        let short = [("upstream.logout_deadline", SHORT)];
        let fixture = WireFixture::new(protocol, &short).await;
        let session = fixture.log_in().await.session();
        fixture.iam.on(protocol.logout, Answer::hanging());
        let response = fixture.gateway.log_out(&session).await;
        TOO_SLOW.is_in(&response, false, "logout");
        let response = fixture.exchange(&session).await;
        response.is_error(401, "invalid_grant");
        fixture.recovers();
        assert_eq!(fixture.gateway.log_out(&session).await.status, 200);
    }
}
