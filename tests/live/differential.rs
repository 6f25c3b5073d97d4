//! The same calls to a real Keycloak and to the mock: the responses have the same status, the same
//! `error` and `error_description`, and the same members that the adapter reads.

use serde_json::{Value, json};

use crate::keycloak::Instance;

mod calls;
mod cases;
mod changes;
mod mocked;
mod real;
mod side;

use mocked::Mocked;
use real::Real;
use side::Client;

const GATEWAY: Client<'_> = Client("auth-gateway", "for-tests-only-4Qm8vX2rT7bN1kY6");
const OTHER: Client<'_> = Client("other-gateway", "for-tests-only-6Gx1nV4yR8tK3mB7");

/// All comparisons in one Keycloak of its own. It has no fixed host name, and its states would
/// break other tests.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn mock_responds_like_keycloak() {
    let instance = Instance::start_for_any_host().await;
    let real = Real::new(&instance.keycloak).await;
    let mocked = Mocked::start();
    let theirs = cases::run(&real).await;
    let ours = cases::run(&mocked).await;
    let names = |all: &[(String, Value)]| -> Vec<String> {
        all.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&theirs), names(&ours));
    let differences: Vec<_> = theirs
        .iter()
        .zip(&ours)
        .filter(|((_, theirs), (_, ours))| theirs != ours)
        .map(|((name, theirs), (_, ours))| {
            format!("{name}:\n  Keycloak {theirs}\n  mock     {ours}")
        })
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(theirs.len() > 90, "{} cases", theirs.len());
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
