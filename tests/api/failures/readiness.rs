//! What the probe reports before any request.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use test_support::ManualClock;
use test_support::gateway::manual_clock;
use test_support::scripted_upstream::keycloak::{DISCOVERY, INTROSPECTION, KEYCLOAK, inactive};
use test_support::scripted_upstream::{Answer, PROTOCOLS, ScriptedUpstream};

use super::wire_fixture::gateway;

/// A Keycloak that works for a probe: the probe's made-up token is inactive.
async fn healthy() -> ScriptedUpstream {
    let keycloak = ScriptedUpstream::keycloak().await;
    keycloak.on(INTROSPECTION, inactive());
    keycloak
}

#[tokio::test]
async fn readiness_follows_the_iam_without_any_request() {
    let keycloak = healthy().await;
    let often = [("upstream.probe_interval", "20ms")];
    let gateway = gateway(&KEYCLOAK, &keycloak.url(), &manual_clock(), &often);
    for _ in 0..2 {
        gateway.wait_for_readiness("ready", &[]).await;
        keycloak.on(DISCOVERY, Answer::reset());
        gateway
            .wait_for_readiness("degraded", &["unreachable"])
            .await;
        keycloak.in_good_health().on(INTROSPECTION, inactive());
    }
}

#[tokio::test]
async fn clock_that_differs_from_that_of_the_iam_is_a_reason_until_both_agree() {
    const DATE: &str = "Fri, 15 Jan 2027 08:00:00 GMT";
    let date = Duration::from_secs(1_800_000_000);
    let often = [("upstream.probe_interval", "20ms")];
    for protocol in PROTOCOLS {
        let clock = Arc::new(ManualClock::at(date));
        let iam = ScriptedUpstream::of(&protocol).await;
        let (path, answer) = (protocol.probe)();
        iam.on(path, answer.clone().with("Date", DATE));
        let gateway = gateway(&protocol, &iam.url(), &clock, &often);
        gateway.wait_for_readiness("ready", &[]).await;
        for (now, relation) in [
            (date + Duration::from_secs(32), "31 s ahead of"),
            (date.saturating_sub(Duration::from_secs(31)), "31 s behind"),
        ] {
            clock.set_wall(now);
            gateway
                .wait_for_readiness("degraded", &["clock_wrong"])
                .await;
            let reason = gateway.ready().await.json()["reasons"][0].clone();
            let iam = reason["iam"].as_str().expect("a name");
            let message =
                format!("the clock of this replica is {relation} the clock of the IAM {iam}");
            assert_eq!(reason["message"], json!(message));
            clock.set_wall(date);
            gateway.wait_for_readiness("ready", &[]).await;
        }
        // A response from a cache has an old date.
        iam.on(path, answer.with("Date", DATE).with("Age", "0"));
        let before = iam.requests_to(path).len();
        iam.received(path, before + 1).await;
        clock.set_wall(date + Duration::from_secs(3_600));
        iam.received(path, before + 4).await;
        gateway.ready().await.is_readiness("ready", &[]);
    }
}
