//! Login.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::SystemClock;
use iam_adapters::resilient::CallLimit;
use iam_adapters::{ClientContext, IamAdapter};
use secrecy::ExposeSecret;
use serde_json::json;
use test_support::resilient::resilient;
use test_support::scripted_upstream::keycloak::{
    INTROSPECTION, LOGOUT, SESSION, SUBJECT, TOKEN, grant, refresh_token, refusal,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{
    PASSWORD, SECRET, adapter, adapter_with, all_permissions, client, credentials, log_in, with,
    without,
};

fn basic(id: &str, secret: &str) -> String {
    use base64::Engine as _;
    let pair = format!("{id}:{secret}");
    format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(pair)
    )
}

#[tokio::test]
async fn login_sends_the_direct_grant_unchanged() {
    let upstream = ScriptedUpstream::keycloak().await;
    let answer = adapter(&upstream.url())
        .authenticate(&credentials(" p w&=+%é "), &client())
        .await;
    assert!(answer.is_ok(), "{answer:?}");
    let requests = upstream.requests_to(TOKEN);
    let [request] = requests.as_slice() else {
        panic!("one grant, not {requests:?}");
    };
    assert_eq!(request.method, "POST");
    assert_eq!(
        request.text(),
        "grant_type=password&username=alice%40example.test&password=+p+w%26%3D%2B%25%C3%A9+"
    );
    let mut headers = request.headers.clone();
    headers.sort();
    let host = upstream.url().replace("http://", "");
    let length = request.body.len().to_string();
    let expected = [
        ("accept", "*/*"),
        ("authorization", &basic("auth-gateway", SECRET)),
        ("content-length", &length),
        ("content-type", "application/x-www-form-urlencoded"),
        ("host", &host),
        ("user-agent", "auth-gateway"),
        ("x-forwarded-for", "192.0.2.7"),
        ("x-request-id", "request-1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(headers, expected);
}

#[tokio::test]
async fn one_time_password_is_sent_as_the_parameter_otp() {
    let upstream = ScriptedUpstream::keycloak().await;
    let credentials = credentials("p")
        .with_otp(Some("755 2&4".into()))
        .expect("valid");
    let answer = adapter(&upstream.url())
        .authenticate(&credentials, &client())
        .await;
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!(
        upstream.requests_to(TOKEN)[0].text(),
        "grant_type=password&username=alice%40example.test&password=p&otp=755+2%264"
    );
}

#[tokio::test]
async fn login_returns_session_lifetime_and_permissions() {
    let upstream = ScriptedUpstream::keycloak().await;
    let login = log_in(&adapter(&upstream.url())).await.expect("a login");
    assert_eq!(login.session.subject.as_str(), SUBJECT);
    assert_eq!(login.session.id, SESSION);
    assert_eq!(
        login.session.secret.expose_secret(),
        refresh_token("auth-gateway")
    );
    assert_eq!(login.expires_in.map(|time| time.as_secs()), Some(1800));
    assert_eq!(login.permissions, Some(all_permissions()));
}

#[tokio::test]
async fn unlimited_session_has_no_lifetime() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    let lifetime = "refresh_expires_in";
    let unlimited = json!({lifetime: 0});
    for answer in [without(grant(), lifetime), with(grant(), &unlimited)] {
        upstream.on(TOKEN, Answer::json(200, answer));
        let login = log_in(&keycloak).await;
        assert_eq!(login.expect("a login").expires_in, None);
    }
}

#[tokio::test]
async fn client_id_and_secret_are_form_encoded_before_http_basic() {
    let upstream = ScriptedUpstream::keycloak().await;
    let changes = json!({"client_id": "gate:way ü", "client_secret": "a+b %/&:c"});
    let keycloak = adapter_with(&upstream.url(), &changes);
    let _ = log_in(&keycloak).await;
    assert_eq!(
        upstream.requests_to(TOKEN)[0].header("authorization"),
        Some(basic("gate%3Away+%C3%BC", "a%2Bb+%25%2F%26%3Ac"))
    );
}

#[tokio::test]
async fn client_address_is_sent_in_canonical_form_if_known() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter(&upstream.url());
    for (address, sent) in [
        (None, None),
        (Some("2001:db8::7"), Some("2001:db8::7")),
        (Some("::ffff:192.0.2.9"), Some("192.0.2.9")),
    ] {
        let context = ClientContext {
            address: address.map(|text| text.parse::<IpAddr>().expect("an address").into()),
            request_id: "line\nbreak".to_owned(),
        };
        let answer = keycloak
            .authenticate(&credentials(PASSWORD), &context)
            .await;
        assert!(answer.is_ok(), "{answer:?}");
        let request = upstream.requests_to(TOKEN).pop().expect("a request");
        assert_eq!(request.header("x-forwarded-for").as_deref(), sent);
        assert_eq!(request.header("x-request-id"), None);
    }
}

/// The IAM has verified the credentials; only the permissions are missing.
#[tokio::test]
async fn login_waits_two_seconds_at_most_for_permissions() {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(INTROSPECTION, Answer::hanging());
    let keycloak = adapter(&upstream.url());
    let (credentials, client) = (credentials(PASSWORD), client());
    let login = async {
        let login = keycloak.authenticate(&credentials, &client).await;
        login.expect("a login")
    };
    let (login, ()) = tokio::join!(login, async {
        upstream.received(INTROSPECTION, 1).await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(2)).await;
    });
    assert_eq!(login.permissions, None);
    assert_eq!(login.session.id, SESSION);
    assert_eq!(upstream.requests_to(LOGOUT), []);
}

#[tokio::test]
async fn login_stops_waiting_for_permissions_before_its_own_deadline() {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(INTROSPECTION, Answer::hanging());
    let limit = CallLimit {
        deadline: Duration::from_secs(1),
        concurrency: 1,
    };
    let clock = Arc::new(SystemClock::default());
    let keycloak = Arc::new(resilient(adapter(&upstream.url()), limit, clock));
    let keycloak: Arc<dyn IamAdapter> = keycloak;
    let login = log_in(&keycloak).await.expect("a login");
    assert_eq!(login.permissions, None);
    assert_eq!(login.session.id, SESSION);
    assert_eq!(upstream.requests_to(LOGOUT), []);
}

#[tokio::test]
async fn refused_login_makes_no_further_call() {
    let upstream = ScriptedUpstream::keycloak().await;
    upstream.on(
        TOKEN,
        refusal(400, "invalid_grant", "Invalid user credentials"),
    );
    let _ = log_in(&adapter(&upstream.url())).await;
    assert_eq!(upstream.requests_to(TOKEN).len(), 1);
    assert!(upstream.requests_to(INTROSPECTION).is_empty());
}
