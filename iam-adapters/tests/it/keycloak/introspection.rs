//! Introspection.

use iam_adapters::{Claims, IamError, Introspection, Misconfiguration, Subject};
use serde_json::{Value, json};
use test_support::scripted_upstream::keycloak::{
    INTROSPECTION, SUBJECT, TOKEN, active, refresh_token, refusal,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{
    adapter, adapter_with, all_permissions, is_misconfigured, kind, log_in, misconfigured, session,
    session_of, with,
};

#[tokio::test]
async fn introspection_sends_the_refresh_token_and_the_hint_unchanged() {
    let upstream = ScriptedUpstream::keycloak().await;
    let answer = adapter(&upstream.url()).introspect(&session()).await;
    assert!(answer.is_ok(), "{answer:?}");
    let requests = upstream.requests();
    let [request] = requests.as_slice() else {
        panic!("one call, not {requests:?}");
    };
    assert_eq!(
        (request.method.as_str(), request.path.as_str()),
        ("POST", INTROSPECTION)
    );
    assert_eq!(
        request.text(),
        format!(
            "token={}&token_type_hint=refresh_token",
            refresh_token("auth-gateway")
        )
    );
    let authorization = request.header("authorization").expect("credentials");
    assert!(authorization.starts_with("Basic "), "{authorization}");
}

#[tokio::test]
async fn active_session_has_its_subject_and_current_permissions() {
    let upstream = ScriptedUpstream::keycloak().await;
    let answer = adapter(&upstream.url()).introspect(&session()).await;
    assert_eq!(
        answer,
        Ok(Introspection::Active {
            subject: Subject::new(SUBJECT).expect("a subject"),
            permissions: all_permissions(),
            groups: Some(Vec::new()),
            claims: Claims::NONE,
        })
    );
}

#[tokio::test]
async fn groups_are_the_claim_of_that_name_if_it_is_a_list_of_names() {
    for (claim, expected) in [
        (
            json!(["/team", "/team/a"]),
            Some(["/team", "/team/a"].map(str::to_owned).to_vec()),
        ),
        (json!([]), Some(Vec::new())),
        (json!("/team"), None),
        (json!([1]), None),
        (json!({"a": "b"}), None),
    ] {
        let upstream = ScriptedUpstream::keycloak().await;
        let mut answer = active();
        answer["groups"] = claim.clone();
        upstream.on(INTROSPECTION, Answer::json(200, answer));
        match adapter(&upstream.url()).introspect(&session()).await {
            Ok(Introspection::Active { groups, .. }) => assert_eq!(groups, expected, "{claim}"),
            other => panic!("{claim}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn introspection_of_another_session_subject_or_client_is_unreadable() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    for change in [
        json!({"sub": "another"}),
        json!({"sub": null}),
        json!({"sid": "another"}),
        json!({"sid": null}),
        json!({"azp": "another"}),
        json!({"client_id": "another"}),
        json!({"azp": null, "client_id": null}),
    ] {
        upstream.on(INTROSPECTION, Answer::json(200, with(active(), &change)));
        let answer = keycloak.introspect(&session()).await;
        assert_eq!(kind(&answer), "unreadable", "{change}");
    }
}

/// Versions before 26.7 report a session as active to every client of the realm.
#[tokio::test]
async fn active_session_of_another_client_is_a_misconfiguration() {
    let upstream = ScriptedUpstream::keycloak().await;
    let response = with(active(), &json!({"azp": "another", "client_id": "another"}));
    upstream.on(INTROSPECTION, Answer::json(200, response));
    let foreign = session_of("another");
    let answer = adapter(&upstream.url()).introspect(&foreign).await;
    let what = misconfigured(&answer);
    assert_eq!(what, Some(Misconfiguration::ForeignClient), "{answer:?}");
}

#[tokio::test]
async fn one_member_that_names_the_client_is_sufficient() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    for change in [json!({"azp": null}), json!({"client_id": null})] {
        upstream.on(INTROSPECTION, Answer::json(200, with(active(), &change)));
        assert_eq!(
            kind(&keycloak.introspect(&session()).await),
            "ok",
            "{change}"
        );
    }
}

#[tokio::test]
async fn introspection_without_one_boolean_active_is_unreadable() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    for body in [
        "{}",
        "{\"active\":\"false\"}",
        "{\"active\":false,\"active\":false}",
        "{\"active\":false} {}",
    ] {
        upstream.on(INTROSPECTION, Answer::text(200, "application/json", body));
        let answer = keycloak.introspect(&session()).await;
        assert_eq!(kind(&answer), "unreadable", "{body}");
    }
}

#[tokio::test]
async fn token_endpoint_distinguishes_an_unknown_client_from_a_wrong_secret() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    let either = refusal(401, "invalid_request", "Authentication failed.");
    upstream.on(INTROSPECTION, either);
    let bad = "Invalid client or Invalid client credentials";
    let (secret, unknown) = (
        Misconfiguration::ClientSecret,
        Misconfiguration::UnknownClient,
    );
    for (at_token, expected) in [
        (refusal(401, "unauthorized_client", bad), secret),
        (refusal(401, "invalid_client", bad), unknown),
        // Not known, so the text names both settings.
        (Answer::json(503, json!({})), secret),
        (
            refusal(401, "invalid_request", "Missing parameter: username"),
            secret,
        ),
    ] {
        upstream.on(TOKEN, at_token);
        let introspected = keycloak.introspect(&session()).await;
        is_misconfigured(&introspected, expected);
        let probed = keycloak.probe().await;
        is_misconfigured(&probed, expected);
        let both = introspected.expect_err("a fault").to_string();
        let names_both = both.contains("check client_secret and client_id");
        assert_eq!(names_both, expected == secret, "{both}");
    }
    let sent = upstream.requests_to(TOKEN);
    assert!(
        sent.iter()
            .all(|request| request.text() == "grant_type=password")
    );
}

