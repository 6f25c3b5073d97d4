//! Test tokens, inspection of tokens, and explanation of scopes.

use reqwest::Method;
use serde_json::{Value, json};

use crate::namespace::{ALICE, BROWSE, Namespace, READ, WRITE, gateway, gateway_with};

async fn inspected(mock: &Namespace, token: &Value) -> Value {
    let answer = mock
        .post("/tokens/inspect", &json!({ "token": token }))
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

async fn minted(mock: &Namespace, wanted: Value) -> Value {
    let answer = mock.post("/tokens", &wanted).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["access_token"].clone()
}

#[tokio::test]
async fn token_of_the_gateway_is_valid_until_it_expires() {
    let gateway = gateway();
    let mock = Namespace::named(&gateway, "tokens");
    let session = mock.session(ALICE).await;
    let token = json!(mock.exchange(&session, READ).await.token().access_token);
    let message = inspected(&mock, &token).await;
    assert_eq!(
        (&message["valid"], &message["problems"]),
        (&json!(true), &json!([]))
    );
    assert_eq!(
        (&message["expires_in"], &message["claims"]["scope"]),
        (&json!(3600), &json!(READ))
    );
    mock.advance("59m 59s").await;
    assert_eq!(inspected(&mock, &token).await["expires_in"], json!(1));
    mock.advance("2s").await;
    let message = inspected(&mock, &token).await;
    assert_eq!(
        (&message["valid"], &message["expires_in"]),
        (&json!(false), &json!(-1))
    );
}

#[tokio::test]
async fn test_token_has_the_requested_claims() {
    let mock = Namespace::alone();
    let plain = inspected(&mock, &minted(&mock, json!({})).await).await;
    assert_eq!(plain["valid"], json!(true), "{plain}");
    let odd = json!({"claims": {"sub": "alice", "exp": 1_700_000_000, "jti": null, "role": ["a"]}});
    let odd = inspected(&mock, &minted(&mock, odd).await).await;
    assert_eq!(
        (&odd["claims"]["sub"], &odd["claims"]["role"]),
        (&json!("alice"), &json!(["a"]))
    );
    assert_eq!(odd["claims"].get("jti"), None);
    assert_eq!(odd["valid"], json!(false));
    let typed = json!({"header": {"typ": "JWT"}});
    let typed = inspected(&mock, &minted(&mock, typed).await).await;
    assert_eq!(
        (&typed["header"]["typ"], &typed["valid"]),
        (&json!("JWT"), &json!(false))
    );
    let answer = mock.post("/tokens", &json!({"claim": {}})).await;
    answer.is_error(400, "invalid_request");
    for none in ["", "a.b.c", "not a token", "a.b.c.d.e"] {
        let answer = mock
            .post("/tokens/inspect", &json!({ "token": none }))
            .await;
        answer.is_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn signing_key_is_returned_only_if_it_is_the_published_one() {
    let secret = gateway();
    let mock = Namespace::unnamed(&secret);
    let answer = mock.call(Method::GET, "/signing-key").await;
    answer.is_error(404, "not_found");
    let description = answer.json()["error_description"].to_string();
    assert!(
        description.contains("iam.mock.fixed_signing_key = true"),
        "{description}"
    );

    let fixed = gateway_with(&[("iam.mock.fixed_signing_key", "true")]);
    let mock = Namespace::named(&fixed, "any");
    let key = mock.read("/signing-key").await;
    assert!(key["d"].is_string(), "a private key");
    let token = minted(&mock, json!({})).await;
    assert_eq!(inspected(&mock, &token).await["header"]["kid"], key["kid"]);
}

#[tokio::test]
async fn a_scope_is_explained_name_by_name() {
    let mock = Namespace::alone();
    let scope = format!("{READ} {BROWSE} {READ}");
    let requested = json!({"user": ALICE, "scope": scope});
    let message = mock.post("/scopes/explain", &requested).await.json();
    assert_eq!(message["granted"], json!(READ));
    let reasons: Vec<_> = (0..3)
        .map(|name| &message["names"][name]["reason"])
        .collect();
    assert_eq!(reasons, ["granted", "not_permitted", "repeated"]);
    // As in the exchange.
    let session = mock.session(ALICE).await;
    assert_eq!(
        json!(mock.exchange(&session, &scope).await.token().scope),
        message["granted"]
    );
    for (requested, status, code) in [
        (
            json!({"user": ALICE, "scope": "a  b"}),
            400,
            "invalid_request",
        ),
        (json!({"user": ALICE}), 400, "invalid_request"),
        (json!({"user": "unknown@x", "scope": "a"}), 404, "not_found"),
    ] {
        let answer = mock.post("/scopes/explain", &requested).await;
        answer.is_error(status, code);
    }
}

#[tokio::test]
async fn allowed_scopes_are_explained_as_in_the_exchange() {
    let gateway = gateway_with(&[("iam.mock.allowed_scopes", &format!("{WRITE}, {BROWSE}"))]);
    let mock = Namespace::named(&gateway, "allowed");
    let scope = format!("{READ} {WRITE} {BROWSE}");
    let requested = json!({"user": ALICE, "scope": scope});
    let message = mock.post("/scopes/explain", &requested).await.json();
    let reasons: Vec<_> = (0..3)
        .map(|name| &message["names"][name]["reason"])
        .collect();
    assert_eq!(reasons, ["not_allowed", "granted", "not_permitted"]);
    assert_eq!(message["names"][0]["granted"], json!(false));
    let session = mock.session(ALICE).await;
    assert_eq!(
        json!(mock.exchange(&session, &scope).await.token().scope),
        message["granted"]
    );
}

#[tokio::test]
async fn default_scope_is_explained_for_an_empty_one() {
    let gateway = gateway_with(&[("token.default_scope", READ)]);
    let mock = Namespace::named(&gateway, "default");
    let requested = json!({"user": ALICE, "scope": ""});
    let message = mock.post("/scopes/explain", &requested).await.json();
    assert_eq!(message["granted"], json!(READ));
    assert_eq!(message["names"][0]["name"], json!(READ));
}

#[tokio::test]
async fn permissions_that_the_mock_does_not_have_are_not_explained() {
    let gateway = gateway_with(&[
        ("permissions.source", "http"),
        ("permissions.url", "http://127.0.0.1:9/scopes"),
    ]);
    let mock = Namespace::unnamed(&gateway);
    let requested = json!({"user": ALICE, "scope": READ});
    let answer = mock.post("/scopes/explain", &requested).await;
    answer.is_error(409, "conflict");
    let description = answer.json()["error_description"].to_string();
    assert!(description.contains("permissions.source"), "{description}");
}
