use super::house::{House, claims, policy};
use super::scripted::Scripted;
use crate::gateway::Policy;
use crate::gateway::error::GatewayError;

fn house_with(default_scope: &str, refuse_empty_scope: bool) -> House {
    let policy = Policy {
        default_scope: default_scope.to_owned(),
        refuse_empty_scope,
        ..policy()
    };
    House::with(Scripted::default(), policy)
}

#[tokio::test]
async fn granted_is_what_was_asked_for_and_is_permitted_in_the_order_asked_for_each_once() {
    let house = house_with("", false);
    let session = house.log_in("alice").await;
    for (asked, granted) in [
        ("read", "read"),
        ("write read", "write read"),
        ("read write read read", "read write"),
        ("admin read", "read"),
        ("READ Read", ""),
        ("rea read:x", ""),
        ("", ""),
    ] {
        let exchanged = house.exchange(&session, asked).await.unwrap();
        assert_eq!(exchanged.scope, granted, "{asked:?}");
        let in_token = claims(&exchanged);
        let in_token = in_token.get("scope").map(|scope| scope.as_str().unwrap());
        assert_eq!(in_token.unwrap_or_default(), granted, "{asked:?}");
        assert_eq!(in_token.is_none(), granted.is_empty(), "{asked:?}");
    }
}

#[tokio::test]
async fn what_one_exchange_asks_for_is_no_part_of_what_another_is_granted() {
    let house = house_with("", false);
    let (alice, bob) = (house.log_in("alice").await, house.log_in("bob").await);
    for session in [&alice, &bob] {
        house.exchange(session, "read").await.unwrap();
    }
    assert_eq!(house.granted(&alice).await.unwrap(), "read write");
    assert_eq!(house.granted(&bob).await.unwrap(), "read");
}

#[tokio::test]
async fn a_request_without_a_scope_asks_for_the_default_and_is_held_to_the_permissions() {
    let house = house_with("admin write", false);
    let alice = house.log_in("alice").await;
    assert_eq!(house.exchange(&alice, "").await.unwrap().scope, "write");
    assert_eq!(house.exchange(&alice, "read").await.unwrap().scope, "read");
    assert_eq!(house.exchange(&alice, "admin").await.unwrap().scope, "");
}

#[tokio::test]
async fn nothing_granted_is_refused_only_where_the_configuration_says_so() {
    let lenient = house_with("", false);
    let session = lenient.log_in("bob").await;
    for asked in ["", "write"] {
        assert_eq!(lenient.exchange(&session, asked).await.unwrap().scope, "");
    }
    let strict = house_with("", true);
    let session = strict.log_in("bob").await;
    for asked in ["", "write"] {
        let refused = strict.exchange(&session, asked).await.err();
        assert_eq!(refused, Some(GatewayError::NothingGranted), "{asked:?}");
    }
    assert_eq!(
        strict.exchange(&session, "read").await.unwrap().scope,
        "read"
    );
}

#[tokio::test]
async fn the_default_scope_saves_a_request_without_a_scope_from_being_refused() {
    let house = house_with("read", true);
    let session = house.log_in("bob").await;
    assert_eq!(house.exchange(&session, "").await.unwrap().scope, "read");
}
