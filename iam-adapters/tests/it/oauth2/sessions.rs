//! Introspection and logout of a session.

use iam_adapters::{
    Capabilities, IamError, Introspection, Misconfiguration, PermissionAge, SessionLocation,
    Subject,
};
use secrecy::ExposeSecret as _;
use serde_json::json;
use test_support::scripted_upstream::{Answer, Request};

use super::{
    ACCESS_TOKEN, CLIENT, DISCOVERY, INTROSPECTION, NOW, READ, REFRESH_TOKEN, REVOCATION, TOKEN,
    WRITE, active, adapter, adapter_with, error, grant, healthy, inactive, is_misconfigured, kind,
    log_in, metadata, misconfigured, permissions, session, with, without,
};

#[tokio::test]
async fn active_session_has_the_subject_and_permissions_of_the_response() {
    let upstream = healthy().await;
    let oauth2 = adapter(&upstream);
    let session = session(&oauth2).await;
    let expected = Introspection::Active {
        subject: session.subject.clone(),
        permissions: permissions(&[READ, WRITE]),
        groups: None,
        claims: iam_adapters::Claims::default(),
    };
    assert_eq!(oauth2.introspect(&session).await, Ok(expected));
    assert_eq!(upstream.requests_to(TOKEN).len(), 1, "nothing is refreshed");
}

#[tokio::test]
async fn inactive_is_the_end_of_the_session_without_a_second_call() {
    let upstream = healthy().await;
    let session = session(&adapter(&upstream)).await;
    upstream.on(INTROSPECTION, inactive());
    // Also after a restart, and with `introspect` changed.
    let calls = upstream.requests_to(TOKEN).len();
    for changes in [json!({}), json!({"introspect": "access_token"})] {
        let oauth2 = adapter_with(&upstream, &changes);
        assert_eq!(
            oauth2.introspect(&session).await,
            Ok(Introspection::Inactive)
        );
    }
    assert_eq!(upstream.requests_to(TOKEN).len(), calls);
    for request in upstream.requests_to(INTROSPECTION) {
        assert!(request.text().contains(REFRESH_TOKEN), "{}", request.text());
    }
}

/// Their only credentials are those of the client.
#[tokio::test]
async fn refusal_of_a_login_is_that_of_the_client_in_other_requests() {
    let invalid_client = error(401, "invalid_client");
    for (changes, answer) in [
        (json!({"preset": "glewlwyd"}), Answer::empty(403)),
        (json!({"refused_status": 401}), Answer::empty(401)),
        (json!({"refused_error": "invalid_client"}), invalid_client),
    ] {
        let upstream = healthy().await;
        let oauth2 = adapter_with(&upstream, &changes);
        let session = session(&oauth2).await;
        upstream.on(REVOCATION, answer.clone());
        let ended = oauth2.end_session(&session).await;
        upstream.on(INTROSPECTION, answer.clone());
        let introspected = oauth2.introspect(&session).await.map(drop);
        for result in [ended, introspected, oauth2.probe().await] {
            assert_eq!(
                misconfigured(&result),
                Some(Misconfiguration::ClientSecret),
                "{changes}: {result:?}"
            );
        }
    }
}

#[tokio::test]
async fn introspection_with_a_missing_mistyped_or_repeated_member_is_unreadable() {
    let upstream = healthy().await;
    let oauth2 = adapter(&upstream);
    let session = session(&oauth2).await;
    for body in [
        r#"{"active":"false"}"#,
        r#"{"sub":"x"}"#,
        r#"{"active":false,"sub":"a","sub":"b"}"#,
        r#"{"active":false,"client_id":7}"#,
        r#"{"active":true,"iss":["x"]}"#,
    ] {
        upstream.on(INTROSPECTION, Answer::text(200, "application/json", body));
        assert_eq!(
            kind(&oauth2.introspect(&session).await),
            "unreadable",
            "{body}"
        );
    }
}

