//! Resetting the login limits of an account, and the token that allows it.

use std::time::Duration;

use serde_json::{Value, json};
use test_support::client::Response;
use test_support::endpoints::{LOGIN, RESET, REVOKE};
use test_support::gateway::TestGateway;
use test_support::wire::{fetch, post};

use super::{ALICE, RIGHT, Scenario, is_stopped};

const TOKEN: &str = "operators-token-of-some-length";

async fn reset(fixture: &Scenario, body: &Value) -> Response {
    let body = body.to_string();
    fixture.gateway.operate(RESET, Some(TOKEN), &body).await
}

fn bearer(token: &str) -> (&'static str, String) {
    ("Authorization", format!("Bearer {token}"))
}

/// Refused logins, one minute apart.
async fn fail(fixture: &Scenario, headers: &[(&str, &str)], attempts: usize) {
    for _ in 0..attempts {
        let answer = fixture.log_in_with(headers, ALICE, "wrong").await;
        answer.is_error(401, "invalid_grant");
        fixture.clock.advance(Duration::from_secs(60));
    }
}

#[tokio::test]
async fn slow_rate_of_an_account_holds_for_the_right_password_until_an_operator_resets_it() {
    let fixture = Scenario::new(&[("management.token", TOKEN)]);
    fail(&fixture, &[], 50).await;
    assert_eq!(fixture.take_logins().len(), 50);
    is_stopped(&fixture.log_in_as(ALICE, RIGHT).await, "840");
    assert_eq!(fixture.take_logins().len(), 0);
    let other = reset(&fixture, &json!({"email": "bob@example.test"})).await;
    assert_eq!(other.status, 204);
    is_stopped(&fixture.log_in_as(ALICE, RIGHT).await, "840");
    let answer = reset(&fixture, &json!({"email": "Alice@example.test"})).await;
    assert_eq!((answer.status, &*answer.body), (204, &b""[..]));
    assert_eq!(fixture.log_in_as(ALICE, RIGHT).await.status, 200);
}

#[tokio::test]
async fn slow_rate_of_a_known_network_is_reset_by_an_address_in_it() {
    let fixture = Scenario::new(&[
        ("management.token", TOKEN),
        ("http.trusted_proxies", "127.0.0.1"),
    ]);
    let home = [("x-forwarded-for", "2001:db8:1:2::3")];
    assert_eq!(fixture.log_in_with(&home, ALICE, RIGHT).await.status, 200);
    fail(&fixture, &home, 50).await;
    is_stopped(&fixture.log_in_with(&home, ALICE, RIGHT).await, "840");
    for (body, seconds) in [
        (json!({"email": ALICE}), Some("840")),
        (
            json!({"email": ALICE, "client_address": "2001:db8:1:3::4"}),
            Some("840"),
        ),
        (
            json!({"email": ALICE, "client_address": "2001:db8:1:2::4"}),
            None,
        ),
    ] {
        assert_eq!(reset(&fixture, &body).await.status, 204);
        let answer = fixture.log_in_with(&home, ALICE, RIGHT).await;
        match seconds {
            Some(seconds) => is_stopped(&answer, seconds),
            None => assert_eq!(answer.status, 200),
        }
    }
}

