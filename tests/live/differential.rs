//! The same calls to a real Keycloak and to the mock: the responses have the same status, the same
//! `error` and `error_description`, and the same members that the adapter reads.

use serde_json::{Value, json};

use crate::keycloak::Instance;

mod calls;
mod cases;
mod changes;
mod keycloak_server;
mod mock_server;
mod server;

use keycloak_server::KeycloakServer;
use mock_server::MockServer;
use server::Client;

const GATEWAY: Client<'_> = Client("auth-gateway", "for-tests-only-4Qm8vX2rT7bN1kY6");
const OTHER: Client<'_> = Client("other-gateway", "for-tests-only-6Gx1nV4yR8tK3mB7");

/// All comparisons in one Keycloak of its own. It has no fixed host name, and its states would
/// break other tests.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn mock_responds_like_keycloak() {
    let instance = Instance::start_for_any_host().await;
    let keycloak_server = KeycloakServer::new(&instance.keycloak).await;
    let mock_server = MockServer::start();
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
