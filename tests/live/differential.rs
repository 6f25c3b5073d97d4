//! The same calls to a real Keycloak and to the mock: named cases, and random sequences. The responses to the named cases
//! have the same status, the same `error` and `error_description`, and the same members that the adapter reads. Those to
//! random sequences are equal, except for stated deviations.

use std::collections::BTreeSet;
use std::env;

use serde_json::{Value, json};

mod calls;
mod cases;
mod changes;
mod deviations;
mod keycloak_server;
mod mock_server;
mod named;
mod observed;
mod random;
mod sequence;
mod server;

use deviations::DEVIATIONS;
use keycloak_server::KeycloakServer;
use mock_server::MockServer;
use random::Servers;
use server::{Client, RealmServer as _, Setting};

const GATEWAY: Client<'_> = Client("auth-gateway", "for-tests-only-4Qm8vX2rT7bN1kY6");
const OTHER: Client<'_> = Client("other-gateway", "for-tests-only-6Gx1nV4yR8tK3mB7");

/// All comparisons in one Keycloak of its own. It has no fixed host name, and its states would
/// break other tests.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn mock_responds_like_keycloak() {
    let keycloak_server = KeycloakServer::start().await;
    let mock_server = MockServer::start().await;
    let expected = cases::run(&keycloak_server).await;
    let actual = cases::run(&mock_server).await;
    let names = |all: &[(String, Value)]| -> Vec<String> {
        all.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&expected), names(&actual));
    let differences: Vec<_> = expected
        .iter()
        .zip(&actual)
        .filter(|((_, expected), (_, actual))| expected != actual)
        .map(|((name, expected), (_, actual))| {
            format!("{name}:\n  Keycloak {expected}\n  mock     {actual}")
        })
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(expected.len() > 90, "{} cases", expected.len());
}

/// The number of sequences without `MOCK_EQUALITY_SEQUENCES`.
const SEQUENCES: usize = 50;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn mock_equals_keycloak_in_sequences_of_calls_except_for_the_stated_deviations() {
    let count = env::var("MOCK_EQUALITY_SEQUENCES").ok();
    let count = count.map_or(SEQUENCES, |count| count.parse().expect("a number"));
    let (keycloak, mock) = (KeycloakServer::start().await, MockServer::start().await);
    // The mock has its other client from the first change of its settings on.
    keycloak.set(Setting::Lockout).await;
    mock.set(Setting::Lockout).await;
    let (mut servers, mut seen) = (Servers::new(keycloak, mock), BTreeSet::new());
    servers.compare_named(&mut seen).await;
    servers.compare_random(count, &mut seen).await;
    let stated: BTreeSet<_> = DEVIATIONS.iter().map(|deviation| deviation.id).collect();
    assert_eq!(seen, stated, "a stated deviation has disappeared");
}

#[test]
fn the_table_of_deviations_has_those_of_the_test() {
    let page = include_str!("../../docs/testing-with-the-mock.md");
    let (_, section) = page
        .split_once("### Deviations from Keycloak\n")
        .expect("the section");
    let (section, _) = section.split_once("\n## ").expect("another section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let ids: BTreeSet<_> = rows.filter_map(|row| row.split('`').next()).collect();
    let stated: BTreeSet<_> = DEVIATIONS.iter().map(|deviation| deviation.id).collect();
    assert_eq!(ids, stated);
}

/// The part of a response that is compared.
fn compared(status: u16, retry: bool, body: &[u8]) -> Value {
    let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    json!({
        "status": status,
        "retry_after": retry,
        "error": body["error"],
        "error_description": body["error_description"],
    })
}
