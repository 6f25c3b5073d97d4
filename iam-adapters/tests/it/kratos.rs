//! The adapter of Ory Kratos against a scripted server with the responses of a real one: its requests, and
//! the meaning of each response.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::kratos::KratosSettings;
use iam_adapters::settings::AdapterSettings as _;
use iam_adapters::{
    IamAdapter, IamError, Introspection, Misconfiguration, Refusal, UpstreamSession,
};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use test_support::ManualClock;
use test_support::json::with;
use test_support::scripted_upstream::keycloak::{PERMISSIONS, SUBJECT};
use test_support::scripted_upstream::kratos::{
    KRATOS, LOGIN, LOGIN_FLOW, LOGOUT, READY, SESSION, SESSION_TOKEN, WHOAMI, error, failed_login,
    flow, session,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::calls::{client, credentials, is_misconfigured, kind, log_in, permissions};

async fn healthy() -> ScriptedUpstream {
    ScriptedUpstream::of(&KRATOS).await
}

fn adapter_with(upstream: &ScriptedUpstream, changes: &Value) -> Arc<dyn IamAdapter> {
    let settings = with(json!({"url": upstream.url()}), changes);
    let settings: KratosSettings = serde_json::from_value(settings).expect("settings");
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1)));
    let adapter = settings.connect("iam.kratos", clock, Duration::from_secs(5), None);
    adapter.expect("an adapter")
}

fn adapter(upstream: &ScriptedUpstream) -> Arc<dyn IamAdapter> {
    adapter_with(upstream, &json!({}))
}

async fn session_of(kratos: &Arc<dyn IamAdapter>) -> UpstreamSession {
    log_in(kratos).await.expect("a login").session
}

fn inactive() -> Answer {
    (KRATOS.inactive)()
}

fn still_active() -> Answer {
    error(
        400,
        json!({"id": "session_already_available", "message": "you are already logged in"}),
    )
}

/// An error with a message and without an id.
fn message(status: u16, text: &str) -> Answer {
    error(status, json!({"message": text}))
}

fn second_factor_required() -> Answer {
    error(403, json!({"id": "session_aal2_required", "message": "…"}))
}

#[tokio::test]
async fn login_completes_a_flow_at_the_configured_address_and_asks_about_the_session() {
    let upstream = healthy().await;
    let kratos = adapter(&upstream);
    let login = kratos
        .authenticate(&credentials("p w\"&=+%é"), &client())
        .await
        .expect("a login");
    let requests = upstream.requests();
    let called: Vec<_> = requests
        .iter()
        .map(|request| request.path.as_str())
        .collect();
    // The flow names another address.
    assert_eq!(called, [LOGIN_FLOW, LOGIN, WHOAMI]);
    let sent: Value = serde_json::from_slice(&requests[1].body).expect("JSON");
    let expected = json!({
        "method": "password", "identifier": "alice@example.test", "password": "p w\"&=+%é",
    });
    assert_eq!(sent, expected);
    for request in &requests[..2] {
        assert_eq!(
            request.header("x-forwarded-for"),
            Some("192.0.2.7".to_owned())
        );
        assert_eq!(request.header("x-request-id"), Some("request-1".to_owned()));
        assert_eq!(request.header("x-session-token"), None);
        assert_eq!(request.header("authorization"), None);
    }
    let token = requests[2].header("x-session-token");
    assert_eq!(token.as_deref(), Some(SESSION_TOKEN));
    assert_eq!(login.session.subject.as_str(), SUBJECT);
    assert_eq!(login.session.id, SESSION);
    assert_eq!(login.session.secret.expose_secret(), SESSION_TOKEN);
    assert_eq!(login.expires_in, Some(Duration::from_secs(3600)));
    assert_eq!(login.permissions, Some(permissions(&PERMISSIONS)));
    assert_eq!(login.groups, None);
}

#[tokio::test]
async fn flow_id_and_a_path_in_the_address_are_no_other_paths() {
    let upstream = healthy().await;
    let mut begun = flow();
    begun["id"] = json!("../x?&#é");
    let completed = "/iam/self-service/login?flow=..%2Fx%3F%26%23%C3%A9";
    upstream
        .on("/iam/self-service/login/api", Answer::json(200, begun))
        .on(completed, Answer::json(200, (KRATOS.grant)()))
        .on("/iam/sessions/whoami", Answer::json(200, session()));
    let url = format!("{}/iam/", upstream.url());
    let kratos = adapter_with(&upstream, &json!({"url": url}));
    assert_eq!(kind(&log_in(&kratos).await), "ok");
    assert_eq!(kratos.issuer(), format!("{}/iam", upstream.url()));
}