#[tokio::test]
async fn token_is_active_only_by_its_issuer_its_begin_and_its_end() {
    let upstream = healthy().await;
    let oauth2 = adapter(&upstream);
    let session = session(&oauth2).await;
    let issuer = format!("{}/iam", upstream.url());
    for (member, value, expected) in [
        ("iss", json!(issuer), "active"),
        ("iss", json!(format!("{issuer}/")), "issuer"),
        ("iss", json!("https://another.test"), "issuer"),
        ("iss", json!(""), "issuer"),
        ("iss", json!(null), "active"),
        // The clocks may differ by a minute.
        ("nbf", json!(NOW + 60), "active"),
        ("nbf", json!(NOW + 61), "unreadable"),
        ("nbf", json!("soon"), "unreadable"),
        ("nbf", json!(null), "active"),
        ("exp", json!(NOW - 59), "past"),
        ("exp", json!(NOW - 60), "inactive"),
        ("exp", json!(0), "inactive"),
        ("exp", json!("2027-01-15T08:00:00Z"), "unreadable"),
        ("exp", json!(-1), "unreadable"),
        ("exp", json!(null), "active"),
    ] {
        let mut response = active();
        response[member] = value.clone();
        upstream.on(INTROSPECTION, Answer::json(200, response));
        // A fault of this session alone, but of the server at a login.
        let introspected = match oauth2.introspect(&session).await {
            Ok(Introspection::Active { .. }) => "active",
            Ok(Introspection::Inactive) => "inactive",
            Err(IamError::UnreadableSession(_)) => "unreadable",
            Err(fault) => panic!("{member}: {value}: {fault}"),
        };
        let login = log_in(&oauth2).await;
        let (of_session, of_login) = match expected {
            "issuer" => ("unreadable", Some(Misconfiguration::Issuer)),
            "past" => ("active", Some(Misconfiguration::Introspection)),
            "inactive" => ("inactive", Some(Misconfiguration::Introspection)),
            other => (other, None),
        };
        assert_eq!(introspected, of_session, "{member}: {value}");
        assert_eq!(misconfigured(&login), of_login, "{member}: {value}");
        // A login that succeeds ends the doubt about "inactive".
        upstream.on(INTROSPECTION, Answer::json(200, active()));
        log_in(&oauth2).await.expect("a login");
    }
    // An ended token has no use for its other members.
    let ended = json!({"active": false, "iss": "https://another.test", "nbf": NOW + 61});
    upstream.on(INTROSPECTION, Answer::json(200, ended));
    assert_eq!(
        oauth2.introspect(&session).await,
        Ok(Introspection::Inactive)
    );
}

/// With a clock that is wrong, every token can seem to have expired. Then sessions have not ended.
#[tokio::test]
async fn expired_token_of_a_login_is_a_fault_and_so_is_that_of_a_session_until_a_login_succeeds() {
    let upstream = healthy().await;
    let oauth2 = adapter(&upstream);
    let session = session(&oauth2).await;
    let mut expired = active();
    expired["iat"] = json!(NOW - 1800);
    expired["exp"] = json!(NOW - 60);
    upstream.on(INTROSPECTION, Answer::json(200, expired));
    let login = log_in(&oauth2).await;
    is_misconfigured(&login, Misconfiguration::Introspection);
    upstream.received(REVOCATION, 2).await;
    is_misconfigured(
        &oauth2.introspect(&session).await,
        Misconfiguration::Introspection,
    );
}

#[tokio::test]
async fn session_of_another_subject_is_unreadable() {
    let upstream = healthy().await;
    let oauth2 = adapter(&upstream);
    let mut session = session(&oauth2).await;
    session.subject = Subject::new("another").expect("a subject");
    let answer = oauth2.introspect(&session).await;
    assert!(
        matches!(answer, Err(IamError::UnreadableSession(_))),
        "{answer:?}"
    );
}

#[tokio::test]
async fn active_session_without_a_subject_has_ended_only_if_the_settings_say_so() {
    let upstream = healthy().await;
    let says_so = json!({"deleted_account": "without_subject"});
    let oauth2 = adapter_with(&upstream, &says_so);
    let session = session(&oauth2).await;
    for (answer, is_absent) in [
        (without(active(), "sub"), true),
        (with(active(), &json!({"sub": null})), true),
        (with(active(), &json!({"sub": ""})), false),
        (with(active(), &json!({"sub": ["a"]})), false),
    ] {
        upstream.on(INTROSPECTION, Answer::json(200, answer.clone()));
        let says_so = oauth2.introspect(&session).await;
        assert_eq!(
            says_so == Ok(Introspection::Inactive),
            is_absent,
            "{says_so:?}"
        );
        for changes in [
            json!({}),
            json!({"preset": "glewlwyd"}),
            json!({"deleted_account": "inactive"}),
        ] {
            let introspected = adapter_with(&upstream, &changes).introspect(&session).await;
            assert!(
                matches!(introspected, Err(IamError::UnreadableSession(_))),
                "{answer}: {introspected:?}"
            );
        }
    }
    // A login cannot begin a session without a user.
    let login = log_in(&oauth2).await;
    assert!(matches!(login, Err(IamError::Unreadable(_))), "{login:?}");
}

