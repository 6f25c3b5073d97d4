//! A Keycloak that does not respond in time.

use test_support::scripted_upstream::Answer;
use test_support::scripted_upstream::keycloak::{DISCOVERY, INTROSPECTION, LOGOUT, TOKEN};

use super::keycloak_fixture::KeycloakFixture;
use super::{TOO_SLOW, precisely};

/// The deadline of the operation under test; all others are long.
const SHORT: &str = "200ms";

async fn holds(path: &str, deadline: &str, ready: &str) {
    for precise in [false, true] {
        for answer in [Answer::hanging(), Answer::dripping()] {
            let fixture = KeycloakFixture::new(&[precisely(precise), (deadline, SHORT)]).await;
            let response = fixture.call_with_fault(path, &answer).await;
            TOO_SLOW.is_in(&response, precise, path);
            fixture.is_ready(ready, &["timed_out"]).await;
            // The adapter closes the connection of an abandoned call.
            fixture.keycloak.disconnected(1).await;
        }
    }
}

#[tokio::test]
async fn login_that_takes_too_long_is_a_500() {
    holds(TOKEN, "upstream.login_deadline", "degraded").await;
}

#[tokio::test]
async fn login_whose_issuer_is_not_confirmed_in_time_is_a_500() {
    holds(DISCOVERY, "upstream.login_deadline", "degraded").await;
}

#[tokio::test]
async fn introspection_that_takes_too_long_is_a_500() {
    holds(INTROSPECTION, "upstream.introspection_deadline", "degraded").await;
}

#[tokio::test]
async fn logout_that_takes_too_long_is_a_500_and_ends_the_session() {
    holds(LOGOUT, "upstream.logout_deadline", "degraded").await;
    let fixture = KeycloakFixture::new(&[("upstream.logout_deadline", SHORT)]).await;
    let session = fixture.log_in().await.session();
    fixture.keycloak.on(LOGOUT, Answer::hanging());
    let response = fixture.gateway.log_out(&session).await;
    TOO_SLOW.is_in(&response, false, "logout");
    let response = fixture.exchange(&session).await;
    response.is_error(401, "invalid_grant");
    fixture.keycloak.on(LOGOUT, Answer::empty(204));
    assert_eq!(fixture.gateway.log_out(&session).await.status, 200);
}
