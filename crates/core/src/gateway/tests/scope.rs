use super::test_gateway::{TestGateway, policy};
use crate::error::GatewayError;
use test_support::scripted_iam::ScriptedIam;

fn gateway_with(default_scope: &str, refuse_empty_scope: bool) -> TestGateway {
    let mut policy = policy();
    policy.gateway.default_scope = default_scope.to_owned();
    policy.gateway.refuse_empty_scope = refuse_empty_scope;
    TestGateway::with(ScriptedIam::default(), policy)
}

#[tokio::test]
async fn scope_of_one_exchange_does_not_affect_another() {
    let gateway = gateway_with("", false);
    let (alice, bob) = (gateway.log_in("alice").await, gateway.log_in("bob").await);
    for session in [&alice, &bob] {
        gateway.exchange(session, "read").await.unwrap();
    }
    assert_eq!(gateway.granted(&alice).await.unwrap(), "read write");
    assert_eq!(gateway.granted(&bob).await.unwrap(), "read");
}

#[tokio::test]
async fn request_without_a_scope_gets_the_permitted_part_of_the_default() {
    let gateway = gateway_with("admin write", false);
    let alice = gateway.log_in("alice").await;
    assert_eq!(gateway.exchange(&alice, "").await.unwrap().scope, "write");
    assert_eq!(
        gateway.exchange(&alice, "read").await.unwrap().scope,
        "read"
    );
    assert_eq!(gateway.exchange(&alice, "admin").await.unwrap().scope, "");
}

#[tokio::test]
async fn empty_granted_scope_is_refused_only_if_configured() {
    let lenient = gateway_with("", false);
    let session = lenient.log_in("bob").await;
    for requested in ["", "write"] {
        assert_eq!(
            lenient.exchange(&session, requested).await.unwrap().scope,
            ""
        );
    }
    let strict = gateway_with("", true);
    let session = strict.log_in("bob").await;
    for requested in ["", "write"] {
        let refused = strict.exchange(&session, requested).await.err();
        assert_eq!(refused, Some(GatewayError::NothingGranted), "{requested:?}");
    }
    assert_eq!(
        strict.exchange(&session, "read").await.unwrap().scope,
        "read"
    );
}

#[tokio::test]
async fn request_without_a_scope_is_not_refused_if_the_default_is_granted() {
    let gateway = gateway_with("read", true);
    let session = gateway.log_in("bob").await;
    assert_eq!(gateway.exchange(&session, "").await.unwrap().scope, "read");
}