#[tokio::test]
async fn session_of_another_client_is_a_misconfiguration_without_a_call() {
    let upstream = healthy().await;
    let session = session(&adapter(&upstream)).await;
    let calls = upstream.requests().len();
    let other = adapter_with(&upstream, &json!({"client_id": "another"}));
    for result in [
        other.introspect(&session).await.map(drop),
        other.end_session(&session).await,
    ] {
        is_misconfigured(&result, Misconfiguration::ForeignClient);
    }
    assert_eq!(upstream.requests().len(), calls);
}

#[tokio::test]
async fn session_with_an_altered_secret_is_unreadable_without_a_call() {
    let upstream = healthy().await;
    let oauth2 = adapter(&upstream);
    let session = session(&oauth2).await;
    let calls = upstream.requests().len();
    let secret = session.secret.expose_secret();
    for altered in [
        secret.replace(ACCESS_TOKEN, "another"),
        secret.replace(REFRESH_TOKEN, "another"),
        secret.replace(CLIENT, "another"),
        String::new(),
    ] {
        let mut session = session.clone();
        session.secret = altered.into();
        assert_eq!(kind(&oauth2.introspect(&session).await), "unreadable");
        assert_eq!(kind(&oauth2.end_session(&session).await), "unreadable");
    }
    assert_eq!(upstream.requests().len(), calls);
}

#[tokio::test]
async fn two_logins_have_two_session_ids() {
    let upstream = healthy().await;
    let oauth2 = adapter(&upstream);
    let one = session(&oauth2).await;
    let mut other = grant();
    other["refresh_token"] = json!("another");
    upstream.on(TOKEN, Answer::json(200, other));
    assert_ne!(session(&oauth2).await.id, one.id);
}

#[tokio::test]
async fn logout_revokes_the_refresh_token_and_then_the_access_token() {
    let upstream = healthy().await;
    let oauth2 = adapter(&upstream);
    let session = session(&oauth2).await;
    assert_eq!(oauth2.end_session(&session).await, Ok(()));
    let sent: Vec<_> = upstream
        .requests_to(REVOCATION)
        .iter()
        .map(Request::text)
        .collect();
    assert_eq!(
        sent,
        [
            format!("token={REFRESH_TOKEN}&token_type_hint=refresh_token"),
            format!("token={ACCESS_TOKEN}&token_type_hint=access_token"),
        ]
    );
}

#[tokio::test]
async fn logout_succeeds_only_if_every_token_is_revoked() {
    let unsupported = || error(400, "unsupported_token_type");
    let invalid_grant = error(400, "invalid_grant");
    for (refresh, access, expected) in [
        (Answer::empty(200), Answer::empty(204), "ok"),
        (Answer::json(200, json!({})), Answer::empty(200), "ok"),
        // Without the refresh token there is no session.
        (Answer::empty(200), unsupported(), "ok"),
        (unsupported(), Answer::empty(200), "misconfigured"),
        (Answer::html(200), Answer::empty(200), "unreadable"),
        (Answer::empty(200), Answer::html(200), "unreadable"),
        (Answer::empty(503), Answer::empty(200), "failed"),
        (Answer::empty(200), Answer::empty(503), "failed"),
        (Answer::empty(401), Answer::empty(200), "misconfigured"),
        (Answer::empty(200), Answer::reset(), "unreachable"),
        (invalid_grant, Answer::empty(200), "unreadable"),
    ] {
        let upstream = healthy().await;
        let oauth2 = adapter(&upstream);
        let session = session(&oauth2).await;
        upstream
            .once(REVOCATION, refresh.clone())
            .on(REVOCATION, access.clone());
        let result = oauth2.end_session(&session).await;
        assert_eq!(kind(&result), expected, "{refresh:?} {access:?}");
    }
}

#[tokio::test]
async fn logout_that_the_server_refuses_succeeds_if_introspection_says_that_the_session_has_ended()
{
    let refused = |status| error(status, "invalid_request");
    let empty = Answer::empty;
    let page = Answer::text(200, "text/plain", "revoked");
    for (refresh, access, introspection, expected) in [
        (empty(200), refused(400), inactive(), "ok"),
        (empty(200), refused(401), inactive(), "ok"),
        (empty(200), empty(404), inactive(), "ok"),
        (page.clone(), page, inactive(), "ok"),
        // The session had ended before.
        (refused(400), refused(400), inactive(), "ok"),
        (refused(400), empty(503), inactive(), "failed"),
        (empty(503), empty(200), inactive(), "failed"),
        (empty(429), empty(200), inactive(), "throttled"),
        (refused(400), empty(200), empty(503), "misconfigured"),
        (refused(400), empty(200), empty(401), "misconfigured"),
    ] {
        let upstream = healthy().await;
        let oauth2 = adapter(&upstream);
        let session = session(&oauth2).await;
        upstream
            .once(REVOCATION, refresh.clone())
            .on(REVOCATION, access.clone())
            .on(INTROSPECTION, introspection.clone());
        let result = oauth2.end_session(&session).await;
        let answers = format!("{refresh:?} {access:?} {introspection:?}");
        assert_eq!(kind(&result), expected, "{answers}");
        let calls = upstream.requests_to(REVOCATION).len();
        assert!(expected != "ok" || calls == 2, "{answers}: both are tried");
    }
}

