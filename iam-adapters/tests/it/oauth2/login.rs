//! Login.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::SystemClock;
use iam_adapters::resilient::CallLimit;
use iam_adapters::{IamAdapter, IamError, Introspection, Misconfiguration, Permissions, Refusal};
use serde_json::json;
use test_support::resilient::resilient;
use test_support::scripted_upstream::Answer;

use super::{
    ACCESS_TOKEN, INTROSPECTION, NOW, PASSWORD, READ, REFRESH_TOKEN, REVOCATION, SUBJECT, TOKEN,
    WRITE, active, adapter, adapter_with, client, credentials, error, grant, healthy, inactive,
    is_misconfigured, kind, log_in, misconfigured, permissions, session, without,
};

#[tokio::test]
async fn login_sends_the_password_grant_unchanged_and_introspects_the_refresh_token() {
    let upstream = healthy().await;
    let more = "audience=https://api.test/&realm=two+words";
    let changes = json!({"scope": format!("openid {READ}"), "token_parameters": more});
    let oauth2 = adapter_with(&upstream, &changes);
    let login = oauth2
        .authenticate(&credentials("p w&=+%é"), &client())
        .await;
    let login = login.expect("a login");
    let grants = upstream.requests_to(TOKEN);
    assert_eq!(
        grants[0].text(),
        "grant_type=password&username=alice%40example.test&password=p+w%26%3D%2B%25%C3%A9\
         &scope=openid+urn%3Ashop%3Aorders%3Aorder%3Aread\
         &audience=https%3A%2F%2Fapi.test%2F&realm=two+words"
    );
    assert_eq!(
        grants[0].header("x-forwarded-for"),
        Some("192.0.2.7".to_owned())
    );
    assert_eq!(
        grants[0].header("x-request-id"),
        Some("request-1".to_owned())
    );
    assert_eq!(
        upstream.requests_to(INTROSPECTION)[0].text(),
        format!("token={REFRESH_TOKEN}&token_type_hint=refresh_token")
    );
    assert_eq!(grants.len(), 1);
    assert_eq!(login.session.subject.as_str(), SUBJECT);
    assert_eq!(login.permissions, Some(permissions(&[READ, WRITE])));
    // `exp` minus `iat`, so that clocks may differ.
    assert_eq!(login.expires_in, Some(Duration::from_secs(1800)));
}

#[tokio::test]
async fn without_a_scope_none_is_requested() {
    let upstream = healthy().await;
    for changes in [json!({}), json!({"scope": ""})] {
        let oauth2 = adapter_with(&upstream, &changes);
        let login = log_in(&oauth2).await;
        assert_eq!(kind(&login), "ok");
    }
    for grant in upstream.requests_to(TOKEN) {
        assert!(!grant.text().contains("scope"), "{}", grant.text());
    }
}

#[tokio::test]
async fn access_token_is_introspected_if_set_and_its_lifetime_is_that_of_the_session() {
    let upstream = healthy().await;
    for changes in [
        json!({"introspect": "access_token"}),
        json!({"preset": "django-oauth-toolkit"}),
    ] {
        let oauth2 = adapter_with(&upstream, &changes);
        let login = log_in(&oauth2).await;
        assert_eq!(
            login.expect("a login").expires_in,
            Some(Duration::from_secs(300))
        );
    }
    for request in upstream.requests_to(INTROSPECTION) {
        let expected = format!("token={ACCESS_TOKEN}&token_type_hint=access_token");
        assert_eq!(request.text(), expected);
    }
}