#[tokio::test]
async fn only_known_responses_refuse_a_login() {
    let upstream = healthy().await;
    let kratos = adapter(&upstream);
    for (answer, refusal) in [
        (failed_login(&[4_000_006]), Refusal::InvalidCredentials),
        (failed_login(&[4_000_010]), Refusal::Incomplete),
        (
            error(
                401,
                json!({"reason": "This account was disabled.", "message": "identity is disabled"}),
            ),
            Refusal::Disabled,
        ),
    ] {
        upstream.on(LOGIN, answer);
        let login = log_in(&kratos).await.map(drop);
        assert_eq!(login, Err(IamError::Refused(refusal)));
    }
    let without_code = Answer::json(401, json!({"error": "identity is disabled"}));
    let expired = error(410, json!({"id": "self_service_flow_expired"}));
    let not_found = message(404, "Unable to locate the resource");
    for (answer, expected) in [
        (message(401, "unauthorized"), "unreadable"),
        (without_code, "unreadable"),
        (message(403, "identity is disabled"), "unreadable"),
        (message(400, "4000006"), "unreadable"),
        (expired, "unreadable"),
        (not_found, "misconfigured"),
        (failed_login(&[]), "unreadable"),
        (failed_login(&[4_000_002]), "unreadable"),
        (Answer::json(200, failed()), "unreadable"),
    ] {
        upstream.on(LOGIN, answer);
        let login = log_in(&kratos).await;
        assert_eq!(kind(&login), expected);
        assert!(!matches!(login, Err(IamError::Refused(_))));
    }
}

/// The flow of a refused login, which never has the status 200.
fn failed() -> Value {
    let mut flow = flow();
    flow["ui"]["messages"] = json!([{"id": 4_000_006}]);
    flow
}

#[tokio::test]
async fn unknown_message_may_be_a_refusal_once_a_login_has_succeeded() {
    let upstream = healthy().await;
    let kratos = adapter(&upstream);
    let unknown = IamError::Unreadable("status 400 of a login, with the messages [4999999]".into());
    upstream.on(LOGIN, failed_login(&[4_999_999]));
    assert_eq!(log_in(&kratos).await.map(drop), Err(unknown.clone()));
    (KRATOS.works)(&upstream);
    session_of(&kratos).await;
    upstream.on(LOGIN, failed_login(&[4_999_999]));
    let possible = IamError::PossibleRefusal(Box::new(unknown));
    assert_eq!(log_in(&kratos).await.map(drop), Err(possible));
}

#[tokio::test]
async fn method_that_is_not_enabled_is_a_misconfiguration() {
    let upstream = healthy().await;
    let reason = "This endpoint was disabled by system administrator. Please check your url.";
    upstream.on(LOGIN, error(404, json!({"reason": reason})));
    let login = log_in(&adapter(&upstream)).await;
    is_misconfigured(&login, Misconfiguration::PasswordLogin);
}

