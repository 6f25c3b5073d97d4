//! The meaning of responses to a direct grant.

use iam_adapters::{IamError, Misconfiguration, Refusal};
use serde_json::{Value, json};
use test_support::scripted_upstream::keycloak::{
    LOGOUT, SESSION, SUBJECT, TOKEN, grant, jwt, refresh_token, refusal,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{adapter, is_misconfigured, kind, log_in, misconfigured};

#[tokio::test]
async fn description_of_invalid_grant_selects_the_refusal() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    for (description, expected) in [
        ("Invalid user credentials", Refusal::InvalidCredentials),
        ("Account disabled", Refusal::Disabled),
        ("Account is not fully set up", Refusal::Incomplete),
        ("Something new", Refusal::InvalidCredentials),
    ] {
        // 400 since 26.6, 401 before. A code means the same with every status of a client error.
        for status in [400, 401, 403] {
            upstream.on(TOKEN, refusal(status, "invalid_grant", description));
            let answer = log_in(&keycloak).await;
            assert_eq!(
                answer.err(),
                Some(IamError::Refused(expected)),
                "{description}"
            );
        }
    }
    upstream.on(TOKEN, Answer::json(400, json!({"error": "invalid_grant"})));
    let answer = log_in(&keycloak).await;
    assert_eq!(
        answer.err(),
        Some(IamError::Refused(Refusal::InvalidCredentials))
    );
}

#[tokio::test]
async fn refusal_of_the_gateway_is_no_refusal_of_the_user() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    let bad = "Invalid client or Invalid client credentials";
    let direct = "Client not allowed for direct access grants";
    let header = "Unexpected error when authenticating client";
    for (status, error, description, expected) in [
        (
            401,
            "unauthorized_client",
            bad,
            Misconfiguration::ClientSecret,
        ),
        (401, "invalid_client", bad, Misconfiguration::UnknownClient),
        (
            400,
            "unauthorized_client",
            direct,
            Misconfiguration::PasswordLogin,
        ),
        (400, "unauthorized_client", header, Misconfiguration::Other),
        (
            400,
            "unsupported_grant_type",
            "",
            Misconfiguration::PasswordLogin,
        ),
        (
            403,
            "access_denied",
            "Realm not enabled",
            Misconfiguration::Tenant,
        ),
        (404, "Realm does not exist", "", Misconfiguration::Tenant),
        (
            403,
            "invalid_request",
            "HTTPS required",
            Misconfiguration::Tls,
        ),
        (
            401,
            "invalid_request",
            "Missing parameter: username",
            Misconfiguration::Other,
        ),
        (400, "invalid_scope", "", Misconfiguration::Other),
    ] {
        upstream.on(TOKEN, refusal(status, error, description));
        let answer = log_in(&keycloak).await;
        assert_eq!(
            misconfigured(&answer),
            Some(expected),
            "{status} {error} {description}"
        );
    }
}

#[tokio::test]
async fn unknown_error_is_unreadable_and_only_its_code_is_repeated() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    for (status, error, expected) in [
        (400, "slow_down", "status 400, error slow_down"),
        (201, "invalid_grant", "status 201, error invalid_grant"),
        (400, "alice-pass was\nwrong", "status 400"),
        (400, "", "status 400"),
    ] {
        upstream.on(TOKEN, refusal(status, error, "free text"));
        let answer = log_in(&keycloak).await;
        assert_eq!(answer.err(), Some(IamError::Unreadable(expected.into())));
    }
}

#[tokio::test]
async fn inconsistent_token_response_is_unreadable() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    let token = |sub: &str, sid: &str| jwt(&json!({"sub": sub, "sid": sid, "azp": "auth-gateway"}));
    let cases: [(&str, Value); 11] = [
        ("session_state", json!("another")),
        ("session_state", Value::Null),
        ("access_token", Value::Null),
        ("refresh_expires_in", json!("1800")),
        ("refresh_expires_in", json!(-1)),
        ("refresh_token", json!(refresh_token("another"))),
        ("refresh_token", json!("opaque")),
        ("refresh_token", json!("a.%%%.c")),
        ("refresh_token", json!(token("", SESSION))),
        ("refresh_token", json!(token(SUBJECT, "another"))),
        ("refresh_token", json!(["x"])),
    ];
    for (member, value) in cases {
        let mut changed = grant();
        changed[member] = value;
        upstream.on(TOKEN, Answer::json(200, changed.clone()));
        let answer = log_in(&keycloak).await;
        assert_eq!(kind(&answer), "unreadable", "{changed}");
    }
    let whole = grant();
    let twice = format!("{{\"session_state\":\"x\",{}", &whole.to_string()[1..]);
    let array = json!([whole]).to_string();
    for body in [twice, array, String::new()] {
        upstream.on(TOKEN, Answer::text(200, "application/json", &body));
        let answer = log_in(&keycloak).await;
        assert_eq!(kind(&answer), "unreadable", "{body}");
    }
}

#[tokio::test]
async fn session_of_a_grant_that_cannot_be_used_is_ended() {
    let grant = grant();
    let mut text = grant.clone();
    text["refresh_expires_in"] = json!("1800");
    let twice = format!("{{\"session_state\":\"x\",{}", &grant.to_string()[1..]);
    for (status, body) in [
        (200, text.to_string()),
        (200, twice),
        (201, grant.to_string()),
    ] {
        let upstream = ScriptedUpstream::keycloak().await;
        upstream.on(TOKEN, Answer::text(status, "application/json", &body));
        let answer = log_in(&adapter(&upstream.url())).await;
        assert_eq!(kind(&answer), "unreadable", "{status} {body}");
        upstream.received(LOGOUT, 1).await;
        let logout = upstream.requests_to(LOGOUT).remove(0).text();
        assert_eq!(
            logout,
            format!("refresh_token={}", refresh_token("auth-gateway"))
        );
    }
}

#[tokio::test]
async fn client_without_refresh_tokens_is_misconfigured() {
    let upstream = ScriptedUpstream::keycloak().await;
    let mut without = grant();
    without.as_object_mut().unwrap().remove("refresh_token");
    upstream.on(TOKEN, Answer::json(200, without));
    let answer = log_in(&adapter(&upstream.url())).await;
    is_misconfigured(&answer, Misconfiguration::Other);
}
