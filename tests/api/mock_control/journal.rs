//! The journal: counting, filtering and waiting for calls.

use std::ops::Deref as _;

use reqwest::Method;
use serde_json::{Value, json};
use test_support::endpoints::LOGIN;

use crate::namespace::{ALICE, BOB, BROWSE, Namespace, READ};

#[tokio::test]
async fn journal_counts_the_calls_of_a_session_in_order() {
    let mock = Namespace::alone();
    let session = mock.session(ALICE).await;
    // Fresh cached data needs no call.
    assert_eq!(mock.exchange(&session, READ).await.status, 200);
    mock.advance("61s").await;
    assert_eq!(mock.exchange(&session, READ).await.status, 200);
    assert_eq!(mock.log_out(&session).await.status, 200);
    let found = mock.read(&format!("/journal?user={ALICE}")).await;
    let entries = found["entries"].as_array().expect("entries");
    let operations: Vec<_> = entries.iter().map(|entry| &entry["operation"]).collect();
    assert_eq!(
        operations,
        [&json!("login"), &json!("introspection"), &json!("logout")]
    );
    let same = |member: &str| {
        entries
            .iter()
            .all(|entry| entry[member] == entries[0][member])
    };
    assert!(
        same("subject") && same("session") && same("outcome"),
        "{found}"
    );
    assert_eq!(entries[0]["client_address"], json!("127.0.0.1"));
}

#[tokio::test]
async fn journal_is_filtered_by_each_member() {
    let mock = Namespace::alone();
    let body = json!({"email": ALICE, "password": "wrong-pass"}).to_string();
    let named = [("x-request-id", "checkout-42")];
    mock.deref()
        .post(LOGIN, &named, body)
        .await
        .is_error(401, "invalid_grant");
    let bob = mock.session(BOB).await;
    mock.advance("61s").await;
    assert_eq!(mock.exchange(&bob, BROWSE).await.status, 200);
    for (query, count) in [
        ("operation=login".to_owned(), 2),
        ("operation=introspection".to_owned(), 1),
        ("operation=keys".to_owned(), 0),
        (format!("user={}", BOB.to_uppercase()), 2),
        (format!("operation=login&user={BOB}"), 1),
        ("outcome=refused".to_owned(), 1),
        ("operation=login&outcome=ok".to_owned(), 1),
        ("request_id=checkout-42".to_owned(), 1),
        ("request_id=checkout-43".to_owned(), 0),
    ] {
        assert_eq!(mock.calls(&query).await, count, "{query}");
    }
    let refused = mock.read("/journal?request_id=checkout-42").await;
    let entry = &refused["entries"][0];
    assert_eq!(
        (&entry["user"], &entry["reason"]),
        (&json!(ALICE), &json!("invalid_credentials"))
    );
    let last = refused["last"].as_u64().expect("a number");
    mock.try_log_in(BOB).await;
    assert_eq!(
        mock.calls(&format!("operation=login&after={last}")).await,
        1
    );
    let one = mock.read("/journal?operation=login&limit=1").await;
    assert_eq!(
        (&one["count"], one["entries"].as_array().map(Vec::len)),
        (&json!(3), Some(1))
    );
    assert_eq!(one["entries"][0]["user"], json!(BOB));
    mock.done(Method::DELETE, "/journal").await;
    let empty = mock.read("/journal?operation=login").await;
    assert_eq!(empty["entries"], json!([]));
    mock.try_log_in(BOB).await;
    let next = mock.read("/journal?operation=login").await;
    assert!(next["entries"][0]["number"].as_u64() > Some(last), "{next}");
}

#[tokio::test]
async fn wait_ends_with_the_expected_call_and_blocks_no_other_request() {
    let mock = Namespace::alone();
    let wait = "/journal/wait?operation=login&count=3&timeout=60s";
    let waiters: Vec<_> = (0..20)
        .map(|_| {
            let mock = mock.clone();
            tokio::spawn(async move { mock.read(wait).await })
        })
        .collect();
    for user in [ALICE, BOB, ALICE] {
        mock.read("/status").await;
        mock.session(user).await;
    }
    for waiter in waiters {
        let found: Value = waiter.await.expect("an answer");
        assert_eq!(
            (&found["reached"], &found["count"]),
            (&json!(true), &json!(3))
        );
    }
    // Existing entries end the wait at once.
    assert_eq!(mock.read(wait).await["reached"], json!(true));
    assert_eq!(
        mock.read("/journal/wait?count=0").await["reached"],
        json!(true)
    );
}