#[tokio::test]
async fn operator_call_needs_the_configured_token() {
    let fixture = Scenario::new(&[("management.token", TOKEN)]);
    let missing = "Bearer realm=\"management\"";
    let invalid = "Bearer realm=\"management\", error=\"invalid_token\"";
    let sent = |credentials: &str| ("Authorization", credentials.to_owned());
    for (path, body, status) in calls() {
        for (headers, challenge) in [
            (vec![], missing),
            (vec![sent("")], invalid),
            (vec![sent("Bearer ")], invalid),
            (vec![sent(TOKEN)], invalid),
            (vec![sent(&format!("Basic {TOKEN}"))], invalid),
            (vec![bearer("operators-token-of-some-lengt")], invalid),
            (vec![bearer("operators-token-of-some-lengtH")], invalid),
            (vec![bearer("operators-token-of-some-lengthh")], invalid),
            (vec![bearer(TOKEN), bearer(TOKEN)], invalid),
        ] {
            let headers: Vec<_> = headers
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            let answer = fixture.gateway.operate_with(path, &headers, &body).await;
            answer.is_error(401, "invalid_token");
            let challenged = answer.header("www-authenticate");
            assert_eq!(challenged, challenge, "{path} {headers:?}");
            assert!(!answer.text().contains("operators-token"), "{path}");
        }
        for scheme in ["bearer", "BEARER"] {
            let credentials = format!("{scheme} {TOKEN}");
            let headers = [("Authorization", &*credentials)];
            let answer = fixture.gateway.operate_with(path, &headers, &body).await;
            assert_eq!(answer.status, status, "{path} {scheme}");
        }
        // Applications cannot reach it.
        let public = fixture.gateway.addresses().public;
        let answer = fetch(public, post(path, &body));
        assert_eq!(answer.status, 404, "{path}");
    }
}

/// A valid body of each call, and the status of its response.
fn calls() -> [(&'static str, String, u16); 2] {
    [
        (RESET, json!({"email": ALICE}).to_string(), 204),
        (REVOKE, json!({"all": true}).to_string(), 200),
    ]
}

#[tokio::test]
async fn operator_call_is_forbidden_without_a_configured_token() {
    let fixture = Scenario::new(&[]);
    for (path, body, _) in calls() {
        for token in [None, Some(TOKEN)] {
            let answer = fixture.gateway.operate(path, token, &body).await;
            answer.is_error(403, "access_denied");
            let description = answer.json()["error_description"].to_string();
            assert!(description.contains("management.token"), "{description}");
        }
    }
}

#[tokio::test]
async fn reset_with_a_missing_wrong_or_unknown_member_is_invalid() {
    let fixture = Scenario::new(&[("management.token", TOKEN)]);
    for (body, description) in [
        (json!([]), "The body is not a JSON object."),
        (json!({}), "The member `email` is missing."),
        (json!({"email": 7}), "The member `email` must be a string."),
        (
            json!({"email": "alice"}),
            "The member `email` is not an e-mail address.",
        ),
        (
            json!({"email": ALICE, "client_address": "home"}),
            "The member `client_address` is not an IP address.",
        ),
        (
            json!({"email": ALICE, "client_address": null}),
            "The member `client_address` must be a string.",
        ),
        (
            json!({"email": ALICE, "client_adress": "127.0.0.1"}),
            "The body has an unknown member.",
        ),
    ] {
        let answer = reset(&fixture, &body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.json()["error_description"], description);
    }
}

#[tokio::test]
async fn reset_applies_to_the_namespace_of_its_header() {
    let gateway = TestGateway::start(&[("management.token", TOKEN)]);
    let (name, token) = bearer(TOKEN);
    let namespace = |name| [("Mock-Namespace", name)];
    let log_in = async |headers: &[(&str, &str)], password| {
        let body = json!({"email": ALICE, "password": password});
        let answer = gateway.post(LOGIN, headers, body.to_string());
        answer.await.status
    };
    for namespace in [namespace("one"), namespace("two")] {
        for _ in 0..10 {
            assert_eq!(log_in(&namespace, "wrong").await, 401);
        }
        assert_eq!(log_in(&namespace, RIGHT).await, 429);
    }
    let headers = [(name, token.as_str()), ("Mock-Namespace", "one")];
    let body = json!({"email": ALICE}).to_string();
    let answer = gateway.operate_with(RESET, &headers, &body).await;
    assert_eq!(answer.status, 204);
    assert_eq!(log_in(&namespace("one"), RIGHT).await, 200);
    assert_eq!(log_in(&namespace("two"), RIGHT).await, 429);
}
