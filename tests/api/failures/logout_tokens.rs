//! Logout tokens while the IAM's keys are unavailable, and for an IAM without logout tokens.

use std::collections::HashMap;
use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::resilient::Operation;
use test_support::scenario::{Fault, Scenario};

#[tokio::test]
async fn logout_token_without_available_keys_ends_nothing_and_can_be_sent_again() {
    for (fault, status, code) in [
        (
            IamError::Unreachable("refused".into()),
            503,
            "temporarily_unavailable",
        ),
        (
            IamError::Failed("503".to_owned()),
            503,
            "temporarily_unavailable",
        ),
        (IamError::Unreadable("html".into()), 502, "server_error"),
    ] {
        for precise in [false, true] {
            let setting = ("http.precise_backend_status", &*precise.to_string());
            let fixture = Scenario::new(&[setting]);
            let session = fixture.log_in().await.session();
            let token = fixture.logout_token();
            fixture.fails(Operation::Keys, Fault::Error(fault.clone()));
            for _ in 0..2 {
                let answer = fixture.gateway.send_logout_token(&token).await;
                answer.is_error(if precise { status } else { 500 }, code);
                assert_eq!(fixture.exchange(&session).await.status, 200);
            }
            fixture.recovers();
            // The IAM is not called again at once.
            fixture.clock.advance(Duration::from_secs(10));
            assert_eq!(fixture.gateway.send_logout_token(&token).await.status, 200);
            fixture
                .exchange(&session)
                .await
                .is_error(401, "invalid_grant");
        }
    }
}

#[tokio::test]
async fn endpoint_for_logout_tokens_is_absent_if_the_iam_sends_none() {
    let silent = HashMap::from([(Operation::Keys, Fault::Never)]);
    let fixture = Scenario::with_faults(silent, &[]);
    let session = fixture.log_in().await.session();
    let answer = fixture
        .gateway
        .send_logout_token(&fixture.logout_token())
        .await;
    answer.is_error(404, "invalid_request");
    assert_eq!(fixture.exchange(&session).await.status, 200);
}