#[tokio::test]
async fn session_ends_no_later_than_its_token() {
    let upstream = healthy().await;
    let oauth2 = adapter(&upstream);
    for (iat, exp, expected) in [
        (json!(null), json!(NOW + 60), Some(60)),
        (json!(null), json!(null), None),
        (json!(NOW), json!(null), None),
        // Rounded down.
        (json!(null), json!(1_800_000_060.9), Some(60)),
        (json!(null), json!("1800000060"), Some(60)),
        (json!("1800000010.5"), json!("1800000060.5"), Some(50)),
        // The server's clock is ahead or behind.
        (json!(NOW + 3600), json!(NOW + 3660), Some(60)),
        (json!(NOW - 10), json!(NOW + 50), Some(50)),
        (json!("yesterday"), json!(NOW + 60), Some(60)),
    ] {
        let mut response = active();
        response["iat"] = iat.clone();
        response["exp"] = exp.clone();
        upstream.on(INTROSPECTION, Answer::json(200, response));
        let login = log_in(&oauth2).await;
        let expires_in = login.expect("a login").expires_in;
        let expected = expected.map(Duration::from_secs);
        assert_eq!(expires_in, expected, "{iat} {exp}");
    }
}

#[tokio::test]
async fn login_whose_token_has_no_lifetime_or_none_that_can_be_read_is_a_fault_and_is_revoked() {
    let upstream = healthy().await;
    let oauth2 = adapter(&upstream);
    for (nth, (iat, exp, expected)) in [
        (json!(NOW), json!(NOW), "misconfigured"),
        (json!(null), json!(NOW - 1), "misconfigured"),
        (json!(NOW - 1800), json!(NOW - 60), "misconfigured"),
        (json!(null), json!("2027-01-15T08:01:00Z"), "unreadable"),
        (json!(null), json!(-1), "unreadable"),
        (json!(null), json!(1e30), "unreadable"),
        (json!(null), json!(true), "unreadable"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut response = active();
        response["iat"] = iat;
        response["exp"] = exp.clone();
        upstream.on(INTROSPECTION, Answer::json(200, response));
        let login = log_in(&oauth2).await;
        assert_eq!(kind(&login), expected, "{exp}");
        upstream.received(REVOCATION, (nth + 1) * 2).await;
    }
}

#[tokio::test]
async fn lifetime_of_the_access_token_is_read_only_if_it_is_introspected() {
    for (expires_in, end, expected) in [
        (json!(300), json!(NOW + 900), Ok(300)),
        (json!(300), json!(NOW + 60), Ok(60)),
        (json!("300"), json!(null), Ok(300)),
        (json!(300.9), json!(null), Ok(300)),
        (json!(null), json!(NOW + 60), Ok(60)),
        (json!(0), json!(null), Err("misconfigured")),
        (json!(-1), json!(NOW + 60), Err("unreadable")),
        (json!("PT5M"), json!(NOW + 60), Err("unreadable")),
    ] {
        let upstream = healthy().await;
        let mut response = without(active(), "iat");
        response["exp"] = end;
        upstream.on(INTROSPECTION, Answer::json(200, response));
        let mut granted = grant();
        granted["expires_in"] = expires_in.clone();
        upstream.on(TOKEN, Answer::json(200, granted));
        let oauth2 = adapter_with(&upstream, &json!({"introspect": "access_token"}));
        let login = log_in(&oauth2).await;
        let lifetime = login.map(|login| login.expires_in.map(|lifetime| lifetime.as_secs()));
        let lifetime = lifetime.as_ref().map_err(IamError::kind);
        assert_eq!(
            lifetime,
            expected.map(Some).as_ref().map_err(|kind| *kind),
            "{expires_in}"
        );
        if expected.is_err() {
            upstream.received(REVOCATION, 2).await;
        }
        let login = log_in(&adapter(&upstream)).await;
        assert_eq!(kind(&login), "ok", "{expires_in}");
    }
}

#[tokio::test]
async fn subject_is_the_configured_claim() {
    let upstream = healthy().await;
    for (changes, expected) in [
        (json!({"subject_claim": "username"}), "alice@example.test"),
        (
            json!({"preset": "django-oauth-toolkit"}),
            "alice@example.test",
        ),
        (json!({"subject_claim": "employee"}), "1815"),
        (json!({"preset": "glewlwyd"}), SUBJECT),
    ] {
        let oauth2 = adapter_with(&upstream, &changes);
        let login = log_in(&oauth2).await;
        assert_eq!(login.expect("a login").session.subject.as_str(), expected);
    }
}

#[tokio::test]
async fn login_without_a_subject_is_unreadable_and_its_tokens_are_revoked() {
    let upstream = healthy().await;
    for (nth, response) in [
        without(active(), "sub"),
        json!({"active": true, "sub": ""}),
        json!({"active": true, "sub": true}),
        json!({"active": true, "sub": null}),
    ]
    .into_iter()
    .enumerate()
    {
        upstream.on(INTROSPECTION, Answer::json(200, response));
        let login = log_in(&adapter(&upstream)).await;
        assert_eq!(kind(&login), "unreadable", "{login:?}");
        upstream.received(REVOCATION, (nth + 1) * 2).await;
    }
    assert_eq!(
        upstream.requests_to(REVOCATION)[0].text(),
        format!("token={REFRESH_TOKEN}&token_type_hint=refresh_token")
    );
    assert_eq!(
        upstream.requests_to(REVOCATION)[1].text(),
        format!("token={ACCESS_TOKEN}&token_type_hint=access_token")
    );
}

#[tokio::test]
async fn permissions_are_the_names_in_the_configured_claim() {
    let upstream = healthy().await;
    for (claim, expected) in [
        ("scope", permissions(&[READ, WRITE])),
        // The invalid name is dropped.
        ("groups", permissions(&["sales"])),
        ("https://example.test/roles", permissions(&["admin"])),
        ("/resource/a~1b/roles", permissions(&["deep"])),
        ("/groups/0", permissions(&["sales"])),
        ("missing", Permissions::default()),
        ("/resource/missing", Permissions::default()),
        ("", Permissions::default()),
    ] {
        let oauth2 = adapter_with(&upstream, &json!({"permissions_claim": claim}));
        let login = log_in(&oauth2).await;
        assert_eq!(
            login.expect("a login").permissions,
            Some(expected),
            "{claim}"
        );
    }
}

#[tokio::test]
async fn permissions_of_another_type_are_unreadable() {
    let upstream = healthy().await;
    for claim in ["employee", "active", "resource", "/resource/a~1b"] {
        let oauth2 = adapter_with(&upstream, &json!({"permissions_claim": claim}));
        let login = log_in(&oauth2).await;
        assert_eq!(kind(&login), "unreadable", "{claim}");
    }
}

#[tokio::test]
async fn login_whose_session_is_reported_inactive_is_a_misconfiguration_and_is_revoked() {
    let upstream = healthy().await;
    upstream.on(INTROSPECTION, inactive());
    let login = log_in(&adapter(&upstream)).await;
    is_misconfigured(&login, Misconfiguration::Introspection);
    upstream.received(REVOCATION, 2).await;
}

#[tokio::test]
async fn every_token_of_a_grant_that_cannot_be_used_is_revoked() {
    let grant = grant().to_string();
    let twice = |member: &str| format!("{{{member},{}", &grant[1..]);
    for (status, body, tokens) in [
        (201, grant.clone(), vec![REFRESH_TOKEN, ACCESS_TOKEN]),
        (
            200,
            twice(r#""access_token":"other""#),
            vec![REFRESH_TOKEN, ACCESS_TOKEN, "other"],
        ),
        (
            200,
            twice(r#""refresh_token":"other""#),
            vec![REFRESH_TOKEN, "other", ACCESS_TOKEN],
        ),
        (
            200,
            twice(r#""expires_in":300"#),
            vec![REFRESH_TOKEN, ACCESS_TOKEN],
        ),
        (200, format!("{grant}}}"), vec![REFRESH_TOKEN, ACCESS_TOKEN]),
        (
            200,
            r#"{"access_token":7,"refresh_token":"other"}"#.to_owned(),
            vec!["other"],
        ),
    ] {
        let upstream = healthy().await;
        // Each is revoked, whatever becomes of the others.
        upstream.once(REVOCATION, Answer::empty(400));
        upstream.on(TOKEN, Answer::text(status, "application/json", &body));
        let login = log_in(&adapter(&upstream)).await;
        assert_eq!(kind(&login), "unreadable", "{status} {body}");
        upstream.received(REVOCATION, tokens.len()).await;
        let mut revoked: Vec<_> = upstream
            .requests_to(REVOCATION)
            .iter()
            .filter_map(|request| Some(request.text().split_once('&')?.0.replace("token=", "")))
            .collect();
        let mut tokens = tokens;
        revoked.sort_unstable();
        tokens.sort_unstable();
        assert_eq!(revoked, tokens, "{status} {body}");
    }
}

#[tokio::test]
async fn login_without_a_refresh_token_needs_one_only_if_it_is_introspected() {
    let upstream = healthy().await;
    upstream.on(TOKEN, Answer::json(200, without(grant(), "refresh_token")));
    let login = log_in(&adapter(&upstream)).await;
    is_misconfigured(&login, Misconfiguration::Other);
    let oauth2 = adapter_with(&upstream, &json!({"introspect": "access_token"}));
    let login = log_in(&oauth2).await;
    assert_eq!(kind(&login), "ok");
}

#[tokio::test]
async fn introspection_of_another_client_is_unreadable() {
    let upstream = healthy().await;
    let mut response = active();
    response["client_id"] = json!("another");
    upstream.on(INTROSPECTION, Answer::json(200, response));
    let login = log_in(&adapter(&upstream)).await;
    assert_eq!(kind(&login), "unreadable");
}

#[tokio::test]
async fn only_configured_responses_refuse_the_credentials() {
    let invalid_grant = || error(400, "invalid_grant");
    let access_denied = || error(401, "access_denied");
    let standard = json!({});
    let glewlwyd = json!({"preset": "glewlwyd"});
    let dex = json!({"refused_error": "access_denied"});
    let status = json!({"refused_status": 403});
    let page = || Answer::html(403);
    let message = || Answer::json(403, json!({"message": "wrong"}));
    let unauthorized = || error(403, "unauthorized_client");
    for (changes, answer, expected) in [
        (&standard, invalid_grant(), "refused"),
        (&standard, Answer::empty(403), "misconfigured"),
        (&standard, Answer::empty(401), "misconfigured"),
        (&standard, Answer::empty(400), "misconfigured"),
        (&standard, access_denied(), "unreadable"),
        (&standard, error(403, "invalid_grant"), "refused"),
        (&status, page(), "refused"),
        (&status, message(), "refused"),
        (&status, Answer::empty(403), "refused"),
        (&status, unauthorized(), "misconfigured"),
        (&glewlwyd, message(), "unreadable"),
        (&glewlwyd, Answer::empty(403), "refused"),
        (&glewlwyd, page(), "unreadable"),
        (&glewlwyd, Answer::empty(400), "misconfigured"),
        (&glewlwyd, Answer::empty(401), "misconfigured"),
        (&glewlwyd, invalid_grant(), "refused"),
        (&dex, access_denied(), "refused"),
        (&dex, invalid_grant(), "refused"),
        (&dex, Answer::empty(403), "misconfigured"),
    ] {
        let upstream = healthy().await;
        upstream
            .on(TOKEN, answer.clone())
            .on(INTROSPECTION, inactive());
        let oauth2 = adapter_with(&upstream, changes);
        let login = log_in(&oauth2).await;
        assert_eq!(kind(&login), expected, "{changes} {answer:?}");
        let refused = Err(IamError::Refused(Refusal::InvalidCredentials));
        assert!(expected != "refused" || login.map(|_| ()) == refused);
    }
}

/// If it is unknown whether the client is accepted, the response counts as a refusal all the same, so that guesses are
/// limited.
#[tokio::test]
async fn configured_response_refuses_the_credentials_only_if_the_client_is_accepted() {
    let glewlwyd = (json!({"preset": "glewlwyd"}), Answer::empty(403));
    let access_denied = error(401, "access_denied");
    let dex = (json!({"refused_error": "access_denied"}), access_denied);
    for (introspection, expected) in [
        (inactive(), "refused"),
        (Answer::empty(401), "misconfigured"),
        (error(401, "invalid_client"), "misconfigured"),
        (Answer::html(403), "unreadable"),
        (Answer::empty(503), "failed"),
        (Answer::reset(), "unreachable"),
    ] {
        for (changes, refusal) in [&glewlwyd, &dex] {
            let upstream = healthy().await;
            let oauth2 = adapter_with(&upstream, changes);
            session(&oauth2).await;
            upstream
                .on(TOKEN, refusal.clone())
                .on(INTROSPECTION, introspection.clone());
            let login = log_in(&oauth2).await;
            assert_eq!(kind(&login), expected, "{changes} {introspection:?}");
            let is_possible = matches!(login, Err(IamError::PossibleRefusal(_)));
            let is_unknown = !matches!(expected, "refused" | "misconfigured");
            assert_eq!(is_possible, is_unknown, "{changes} {introspection:?}");
        }
    }
}

/// Otherwise guesses would not be limited while introspection does not respond.
#[tokio::test]
async fn refusal_is_possible_also_if_introspection_does_not_respond_before_the_deadline_of_the_login()
 {
    for (changes, refusal) in [
        (json!({"preset": "glewlwyd"}), Answer::empty(403)),
        (json!({}), error(400, "invalid_request")),
    ] {
        let upstream = healthy().await;
        let limit = CallLimit {
            deadline: Duration::from_secs(1),
            concurrency: 1,
        };
        let clock = Arc::new(SystemClock::default());
        let oauth2 = resilient(adapter_with(&upstream, &changes), limit, clock);
        let oauth2: Arc<dyn IamAdapter> = Arc::new(oauth2);
        session(&oauth2).await;
        upstream
            .on(TOKEN, refusal)
            .on(INTROSPECTION, Answer::hanging());
        let login = log_in(&oauth2).await.map(drop);
        let is_possible = matches!(login, Err(IamError::PossibleRefusal(_)));
        assert!(is_possible, "{changes} {login:?}");
    }
}

/// Glewlwyd rejects a client with status 400 at its token endpoint, and with 401 at introspection.
#[tokio::test]
async fn rejection_without_a_code_has_the_reason_that_introspection_states() {
    for (introspection, expected) in [
        (inactive(), Misconfiguration::Other),
        (Answer::empty(401), Misconfiguration::ClientSecret),
        (Answer::empty(503), Misconfiguration::Other),
        (Answer::reset(), Misconfiguration::Other),
    ] {
        let upstream = healthy().await;
        upstream
            .on(TOKEN, Answer::empty(400))
            .on(INTROSPECTION, introspection.clone());
        let oauth2 = adapter_with(&upstream, &json!({"preset": "glewlwyd"}));
        let login = log_in(&oauth2).await;
        assert_eq!(misconfigured(&login), Some(expected), "{introspection:?}");
    }
}

/// Keycloak's answer to a wrong secret.
#[tokio::test]
async fn grant_that_is_not_allowed_is_the_reason_only_if_the_client_is_accepted() {
    use Misconfiguration::{ClientSecret, PasswordLogin};
    for (introspection, expected) in [
        (inactive(), PasswordLogin),
        (error(401, "invalid_request"), ClientSecret),
        (Answer::empty(503), PasswordLogin),
    ] {
        let upstream = healthy().await;
        upstream
            .on(TOKEN, error(401, "unauthorized_client"))
            .on(INTROSPECTION, introspection.clone());
        let oauth2 = adapter(&upstream);
        let login = log_in(&oauth2).await;
        assert_eq!(misconfigured(&login), Some(expected), "{introspection:?}");
    }
}

/// So that wrong passwords are limited at a server whose refusals no setting names.
#[tokio::test]
async fn unknown_rejection_is_a_possible_refusal_once_a_login_has_succeeded() {
    let invalid_request = "set refused_error = \"invalid_request\" if";
    let access_denied = "set refused_error = \"access_denied\" if";
    for (rejection, setting) in [
        (error(400, "invalid_request"), invalid_request),
        (error(401, "access_denied"), access_denied),
        (error(403, "access_denied"), access_denied),
        (Answer::empty(401), "set refused_status = 401 if"),
        (Answer::html(403), "set refused_status = 403 if"),
        (error(418, "teapot"), "status 418"),
    ] {
        let upstream = healthy().await;
        upstream
            .on(TOKEN, rejection.clone())
            .on(INTROSPECTION, inactive());
        let oauth2 = adapter(&upstream);
        let (credentials, client) = (credentials(PASSWORD), client());
        let before = oauth2.authenticate(&credentials, &client).await;
        let before = before.expect_err("a fault");
        assert!(
            matches!(
                before,
                IamError::Misconfigured { .. } | IamError::Unreadable(_)
            ),
            "{rejection:?}: {before:?}"
        );
        assert!(before.to_string().contains(setting), "{before}");

        upstream
            .once(TOKEN, Answer::json(200, grant()))
            .once(INTROSPECTION, Answer::json(200, active()));
        session(&oauth2).await;
        let possible = Err(IamError::PossibleRefusal(Box::new(before)));
        let login = oauth2.authenticate(&credentials, &client).await;
        assert_eq!(login.map(|_| ()), possible);

        // Then the client is the cause.
        upstream.on(INTROSPECTION, Answer::empty(401));
        let login = oauth2.authenticate(&credentials, &client).await;
        is_misconfigured(&login, Misconfiguration::ClientSecret);
    }
}

#[tokio::test]
async fn fault_that_the_server_states_is_no_possible_refusal() {
    let upstream = healthy().await;
    let oauth2 = adapter(&upstream);
    session(&oauth2).await;
    for (rejection, expected) in [
        (Answer::html(200), "unreadable"),
        (Answer::html(404), "misconfigured"),
        (Answer::empty(429), "throttled"),
        (Answer::html(503), "failed"),
        (error(401, "invalid_client"), "misconfigured"),
        (error(400, "unauthorized_client"), "misconfigured"),
    ] {
        upstream.on(TOKEN, rejection.clone());
        let login = log_in(&oauth2).await;
        let fault = login.expect_err("a fault");
        assert_eq!(fault.kind(), expected, "{rejection:?}");
        assert!(
            !matches!(fault, IamError::PossibleRefusal(_)),
            "{rejection:?}"
        );
    }
}

#[tokio::test]
async fn scopes_about_the_login_are_no_permissions() {
    let upstream = healthy().await;
    let mut response = active();
    let scopes = "openid profile email address phone offline_access offline";
    response["scope"] = json!(format!("{scopes} {READ}"));
    upstream.on(INTROSPECTION, Answer::json(200, response));
    let oauth2 = adapter(&upstream);
    let login = log_in(&oauth2).await;
    let expected = Some(permissions(&[READ]));
    assert_eq!(login.expect("a login").permissions, expected);
}

#[tokio::test]
async fn groups_are_the_texts_in_the_configured_claim() {
    let upstream = healthy().await;
    let sales = vec!["sales".to_owned(), "two words".to_owned()];
    let mut response = active();
    response["text"] = json!("sales, two words,");
    upstream.on(INTROSPECTION, Answer::json(200, response));
    for (claim, delimiter, expected) in [
        (json!(null), None, None),
        (json!("groups"), None, Some(sales.clone())),
        (json!("groups"), Some(","), Some(sales.clone())),
        (json!("missing"), None, Some(Vec::new())),
        (json!("missing"), Some(","), Some(Vec::new())),
        (json!("text"), None, None),
        (json!("text"), Some(","), Some(sales)),
        (json!("employee"), None, None),
        (json!("employee"), Some(","), None),
    ] {
        let changes = json!({"groups_claim": claim, "groups_delimiter": delimiter});
        let oauth2 = adapter_with(&upstream, &changes);
        let login = log_in(&oauth2).await.expect("a login");
        assert_eq!(login.groups, expected, "{claim}");
        let introspected = oauth2.introspect(&login.session).await;
        let Ok(Introspection::Active { groups, .. }) = introspected else {
            panic!("not active: {introspected:?}");
        };
        assert_eq!(groups, expected, "{claim}");
    }
}
