//! A gateway without its IAM.

use test_support::app::TestApp;
use test_support::client::Response;
use test_support::scripted_upstream::keycloak::PERMISSIONS;
use test_support::scripted_upstream::{Answer, Refusing, ScriptedUpstream};

use super::wired::{EMAIL, PASSWORD, PATHS, becomes, gateway, is_ready};
use super::{STALE, UNAVAILABLE, clock, precisely};

async fn log_in(gateway: &TestApp) -> Response {
    gateway.log_in(EMAIL, &PASSWORD.into()).await
}

#[tokio::test]
async fn a_gateway_starts_without_its_iam_and_recovers_without_a_restart() {
    for precise in [false, true] {
        let (port, clock) = (Refusing::start(), clock());
        let gateway = gateway(&port.url(), &clock, &[precisely(precise)]);
        becomes(&gateway, "degraded", Some("unreachable")).await;
        UNAVAILABLE.is_in(&log_in(&gateway).await, precise, "refused");

        let keycloak = ScriptedUpstream::in_place_of(port);
        keycloak.in_good_health();
        let session = log_in(&gateway).await.session();
        is_ready(&gateway.ready().await, "ready", None);
        let token = gateway.exchange(&session, PERMISSIONS[0]).await.token();
        assert_eq!(token.scope, PERMISSIONS[0]);
    }
}

#[tokio::test]
async fn an_outage_is_felt_once_knowledge_is_stale_and_over_when_the_iam_is_back() {
    let (keycloak, clock) = (ScriptedUpstream::keycloak().await, clock());
    let gateway = gateway(&keycloak.url(), &clock, &[]);
    let session = log_in(&gateway).await.session();
    for path in PATHS {
        keycloak.on(path, Answer::reset());
    }
    assert_eq!(gateway.exchange(&session, "").await.status, 200);
    clock.advance(STALE);
    let response = gateway.exchange(&session, "").await;
    UNAVAILABLE.is_in(&response, false, "stale");
    UNAVAILABLE.is_in(&log_in(&gateway).await, false, "login");
    keycloak.in_good_health();
    assert_eq!(gateway.exchange(&session, "").await.status, 200);
}
