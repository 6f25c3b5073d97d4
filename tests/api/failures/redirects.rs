//! Redirects, and what must not be sent to their target.

use test_support::scripted_upstream::keycloak::DISCOVERY;
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::BROKEN;
use super::keycloak_fixture::{KeycloakFixture, PATHS};

#[tokio::test]
async fn no_credential_follows_a_redirect() {
    let fixture = KeycloakFixture::new(&[]).await;
    assert_eq!(fixture.log_in().await.status, 200);
    let elsewhere = ScriptedUpstream::keycloak().await;
    for status in [301, 302, 303, 307, 308] {
        for path in PATHS {
            let there = format!("{}{path}", elsewhere.url());
            let response = fixture
                .call_with_fault(path, &Answer::redirect(status, &there))
                .await;
            BROKEN.is_in(&response, false, &format!("{status} from {path}"));
            fixture.is_ready("degraded", &["other"]).await;
        }
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn redirected_discovery_receives_no_password() {
    let fixture = KeycloakFixture::new(&[]).await;
    let elsewhere = ScriptedUpstream::keycloak().await;
    let there = format!("{}{DISCOVERY}", elsewhere.url());
    fixture
        .keycloak
        .on(DISCOVERY, Answer::redirect(302, &there));
    BROKEN.is_in(&fixture.log_in().await, false, "discovery");
    assert!(elsewhere.requests().is_empty());
}
