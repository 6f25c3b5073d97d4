//! Names of namespaces.

use std::ops::Deref as _;

use reqwest::Method;
use serde_json::json;
use test_support::endpoints::LOGIN;

use crate::namespace::{ALICE, Namespace, gateway};

#[tokio::test]
async fn invalid_name_is_refused_and_creates_no_namespace() {
    let gateway = gateway();
    let long = "x".repeat(65);
    for name in ["", "a b", "a/b", "a,b", "ä", "..", "{}", &long] {
        let mock = Namespace::named(&gateway, name);
        let answer = mock.try_log_in(ALICE).await;
        answer.is_error(400, "invalid_request");
        assert_eq!(
            answer.json()["error_description"],
            "The header `Mock-Namespace` must appear once, as 1 to 64 of A-Z a-z 0-9 . _ -."
        );
        let answer = mock.call(Method::GET, "/status").await;
        answer.is_error(400, "invalid_request");
        let description = answer.json()["error_description"].to_string();
        assert!(
            description.contains("1 to 64 of A-Z a-z 0-9 . _ -"),
            "{description}"
        );
    }
    let twice = [("mock-namespace", "a"), ("mock-namespace", "b")];
    let mock = Namespace::unnamed(&gateway);
    let answer = mock.send(Method::GET, "/status", &twice, "").await;
    answer.is_error(400, "invalid_request");
    let answer = mock.deref().post(LOGIN, &twice, "{}").await;
    answer.is_error(400, "invalid_request");
    let status = Namespace::unnamed(&gateway).read("/status").await;
    assert_eq!(status["namespaces"], json!(1));
}

#[tokio::test]
async fn namespace_is_created_on_first_use_and_can_be_deleted() {
    let gateway = gateway();
    let mock = Namespace::unnamed(&gateway);
    let longest = "x".repeat(64);
    Namespace::named(&gateway, &longest).session(ALICE).await;
    Namespace::named(&gateway, "B").read("/status").await;
    let all = mock.read("/namespaces").await;
    let all = all["namespaces"].as_array().expect("namespaces");
    let names: Vec<_> = all.iter().map(|one| one["name"].as_str()).collect();
    assert_eq!(names, [Some("default"), Some("B"), Some(&longest)]);
    assert_eq!(
        (&all[2]["sessions"], &all[1]["sessions"]),
        (&json!(1), &json!(0))
    );
    mock.done(Method::DELETE, &format!("/namespaces/{longest}"))
        .await;
    for (name, status, code) in [
        (longest.as_str(), 404, "not_found"),
        ("default", 409, "conflict"),
        ("a%20b", 400, "invalid_request"),
    ] {
        let answer = mock
            .call(Method::DELETE, &format!("/namespaces/{name}"))
            .await;
        answer.is_error(status, code);
    }
    // It is created again in its initial state.
    let again = Namespace::named(&gateway, &longest).read("/status").await;
    assert_eq!(again["sessions"], json!(0));
}
