//! Panics during a request, and the connection on which they happen.

use std::collections::HashMap;
use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::resilient::Operation;
use serde_json::json;
use test_support::endpoints::{LOGIN, LOGOUT, TOKEN};
use test_support::scenario::{Fault, Scenario};
use test_support::wire::{ALICE, Connection, post};

use super::STALE;
use crate::edge::refused;

#[tokio::test]
async fn panic_is_a_500_and_its_connection_stays_usable() {
    let fixture = Scenario::new(&[]);
    let mut connection = Connection::to(fixture.gateway.addresses().public);
    for (operation, path) in [
        (Operation::Login, LOGIN),
        (Operation::Introspection, TOKEN),
        (Operation::Logout, LOGOUT),
    ] {
        let mut pair = fixture.log_in().await.session().pair();
        fixture.clock.advance(STALE);
        pair["grant_type"] = json!("session");
        let body = if path == LOGIN {
            ALICE.to_owned()
        } else {
            pair.to_string()
        };
        fixture.fails(operation, Fault::Panics);
        let answer = connection.send(post(path, &body)).answer();
        refused(path, &answer, 500, "server_error");
        fixture.recovers();
        // The fault of the session is held until then.
        fixture.clock.advance(Duration::from_secs(1));
        let answer = connection.send(post(path, &body)).answer();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

#[tokio::test]
async fn probing_continues_after_a_panic() {
    let script = HashMap::from([(Operation::Probe, Fault::Panics)]);
    let fixture = Scenario::with_faults(script, &[("upstream.probe_interval", "20ms")]);
    fixture.is_probed().await;
    fixture
        .gateway
        .wait_for_readiness("degraded", &["unreadable"])
        .await;
    let unreachable_iam = IamError::Unreachable("unreachable".into());
    fixture.fails(Operation::Probe, Fault::Error(unreachable_iam));
    fixture
        .gateway
        .wait_for_readiness("degraded", &["unreachable"])
        .await;
    fixture.fails(Operation::Probe, Fault::Never);
    fixture.gateway.wait_for_readiness("ready", &[]).await;
}
