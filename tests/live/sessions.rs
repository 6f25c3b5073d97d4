//! Sessions at Keycloak and at the gateway, and every way in which they end.

use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::Method;
use secrecy::ExposeSecret as _;
use serde_json::json;
use test_support::endpoints::LOGIN;
use test_support::gateway::TestGateway;
use test_support::keys::TestKeys;
use test_support::suite::{READ, session_of};
use test_support::wait::until;

use crate::fixture::{LONG_DEADLINES, LiveFixture, SESSIONS_ALONE, seconds};

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn keycloak_receives_the_client_address_of_the_trusted_proxy_and_not_of_the_user() {
    let fixture = LiveFixture::new().await;
    let gateway = fixture.gateway(&[("http.trusted_proxies", "127.0.0.1")]);
    // Private addresses: over plain http, a realm that requires TLS for external requests refuses
    // others.
    for (forwarded, address) in [
        ("10.1.1.1, 10.20.30.40", "10.20.30.40"),
        ("10.20.30.41:4711", "10.20.30.41"),
        ("10.20.30.40, unknown", "127.0.0.1"),
    ] {
        let user = fixture.user(&[READ]).await;
        let password = user.password.expose_secret();
        let body = json!({ "email": user.email, "password": password }).to_string();
        let headers = [("x-forwarded-for", forwarded)];
        gateway.post(LOGIN, &headers, body).await.session();
        let path = ["users", user.subject.as_str(), "sessions"];
        let sessions = fixture.administrator.api.get(&path).await;
        assert_eq!(sessions[0]["ipAddress"], address, "{sessions}");
    }
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn session_expires_at_the_time_of_keycloak() {
    let fixture = LiveFixture::new().await;
    let keys = TestKeys::new();
    let settings = [
        &fixture.keycloak.settings()[..],
        &LONG_DEADLINES,
        &keys.settings(),
    ]
    .concat();
    let gateway = TestGateway::start(&settings);
    let user = fixture.user(&[]).await;
    let before = now();
    let session = session_of(&gateway, &user).await;
    let after = now();
    let upstream = keys.unsealed(&session);
    let introspection = fixture.keycloak.introspect(&upstream.secret).await;
    let at_keycloak = introspection["exp"].as_u64().expect("an expiry");
    let here = seconds(&session.expires_at);
    // Counted from before the call to Keycloak: never later than at Keycloak, and earlier by the
    // duration of the login at most.
    assert!(here <= at_keycloak, "{here} {at_keycloak}");
    assert!(at_keycloak - here <= after - before, "{here} {at_keycloak}");
    let verified = seconds(&session.verified_at);
    assert!((before..=after).contains(&verified), "{verified}");
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn introspection_does_not_extend_a_session() {
    let fixture = LiveFixture::new().await;
    let keys = TestKeys::new();
    let gateway = fixture.gateway(&[&keys.settings()[..], &[SESSIONS_ALONE]].concat());
    let user = fixture.user(&[READ]).await;
    let session = session_of(&gateway, &user).await;
    let path = ["users", user.subject.as_str(), "sessions"];
    let before = fixture
        .administrator
        .api
        .done(Method::GET, &path, None)
        .await;
    // Keycloak's times of a session are in whole seconds.
    let began = now();
    until("a later second", async || now() > began).await;
    for _ in 0..5 {
        fixture.outlive_freshness();
        assert_eq!(gateway.exchange(&session, READ).await.status, 200);
    }
    let after = fixture
        .administrator
        .api
        .done(Method::GET, &path, None)
        .await;
    assert_eq!(before.body, after.body);
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a time after 1970").as_secs()
}
