//! A gateway without its IAM.

use test_support::client::Response;
use test_support::gateway::{TestGateway, manual_clock};
use test_support::scripted_upstream::keycloak::PERMISSIONS;
use test_support::scripted_upstream::{PROTOCOLS, RefusingPort, ScriptedUpstream};

use super::UNAVAILABLE;
use super::wire_fixture::{EMAIL, PASSWORD, gateway};

async fn log_in(gateway: &TestGateway) -> Response {
    gateway.log_in(EMAIL, &PASSWORD.into()).await
}

#[tokio::test]
async fn gateway_starts_without_its_iam_and_recovers_without_a_restart() {
    for protocol in &PROTOCOLS {
        let (port, clock) = (RefusingPort::start(), manual_clock());
        let gateway = gateway(protocol, &port.url(), &clock, &[]);
        gateway
            .wait_for_readiness("degraded", &["unreachable"])
            .await;
        UNAVAILABLE.is_in(&log_in(&gateway).await, false, "refused");

        let iam = ScriptedUpstream::in_place_of(port);
        (protocol.works)(&iam);
        let session = log_in(&gateway).await.session();
        gateway.ready().await.is_readiness("ready", &[]);
        let token = gateway.exchange(&session, PERMISSIONS[0]).await.token();
        assert_eq!(token.scope, PERMISSIONS[0]);
    }
}
