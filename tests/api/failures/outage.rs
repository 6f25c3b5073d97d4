//! A gateway without its IAM.

use test_support::client::Response;
use test_support::gateway::{TestGateway, manual_clock};
use test_support::scripted_upstream::keycloak::PERMISSIONS;
use test_support::scripted_upstream::{Answer, RefusingPort, ScriptedUpstream};

use super::keycloak_fixture::{EMAIL, PASSWORD, PATHS, gateway};
use super::{STALE, UNAVAILABLE, precisely};

async fn log_in(gateway: &TestGateway) -> Response {
    gateway.log_in(EMAIL, &PASSWORD.into()).await
}

#[tokio::test]
async fn gateway_starts_without_its_iam_and_recovers_without_a_restart() {
    for precise in [false, true] {
        let (port, clock) = (RefusingPort::start(), manual_clock());
        let gateway = gateway(&port.url(), &clock, &[precisely(precise)]);
        gateway
            .wait_for_readiness("degraded", &["unreachable"])
            .await;
        UNAVAILABLE.is_in(&log_in(&gateway).await, precise, "refused");

        let keycloak = ScriptedUpstream::in_place_of(port);
        keycloak.in_good_health();
        let session = log_in(&gateway).await.session();
        gateway.ready().await.is_readiness("ready", &[]);
        let token = gateway.exchange(&session, PERMISSIONS[0]).await.token();
        assert_eq!(token.scope, PERMISSIONS[0]);
    }
}

#[tokio::test]
async fn outage_affects_exchanges_only_while_data_is_stale_and_the_iam_is_down() {
    let (keycloak, clock) = (ScriptedUpstream::keycloak().await, manual_clock());
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
