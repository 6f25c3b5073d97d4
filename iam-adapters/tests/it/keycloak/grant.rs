//! The meaning of responses to a direct grant, and of refusals of the gateway in every operation.

use iam_adapters::{IamError, Misconfiguration, Refusal};
use serde_json::{Value, json};
use test_support::scripted_upstream::keycloak::{
    INTROSPECTION, LOGOUT, SESSION, SUBJECT, TOKEN, grant, jwt, refresh_token, refusal,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{adapter, is_misconfigured, kind, log_in, misconfigured, session, without};

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
async fn refusal_of_the_gateway_is_a_misconfiguration_in_every_operation() {
    use Misconfiguration::{ClientSecret, Other, PasswordLogin, Tenant, Tls, UnknownClient};
    let bad = "Invalid client or Invalid client credentials";
    let failed = "Client authentication failed.";
    let either = "Authentication failed.";
    let direct = "Client not allowed for direct access grants";
    let header = "Unexpected error when authenticating client";
    for (status, error, description, expected) in [
        (401, "unauthorized_client", bad, ClientSecret),
        (401, "invalid_client", bad, UnknownClient),
        (401, "invalid_client", failed, ClientSecret),
        (401, "invalid_request", either, ClientSecret),
        (400, "unauthorized_client", direct, PasswordLogin),
        (400, "unauthorized_client", header, Other),
        (400, "unsupported_grant_type", "", PasswordLogin),
        (403, "access_denied", "Realm not enabled", Tenant),
        (404, "Realm does not exist", "", Tenant),
        (403, "invalid_request", "HTTPS required", Tls),
        (403, "invalid_request", "Client not allowed.", Other),
        (400, "invalid_request", "", Other),
        (400, "invalid_scope", "", Other),
    ] {
        for path in [TOKEN, INTROSPECTION, LOGOUT] {
            let upstream = ScriptedUpstream::keycloak().await;
            upstream.on(path, refusal(status, error, description));
            let keycloak = adapter(&upstream.url());
            let results = match path {
                TOKEN => vec![log_in(&keycloak).await.map(drop)],
                INTROSPECTION => vec![
                    keycloak.introspect(&session()).await.map(drop),
                    keycloak.probe().await,
                ],
                _ => vec![keycloak.end_session(&session()).await],
            };
            for result in results {
                let of = format!("{path}: {status} {error} {description}");
                assert_eq!(misconfigured(&result), Some(expected), "{of}");
            }
        }
    }
    let upstream = ScriptedUpstream::keycloak().await;
    let missing_user = refusal(401, "invalid_request", "Missing parameter: username");
    upstream.on(TOKEN, missing_user);
    is_misconfigured(&log_in(&adapter(&upstream.url())).await, Other);
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
    upstream.on(TOKEN, Answer::json(200, without(grant(), "refresh_token")));
    let answer = log_in(&adapter(&upstream.url())).await;
    is_misconfigured(&answer, Misconfiguration::Other);
}