/// As after a logout whose second call failed: the refresh token has ended, and the access token is the session.
#[tokio::test]
async fn access_token_is_revoked_also_if_the_server_refuses_the_refresh_token() {
    let upstream = healthy().await;
    let oauth2 = adapter_with(&upstream, &json!({"introspect": "access_token"}));
    let session = session(&oauth2).await;
    upstream
        .once(REVOCATION, error(400, "invalid_token"))
        .on(REVOCATION, Answer::empty(200).held());
    let (result, ()) = tokio::join!(oauth2.end_session(&session), async {
        upstream.received(REVOCATION, 2).await;
        upstream.on(INTROSPECTION, inactive()).release();
    });
    assert_eq!(result, Ok(()));
}

#[tokio::test]
async fn server_without_revocation_ends_no_session() {
    let upstream = healthy().await;
    let mut document = metadata(&upstream);
    document["revocation_endpoint"] = json!(null);
    upstream.on(DISCOVERY, Answer::json(200, document));
    let oauth2 = adapter_with(&upstream, &json!({"revocation_endpoint": "none"}));
    let sessions = oauth2.capabilities().sessions;
    assert_eq!(sessions, SessionLocation::SessionToken);
    let session = session(&oauth2).await;
    assert_eq!(oauth2.end_session(&session).await, Ok(()));
    assert!(upstream.requests_to(REVOCATION).is_empty());
}

#[tokio::test]
async fn capabilities_are_the_weaker_ones_unless_set() {
    let upstream = healthy().await;
    let weak = Capabilities {
        sessions: SessionLocation::Iam,
        detects_disabled: false,
        detects_deleted: false,
        permissions: PermissionAge::Login,
        back_channel_logout: false,
        one_time_password: false,
    };
    for (preset, detects_deleted) in [
        (json!(null), false),
        (json!("glewlwyd"), true),
        (json!("django-oauth-toolkit"), true),
    ] {
        let oauth2 = adapter_with(&upstream, &json!({"preset": preset}));
        assert_eq!(
            oauth2.capabilities(),
            Capabilities {
                detects_deleted,
                ..weak
            }
        );
        assert_eq!(oauth2.logout_audience(), None);
        assert_eq!(kind(&oauth2.verification_keys().await), "unreadable");
    }
    let set = json!({
        "detects_disabled": true,
        "deleted_account": "inactive",
        "current_permissions": true,
    });
    assert_eq!(
        adapter_with(&upstream, &set).capabilities(),
        Capabilities {
            detects_disabled: true,
            detects_deleted: true,
            permissions: PermissionAge::Current,
            ..weak
        }
    );
}

#[tokio::test]
async fn claims_are_members_of_the_introspection_response_and_a_missing_required_one_is_a_fault() {
    let upstream = healthy().await;
    let changes = json!({"claims": {"dept": {"member": "/ext/department", "required": true}}});
    let oauth2 = adapter_with(&upstream, &changes);
    let mut response = active();
    response["ext"] = json!({"department": "sales"});
    upstream.on(INTROSPECTION, Answer::json(200, response));
    let login = log_in(&oauth2).await.expect("a login");
    let expected = json!({"dept": "sales"});
    assert_eq!(serde_json::Value::from(login.claims.to_json()), expected);
    let Ok(Introspection::Active { claims, .. }) = oauth2.introspect(&login.session).await else {
        panic!("not active");
    };
    assert_eq!(serde_json::Value::from(claims.to_json()), expected);
    upstream.on(INTROSPECTION, Answer::json(200, active()));
    for fault in [
        oauth2.introspect(&login.session).await.unwrap_err(),
        log_in(&oauth2).await.unwrap_err(),
    ] {
        assert!(matches!(fault, IamError::UnreadableSession(_)), "{fault:?}");
    }
    // The session of the failed login.
    upstream.received(REVOCATION, 2).await;
}
