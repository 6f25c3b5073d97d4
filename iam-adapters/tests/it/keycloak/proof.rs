//! "Inactive" is believed only of an introspection that has been seen to recognise a living
//! session.

use iam_adapters::keycloak::Keycloak;
use iam_adapters::{IamAdapter, Introspection, Misconfiguration};
use serde_json::json;
use test_support::scripted_upstream::keycloak::{
    INTROSPECTION, LOGOUT, TOKEN, active, grant, inactive, refresh_token, refusal,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{PASSWORD, adapter, client, credentials, kind, misconfigured, session, session_of};

/// A Keycloak whose introspection has called one session active.
async fn proven(upstream: &ScriptedUpstream) -> Keycloak {
    let keycloak = adapter(&upstream.url());
    assert_eq!(kind(&keycloak.introspect(&session()).await), "ok");
    keycloak
}

#[tokio::test]
async fn once_proven_inactive_is_believed_without_another_call() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = proven(&upstream).await;
    upstream.on(INTROSPECTION, inactive());
    assert_eq!(
        keycloak.introspect(&session()).await,
        Ok(Introspection::Inactive)
    );
    assert!(upstream.requests_to(TOKEN).is_empty());
}

#[tokio::test]
async fn a_login_proves_introspection_too() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    assert_eq!(
        kind(
            &keycloak
                .authenticate(&credentials(PASSWORD), &client())
                .await
        ),
        "ok"
    );
    upstream.on(INTROSPECTION, inactive());
    assert_eq!(
        keycloak.introspect(&session()).await,
        Ok(Introspection::Inactive)
    );
    assert_eq!(upstream.requests_to(TOKEN).len(), 1);
}

#[tokio::test]
async fn an_unproven_inactive_asks_the_refresh_grant_byte_for_byte() {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(INTROSPECTION, inactive());
    for description in [
        "Session not active",
        "Token is not active",
        "Invalid refresh token",
    ] {
        upstream.on(TOKEN, refusal(400, "invalid_grant", description));
        let answer = adapter(&upstream.url()).introspect(&session()).await;
        assert_eq!(answer, Ok(Introspection::Inactive), "{description}");
    }
    assert_eq!(
        upstream.requests_to(TOKEN)[0].text(),
        format!(
            "grant_type=refresh_token&refresh_token={}",
            refresh_token("auth-gateway")
        )
    );
}

#[tokio::test]
async fn an_introspection_that_calls_a_living_session_inactive_is_misconfigured() {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(INTROSPECTION, inactive());
    let keycloak = adapter(&upstream.url());
    // Once is not enough to believe it the second time.
    for _ in 0..2 {
        let answer = keycloak.introspect(&session()).await;
        assert_eq!(
            misconfigured(&answer),
            Some(Misconfiguration::Introspection)
        );
    }
}

#[tokio::test]
async fn a_fault_of_the_second_opinion_is_a_fault() {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(INTROSPECTION, inactive());
    let keycloak = adapter(&upstream.url());
    for (answer, expected) in [
        (Answer::html(503), "failed"),
        (Answer::html(200), "unreadable"),
        (Answer::json(200, json!({})), "unreadable"),
        (Answer::empty(429), "throttled"),
        (Answer::reset(), "unreachable"),
        (refusal(401, "unauthorized_client", ""), "misconfigured"),
    ] {
        upstream.on(TOKEN, answer);
        assert_eq!(kind(&keycloak.introspect(&session()).await), expected);
    }
}

#[tokio::test]
async fn a_session_made_under_another_host_name_is_not_called_ended() {
    let upstream = ScriptedUpstream::keycloak().await;
    let description = "Invalid token issuer. Expected 'http://elsewhere.test/realms/shop'";
    upstream
        .on(INTROSPECTION, inactive())
        .on(TOKEN, refusal(400, "invalid_grant", description))
        .on(LOGOUT, refusal(400, "invalid_grant", description));
    let keycloak = adapter(&upstream.url());
    let answer = keycloak.introspect(&session()).await;
    assert_eq!(misconfigured(&answer), Some(Misconfiguration::Issuer));
    let answer = keycloak.end_session(&session()).await;
    assert_eq!(misconfigured(&answer), Some(Misconfiguration::Issuer));
}

