//! "Inactive" is accepted only after introspection has reported a session as active, and from the configured issuer.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::settings::AdapterSettings as _;
use iam_adapters::{IamAdapter, Introspection, Misconfiguration};
use serde_json::json;
use test_support::ManualClock;
use test_support::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, LOGOUT, TOKEN, active, discovery, grant, inactive, refresh_token,
    refusal,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{
    CONNECT_DEADLINE, adapter, is_misconfigured, kind, log_in, session, session_of, settings_with,
};

/// An adapter whose introspection has reported one session as active.
async fn proven(upstream: &ScriptedUpstream) -> Arc<dyn IamAdapter> {
    let keycloak = adapter(&upstream.url());
    assert_eq!(kind(&keycloak.introspect(&session()).await), "ok");
    keycloak
}

#[tokio::test]
async fn inactive_after_an_active_introspection_needs_no_refresh() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = proven(&upstream).await;
    upstream.on(INTROSPECTION, inactive());
    assert_eq!(
        keycloak.introspect(&session()).await,
        Ok(Introspection::Inactive)
    );
    assert!(upstream.requests_to(TOKEN).is_empty());
}

/// Keycloak reports the sessions of the issuer before as inactive. They are active again once it is restored.
#[tokio::test]
async fn inactive_of_an_issuer_that_has_changed_or_is_not_known_ends_no_session() {
    let upstream = ScriptedUpstream::keycloak().await;
    let other = discovery("http://elsewhere.test/realms/shop");
    for (answer, expected) in [
        (other.clone(), "misconfigured"),
        (Answer::html(200), "unreadable"),
        (Answer::html(503), "failed"),
        (Answer::reset(), "unreachable"),
    ] {
        upstream.in_good_health();
        let keycloak = proven(&upstream).await;
        upstream.on(INTROSPECTION, inactive()).on(DISCOVERY, answer);
        assert_eq!(kind(&keycloak.introspect(&session()).await), expected);
    }
    upstream.in_good_health();
    let keycloak = proven(&upstream).await;
    upstream.on(INTROSPECTION, inactive()).on(DISCOVERY, other);
    let answer = keycloak.introspect(&session()).await;
    is_misconfigured(&answer, Misconfiguration::Issuer);
    assert!(upstream.requests_to(TOKEN).is_empty());
    // No password is sent either, because the proofs are reset.
    let login = log_in(&keycloak).await;
    is_misconfigured(&login, Misconfiguration::Issuer);
    assert!(upstream.requests_to(TOKEN).is_empty());
}