#[tokio::test]
async fn invalid_grant_from_introspection_is_unreadable() {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(
        INTROSPECTION,
        refusal(400, "invalid_grant", "Session not active"),
    );
    let answer = adapter(&upstream.url()).introspect(&session()).await;
    assert_eq!(
        answer,
        Err(IamError::Unreadable("unexpected invalid_grant".into()))
    );
}

/// The claims that the settings select, of a session and of its login.
#[tokio::test]
async fn claims_are_members_of_the_introspection_response() {
    let upstream = ScriptedUpstream::keycloak().await;
    let mut response = active();
    response["department"] = json!("sales");
    response["attributes"] = json!({"level": [3]});
    upstream.on(INTROSPECTION, Answer::json(200, response));
    let keycloak = adapter_with(
        &upstream.url(),
        &json!({"claims": {
            "dept": {"member": "department", "required": true},
            "level": {"member": "/attributes/level/0", "type": "integer"},
            "absent": {"member": "absent"},
        }}),
    );
    let expected = json!({"dept": "sales", "level": 3});
    let Ok(Introspection::Active { claims, .. }) = keycloak.introspect(&session()).await else {
        panic!("not active");
    };
    assert_eq!(Value::from(claims.to_json()), expected);
    let login = log_in(&keycloak).await.expect("a login");
    assert_eq!(Value::from(login.claims.to_json()), expected);
}

#[tokio::test]
async fn missing_required_claim_is_a_fault_of_the_session_and_no_refusal() {
    let upstream = ScriptedUpstream::keycloak().await;
    let changes = json!({"claims": {"dept": {"member": "department", "required": true}}});
    let keycloak = adapter_with(&upstream.url(), &changes);
    let fault = keycloak.introspect(&session()).await.unwrap_err();
    assert!(matches!(fault, IamError::UnreadableSession(_)), "{fault:?}");
    // The credentials are right: the first exchange reports the fault.
    let login = log_in(&keycloak).await.expect("a login");
    assert_eq!(login.permissions, None);
}