#[tokio::test]
async fn login_that_needs_a_second_factor_is_refused_and_its_session_is_ended() {
    let upstream = healthy().await;
    let mut granted = (KRATOS.grant)();
    granted["session"]["identity"] = Value::Null;
    upstream
        .on(LOGIN, Answer::json(200, granted))
        .on(WHOAMI, second_factor_required());
    let login = log_in(&adapter(&upstream)).await.map(drop);
    assert_eq!(login, Err(IamError::Refused(Refusal::Incomplete)));
    upstream.received(LOGOUT, 1).await;
    let ended = upstream.requests_to(LOGOUT);
    assert_eq!(ended[0].method, "DELETE");
    assert_eq!(
        ended[0].text(),
        format!(r#"{{"session_token":"{SESSION_TOKEN}"}}"#)
    );
}

#[tokio::test]
async fn login_whose_session_cannot_be_used_is_a_fault_and_the_session_is_ended() {
    let whoami = |pointer: &str, value: Value| {
        let mut session = session();
        *session.pointer_mut(pointer).expect(pointer) = value;
        (WHOAMI, Answer::json(200, session))
    };
    for (path, answer) in [
        whoami("/expires_at", json!("tomorrow")),
        whoami("/expires_at", json!("2026-11-24T18:30:19.921462319Z")),
        whoami("/expires_at", json!("2026-11-24T17:30:19Z")),
        whoami("/identity", Value::Null),
        whoami("/identity/id", json!("")),
        whoami("/identity/metadata_public/permissions", json!("read")),
        (WHOAMI, Answer::html(403)),
    ] {
        let upstream = healthy().await;
        upstream.on(path, answer);
        let login = log_in(&adapter(&upstream)).await;
        assert_eq!(kind(&login), "unreadable");
        upstream.received(LOGOUT, 1).await;
    }
}

#[tokio::test]
async fn introspection_has_the_permissions_groups_and_claims_of_now() {
    let upstream = healthy().await;
    let settings = json!({
        "permissions_member": "/app/scopes",
        "groups_member": "teams",
        "claims": {"email": {"member": "/traits/email"}, "region": {"member": "/metadata_public/region"}},
    });
    let kratos = adapter_with(&upstream, &settings);
    let login = log_in(&kratos).await.expect("a login");
    assert_eq!(login.permissions, Some(permissions(&[])));
    let teams = vec!["sales".to_owned(), "two words".to_owned()];
    assert_eq!(login.groups, Some(teams));
    let mut now = session();
    now["identity"]["traits"]["permissions"] = json!(["urn:user:may:write:this"]);
    now["identity"]["metadata_public"] =
        json!({"app": {"scopes": ["urn:a:b:c:d", "not valid"]}, "region": "emea"});
    upstream.on(WHOAMI, Answer::json(200, now));
    let introspected = kratos.introspect(&login.session).await.expect("a response");
    let Introspection::Active {
        subject,
        permissions: granted,
        groups,
        claims,
    } = introspected
    else {
        panic!("inactive");
    };
    assert_eq!(subject.as_str(), SUBJECT);
    assert_eq!(granted, permissions(&["urn:a:b:c:d"]));
    assert_eq!(groups, Some(Vec::new()));
    let expected = json!({"email": "alice@example.test", "region": "emea"});
    assert_eq!(Value::from(claims.to_json()), expected);
}

#[tokio::test]
async fn permissions_that_are_no_list_of_texts_concern_one_session() {
    let upstream = healthy().await;
    let kratos = adapter(&upstream);
    let user = session_of(&kratos).await;
    for (metadata, expected) in [
        (Value::Null, "ok"),
        (json!({}), "ok"),
        (json!({"permissions": null}), "ok"),
        (json!({"permissions": []}), "ok"),
        (json!({"permissions": "read"}), "unreadable"),
        (json!({"permissions": [1]}), "unreadable"),
        (json!({"permissions": {"read": true}}), "unreadable"),
    ] {
        let mut changed = session();
        changed["identity"]["metadata_public"] = metadata;
        upstream.on(WHOAMI, Answer::json(200, changed));
        let introspected = kratos.introspect(&user).await;
        assert_eq!(kind(&introspected), expected);
        if let Err(fault) = introspected {
            assert!(matches!(fault, IamError::UnreadableSession(_)), "{fault}");
        }
    }
}

#[tokio::test]
async fn session_is_inactive_only_if_a_login_could_begin_with_its_token() {
    let upstream = healthy().await;
    let kratos = adapter(&upstream);
    let user = session_of(&kratos).await;
    upstream.on(WHOAMI, inactive());
    assert_eq!(kratos.introspect(&user).await, Ok(Introspection::Inactive));
    let asked = upstream.requests_to(LOGIN_FLOW);
    let token = asked[1].header("x-session-token");
    assert_eq!(token.as_deref(), Some(SESSION_TOKEN));
    // The first is that of a database that fails, as measured: `/health/ready` is 200 meanwhile.
    for (answer, expected) in [
        (message(500, "Unable to locate the table"), "failed"),
        (still_active(), "failed"),
        (inactive(), "unreadable"),
        (Answer::html(200), "unreadable"),
        (Answer::json(200, json!({"id": "x"})), "unreadable"),
        (Answer::html(404), "misconfigured"),
    ] {
        upstream.on(LOGIN_FLOW, answer);
        assert_eq!(kind(&kratos.introspect(&user).await), expected);
    }
    assert_eq!(upstream.requests_to(READY), []);
}

#[tokio::test]
async fn session_that_needs_a_second_factor_now_is_inactive() {
    let upstream = healthy().await;
    let kratos = adapter(&upstream);
    let user = session_of(&kratos).await;
    upstream.on(WHOAMI, second_factor_required());
    assert_eq!(kratos.introspect(&user).await, Ok(Introspection::Inactive));
    upstream.on(WHOAMI, error(403, json!({"id": "security_csrf_violation"})));
    assert_eq!(kind(&kratos.introspect(&user).await), "unreadable");
}

#[tokio::test]
async fn session_of_another_user_or_id_is_never_active() {
    let upstream = healthy().await;
    let kratos = adapter(&upstream);
    let user = session_of(&kratos).await;
    for pointer in ["/id", "/identity/id"] {
        let mut other = session();
        *other.pointer_mut(pointer).expect(pointer) = json!("another");
        upstream.on(WHOAMI, Answer::json(200, other));
        let fault = kratos.introspect(&user).await;
        assert!(
            matches!(fault, Err(IamError::UnreadableSession(_))),
            "{fault:?}"
        );
    }
    let mut ended = session();
    ended["active"] = json!(false);
    upstream.on(WHOAMI, Answer::json(200, ended));
    assert_eq!(kratos.introspect(&user).await, Ok(Introspection::Inactive));
    let line_feed = UpstreamSession {
        secret: "a\nb".into(),
        ..user
    };
    assert_eq!(kind(&kratos.introspect(&line_feed).await), "unreadable");
}

/// The responses are those of a Kratos that does not get `X-Session-Token`.
#[tokio::test]
async fn proxy_that_removes_the_header_with_the_token_ends_no_session() {
    let upstream = healthy().await;
    let user = session_of(&adapter(&upstream)).await;
    upstream
        .on(WHOAMI, inactive())
        .on_header(LOGIN_FLOW, "authorization", still_active());
    // The gateway was started again.
    let kratos = adapter(&upstream);
    assert_eq!(kind(&kratos.introspect(&user).await), "failed");
    let confirmed = upstream.requests_to(LOGIN_FLOW).pop().expect("a request");
    let bearer = format!("Bearer {SESSION_TOKEN}");
    assert_eq!(confirmed.header("authorization"), Some(bearer));
    // A login begins without a token.
    assert_eq!(kind(&log_in(&kratos).await), "failed");
    upstream.received(LOGOUT, 1).await;
}

#[tokio::test]
async fn logout_of_an_unknown_token_succeeds_only_if_it_has_no_session() {
    let upstream = healthy().await;
    let kratos = adapter(&upstream);
    let user = session_of(&kratos).await;
    assert_eq!(kratos.end_session(&user).await, Ok(()));
    upstream.on(LOGOUT, message(403, "The requested action was forbidden"));
    assert_eq!(kratos.end_session(&user).await, Ok(()));
    assert_eq!(kratos.probe_logout().await, Ok(()));
    upstream.on(LOGIN_FLOW, still_active());
    assert_eq!(kind(&kratos.end_session(&user).await), "failed");
    for (answer, expected) in [
        (Answer::html(403), "unreadable"),
        (Answer::empty(200), "unreadable"),
        (error(500, json!({})), "failed"),
        (Answer::html(404), "misconfigured"),
    ] {
        upstream.on(LOGOUT, answer);
        assert_eq!(kind(&kratos.end_session(&user).await), expected);
        assert_eq!(kind(&kratos.probe_logout().await), expected);
    }
}

#[tokio::test]
async fn probe_needs_a_kratos_that_is_ready() {
    let upstream = healthy().await;
    let kratos = adapter(&upstream);
    assert_eq!(kratos.probe().await, Ok(()));
    let starting = Answer::json(200, json!({"status": "starting"}));
    for (answer, expected) in [
        (starting, "unreadable"),
        (error(503, json!({})), "failed"),
        (Answer::html(404), "misconfigured"),
    ] {
        upstream.on(READY, answer);
        assert_eq!(kind(&kratos.probe().await), expected);
    }
}

/// The section of the settings can have any name.
#[tokio::test]
async fn fault_of_a_wrong_address_names_the_setting_and_no_section() {
    let upstream = healthy().await;
    upstream.on(READY, Answer::html(404));
    let probed = adapter(&upstream).probe().await;
    let fault = probed.expect_err("a wrong address").to_string();
    assert!(fault.contains("status 404: check url"), "{fault}");
}