#[tokio::test]
async fn inactive_sessions_of_one_second_share_one_confirmation_of_the_issuer() {
    let upstream = ScriptedUpstream::keycloak().await;
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let settings = settings_with(&upstream.url(), &json!({}));
    let time = Arc::<ManualClock>::clone(&clock);
    let keycloak = settings.connect("iam.keycloak", time, CONNECT_DEADLINE, None);
    let (keycloak, session) = (keycloak.expect("an adapter"), session());
    assert_eq!(kind(&keycloak.introspect(&session).await), "ok");
    upstream.on(INTROSPECTION, inactive());
    for confirmations in 1..=2 {
        let both = tokio::join!(keycloak.introspect(&session), keycloak.introspect(&session));
        let ended = (Ok(Introspection::Inactive), Ok(Introspection::Inactive));
        assert_eq!(both, ended);
        assert_eq!(upstream.requests_to(DISCOVERY).len(), confirmations);
        clock.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn introspection_of_a_login_proves_introspection() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    assert_eq!(kind(&log_in(&keycloak).await), "ok");
    upstream.on(INTROSPECTION, inactive());
    assert_eq!(
        keycloak.introspect(&session()).await,
        Ok(Introspection::Inactive)
    );
    assert_eq!(upstream.requests_to(TOKEN).len(), 1);
}

#[tokio::test]
async fn unproven_inactive_is_confirmed_by_a_refresh_grant() {
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
async fn introspection_that_reports_an_active_session_as_inactive_is_a_misconfiguration() {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(INTROSPECTION, inactive());
    let keycloak = adapter(&upstream.url());
    // A repeated response is no confirmation.
    for _ in 0..2 {
        let answer = keycloak.introspect(&session()).await;
        is_misconfigured(&answer, Misconfiguration::Introspection);
    }
}

#[tokio::test]
async fn fault_of_the_refresh_grant_is_a_fault_of_the_introspection() {
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
async fn session_of_another_host_name_is_not_reported_as_ended() {
    let upstream = ScriptedUpstream::keycloak().await;
    let description = "Invalid token issuer. Expected 'http://elsewhere.test/realms/shop'";
    upstream
        .on(INTROSPECTION, inactive())
        .on(TOKEN, refusal(400, "invalid_grant", description))
        .on(LOGOUT, refusal(400, "invalid_grant", description));
    let keycloak = adapter(&upstream.url());
    let answer = keycloak.introspect(&session()).await;
    is_misconfigured(&answer, Misconfiguration::Issuer);
    let answer = keycloak.end_session(&session()).await;
    is_misconfigured(&answer, Misconfiguration::Issuer);
}

#[tokio::test]
async fn session_of_another_client_is_not_reported_as_ended() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = proven(&upstream).await;
    upstream.on(INTROSPECTION, inactive());
    let answer = keycloak.introspect(&session_of("another")).await;
    is_misconfigured(&answer, Misconfiguration::ForeignClient);
    // This concerns only one session, so introspection stays proven.
    assert_eq!(
        keycloak.introspect(&session()).await,
        Ok(Introspection::Inactive)
    );
    assert!(upstream.requests_to(TOKEN).is_empty());
}

#[tokio::test]
async fn misconfiguration_resets_the_proof_until_the_next_active_session() {
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
    let introspected = keycloak.introspect(&session()).await;
    is_misconfigured(&introspected, Misconfiguration::Introspection);
    assert_eq!(kind(&keycloak.introspect(&session()).await), "ok");
    assert_eq!(
        keycloak.introspect(&session()).await,
        Ok(Introspection::Inactive)
    );
    assert_eq!(upstream.requests_to(TOKEN).len(), 1);
}

#[tokio::test]
async fn misconfigured_introspection_of_a_login_resets_the_proof() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = proven(&upstream).await;
    upstream
        .once(INTROSPECTION, refusal(401, "invalid_client", ""))
        .once(INTROSPECTION, inactive());
    let login = log_in(&keycloak).await;
    assert_eq!(kind(&login), "ok");
    let introspected = keycloak.introspect(&session()).await;
    is_misconfigured(&introspected, Misconfiguration::Introspection);
}

#[tokio::test]
async fn login_whose_session_is_reported_inactive_fails_and_ends_the_session() {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(INTROSPECTION, inactive());
    let keycloak = adapter(&upstream.url());
    // Also if the session cannot be ended.
    for (nth, logout) in [(1, Answer::empty(204)), (2, Answer::empty(503))] {
        upstream.on(LOGOUT, logout);
        let answer = log_in(&keycloak).await;
        is_misconfigured(&answer, Misconfiguration::Introspection);
        upstream.received(LOGOUT, nth).await;
    }
    assert_eq!(
        upstream.requests_to(LOGOUT)[0].text(),
        format!("refresh_token={}", refresh_token("auth-gateway"))
    );
    assert_eq!(upstream.requests_to(LOGOUT).len(), 2);
}

#[tokio::test]
async fn login_succeeds_without_permissions_if_its_introspection_fails() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    let mut other = active();
    other["sub"] = json!("another");
    for fault in [
        Answer::html(503),
        Answer::html(200),
        Answer::reset(),
        Answer::json(200, other),
        refusal(401, "invalid_client", ""),
    ] {
        upstream.on(INTROSPECTION, fault);
        let login = log_in(&keycloak).await;
        assert_eq!(login.expect("a login").permissions, None);
    }
    // None of them has proven introspection.
    upstream
        .on(INTROSPECTION, inactive())
        .on(TOKEN, Answer::json(200, grant()));
    let answer = keycloak.introspect(&session()).await;
    is_misconfigured(&answer, Misconfiguration::Introspection);
}

#[tokio::test]
async fn probe_fails_after_a_wrong_inactive_until_introspection_reports_an_active_session() {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(INTROSPECTION, inactive());
    let keycloak = adapter(&upstream.url());
    assert_eq!(kind(&keycloak.probe().await), "ok");
    let introspected = keycloak.introspect(&session()).await;
    is_misconfigured(&introspected, Misconfiguration::Introspection);
    let probed = keycloak.probe().await;
    is_misconfigured(&probed, Misconfiguration::Introspection);

    upstream.on(INTROSPECTION, Answer::json(200, active()));
    assert_eq!(kind(&keycloak.introspect(&session()).await), "ok");
    upstream.on(INTROSPECTION, inactive());
    assert_eq!(kind(&keycloak.probe().await), "ok");
}