#[tokio::test]
async fn a_session_of_another_client_is_not_called_ended() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = proven(&upstream).await;
    upstream.on(INTROSPECTION, inactive());
    let answer = keycloak.introspect(&session_of("another")).await;
    assert_eq!(
        misconfigured(&answer),
        Some(Misconfiguration::ForeignClient)
    );
    // That is about one session, and says nothing of introspection.
    assert_eq!(
        keycloak.introspect(&session()).await,
        Ok(Introspection::Inactive)
    );
    assert!(upstream.requests_to(TOKEN).is_empty());
}

#[tokio::test]
async fn a_misconfiguration_takes_the_proof_back_until_the_next_living_session() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = proven(&upstream).await;
    upstream
        .once(INTROSPECTION, refusal(401, "invalid_client", ""))
        .once(INTROSPECTION, inactive())
        .once(INTROSPECTION, Answer::json(200, active()))
        .once(INTROSPECTION, inactive());
    assert_eq!(
        kind(&keycloak.introspect(&session()).await),
        "misconfigured"
    );
    let lie = keycloak.introspect(&session()).await;
    assert_eq!(misconfigured(&lie), Some(Misconfiguration::Introspection));
    assert_eq!(kind(&keycloak.introspect(&session()).await), "ok");
    assert_eq!(
        keycloak.introspect(&session()).await,
        Ok(Introspection::Inactive)
    );
    assert_eq!(upstream.requests_to(TOKEN).len(), 1);
}

#[tokio::test]
async fn a_login_that_stands_without_its_introspection_takes_the_proof_back_too() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = proven(&upstream).await;
    upstream
        .once(INTROSPECTION, refusal(401, "invalid_client", ""))
        .once(INTROSPECTION, inactive());
    let login = keycloak
        .authenticate(&credentials(PASSWORD), &client())
        .await;
    assert_eq!(kind(&login), "ok");
    let lie = keycloak.introspect(&session()).await;
    assert_eq!(misconfigured(&lie), Some(Misconfiguration::Introspection));
}

#[tokio::test]
async fn a_login_whose_own_session_is_called_inactive_fails_and_leaves_nothing_behind() {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(INTROSPECTION, inactive());
    let keycloak = adapter(&upstream.url());
    // Whether or not that session can be ended.
    for (nth, logout) in [(1, Answer::empty(204)), (2, Answer::empty(503))] {
        upstream.on(LOGOUT, logout);
        let answer = keycloak
            .authenticate(&credentials(PASSWORD), &client())
            .await;
        assert_eq!(
            misconfigured(&answer),
            Some(Misconfiguration::Introspection)
        );
        upstream.received(LOGOUT, nth).await;
    }
    assert_eq!(
        upstream.requests_to(LOGOUT)[0].text(),
        format!("refresh_token={}", refresh_token("auth-gateway"))
    );
    assert_eq!(upstream.requests_to(LOGOUT).len(), 2);
}

#[tokio::test]
async fn a_fault_of_the_first_introspection_does_not_fail_the_login() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    let mut other = active();
    other["sub"] = json!("somebody else");
    for fault in [
        Answer::html(503),
        Answer::html(200),
        Answer::reset(),
        Answer::json(200, other),
        refusal(401, "invalid_client", ""),
    ] {
        upstream.on(INTROSPECTION, fault);
        let login = keycloak
            .authenticate(&credentials(PASSWORD), &client())
            .await;
        assert_eq!(login.expect("a login").permissions, None);
    }
    // None of them proved anything.
    upstream
        .on(INTROSPECTION, inactive())
        .on(TOKEN, Answer::json(200, grant()));
    let answer = keycloak.introspect(&session()).await;
    assert_eq!(
        misconfigured(&answer),
        Some(Misconfiguration::Introspection)
    );
}

#[tokio::test]
async fn a_probe_remembers_that_introspection_lied_until_it_is_right_again() {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(INTROSPECTION, inactive());
    let keycloak = adapter(&upstream.url());
    assert_eq!(kind(&keycloak.probe().await), "ok");
    let lie = keycloak.introspect(&session()).await;
    assert_eq!(misconfigured(&lie), Some(Misconfiguration::Introspection));
    let probed = keycloak.probe().await;
    assert_eq!(
        misconfigured(&probed),
        Some(Misconfiguration::Introspection)
    );

    upstream.on(INTROSPECTION, Answer::json(200, active()));
    assert_eq!(kind(&keycloak.introspect(&session()).await), "ok");
    upstream.on(INTROSPECTION, inactive());
    assert_eq!(kind(&keycloak.probe().await), "ok");
}
