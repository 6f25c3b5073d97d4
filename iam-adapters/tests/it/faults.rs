//! Failures of the server in every operation of every adapter: each is the right fault, never a success or a refusal.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::SystemClock;
use iam_adapters::keycloak::{Keycloak, KeycloakSettings};
use iam_adapters::oauth2::{OAuth2, OAuth2Settings};
use iam_adapters::resilient::{CallLimit, Operation};
use iam_adapters::{ClientSection as _, IamAdapter, IamError, UpstreamSession};
use serde_json::{Map, Value, json};
use test_support::resilient::resilient;
use test_support::scripted_upstream::keycloak::{KEYCLOAK, KEYS, inactive};
use test_support::scripted_upstream::{
    Answer, PROTOCOLS, RefusingPort, ScriptedUpstream, WireProtocol,
};
use tokio::time::{advance, pause, resume};

use super::calls::{SECRET, kind, log_in};

const OVERLONG: usize = 10 * 1024 * 1024;

/// The operations, each with a path that it calls.
fn operations(protocol: &WireProtocol) -> Vec<(Operation, &'static str)> {
    let mut operations = vec![
        (Operation::Login, protocol.discovery),
        (Operation::Login, protocol.token),
        (Operation::Introspection, protocol.introspection),
        (Operation::Logout, protocol.logout),
        (Operation::Probe, protocol.discovery),
        (Operation::Probe, protocol.introspection),
    ];
    if protocol.name == KEYCLOAK.name {
        operations.push((Operation::Keys, KEYS));
    } else {
        // Its login needs the subject, and the endpoints are in the document.
        operations.push((Operation::Login, protocol.introspection));
        operations.push((Operation::Introspection, protocol.discovery));
        operations.push((Operation::Logout, protocol.discovery));
    }
    operations
}

/// The adapter for a server at this address.
fn adapter(protocol: &WireProtocol, url: &str) -> Arc<dyn IamAdapter> {
    let settings = (protocol.settings)(url, SECRET).into_iter();
    let settings = settings.map(|(key, value)| {
        let name = key.rsplit('.').next().expect("a key");
        (name.to_owned(), Value::from(value))
    });
    let section = Value::Object(settings.collect::<Map<_, _>>());
    let section = serde_json::from_value(section).expect("a section");
    let (deadline, clock) = (Duration::from_secs(5), Arc::new(SystemClock::default()));
    if protocol.name == KEYCLOAK.name {
        let settings = KeycloakSettings::read(section).expect("settings");
        Arc::new(Keycloak::new(&settings, deadline, clock).expect("an adapter"))
    } else {
        let settings = OAuth2Settings::read(section).expect("settings");
        Arc::new(OAuth2::new(&settings, deadline, clock).expect("an adapter"))
    }
}

/// An adapter whose operation calls this path, and its server, at which that succeeds.
struct Fixture {
    upstream: ScriptedUpstream,
    iam: Arc<dyn IamAdapter>,
    session: UpstreamSession,
}

impl Fixture {
    async fn new(protocol: &WireProtocol, operation: Operation, path: &str) -> Self {
        let upstream = ScriptedUpstream::of(protocol).await;
        let mut iam = adapter(protocol, &upstream.url());
        let session = log_in(&*iam).await.expect("a login").session;
        if path == protocol.discovery {
            // The first one has read the document.
            iam = adapter(protocol, &upstream.url());
        }
        if operation == Operation::Probe {
            // It introspects a made-up token.
            upstream.on(protocol.introspection, inactive());
        }
        Self {
            upstream,
            iam,
            session,
        }
    }
}

async fn call(
    iam: &dyn IamAdapter,
    operation: Operation,
    session: &UpstreamSession,
) -> Result<(), IamError> {
    match operation {
        Operation::Login => log_in(iam).await.map(drop),
        Operation::Introspection => iam.introspect(session).await.map(drop),
        Operation::Logout => iam.end_session(session).await,
        Operation::Keys => iam.verification_keys().await.map(drop),
        Operation::Probe => iam.probe().await,
        Operation::Permissions => unreachable!("not a call of an adapter"),
    }
}

/// Asserts the fault of every operation for this response, after one request.
async fn assert_fault_of(
    protocols: &[WireProtocol],
    answer: impl Fn(&WireProtocol) -> Answer,
    expected: impl Fn(&IamError) -> bool,
) {
    for protocol in protocols {
        for (operation, path) in operations(protocol) {
            let Fixture {
                upstream,
                iam,
                session,
            } = Fixture::new(protocol, operation, path).await;
            let before = upstream.requests_to(path).len();
            upstream.on(path, answer(protocol));
            let result = call(&*iam, operation, &session).await;
            let of = format!("{} {operation:?} at {path}", protocol.name);
            assert!(result.as_ref().is_err_and(&expected), "{of}: {result:?}");
            let calls = upstream.requests_to(path).len() - before;
            assert_eq!(calls, 1, "{of}");
        }
    }
}

async fn assert_fault(answer: Answer, expected: impl Fn(&IamError) -> bool) {
    assert_fault_of(&PROTOCOLS, |_| answer.clone(), expected).await;
}

#[tokio::test]
async fn server_error_is_failed() {
    for status in [500, 502, 503, 504] {
        let failed = IamError::Failed(format!("status {status}"));
        assert_fault(Answer::html(status), |error| *error == failed).await;
        let json = Answer::json(status, json!({"error": "invalid_grant"}));
        assert_fault(json, |error| *error == failed).await;
    }
}

#[tokio::test]
async fn status_429_is_throttled_with_its_retry_after() {
    for (sent, expected) in [
        (Some("7"), Some(7)),
        (Some("0"), Some(0)),
        (None, None),
        (Some("Fri, 20 Nov 2026 10:00:00 GMT"), None),
        (Some("-1"), None),
        (Some("99999999999999999999"), None),
    ] {
        let answer = Answer::html(429);
        let answer = sent.map_or(answer.clone(), |seconds| {
            answer.with("Retry-After", seconds)
        });
        let retry_after = expected.map(Duration::from_secs);
        let throttled = IamError::Throttled { retry_after };
        assert_fault(answer, |error| *error == throttled).await;
    }
}

#[tokio::test]
async fn redirect_is_never_followed() {
    let other = ScriptedUpstream::keycloak().await;
    for status in [301, 302, 303, 307, 308] {
        assert_fault(Answer::redirect(status, &other.url()), |error| {
            error.kind() == "misconfigured" && error.to_string().contains("redirect")
        })
        .await;
    }
    assert!(other.requests().is_empty());
}

/// The other kinds refuse credentials, or reject a client, with some of the statuses that Keycloak has alone here.
#[tokio::test]
async fn page_empty_response_or_unknown_error_is_unreadable() {
    let teapot = Answer::json(418, json!({"error": "teapot"}));
    assert_fault(teapot, is_unreadable).await;
    for status in [200, 400, 401] {
        assert_fault(Answer::html(status), is_unreadable).await;
    }
    let of_keycloak = [
        Answer::html(201),
        Answer::html(403),
        Answer::empty(400),
        Answer::empty(401),
        Answer::empty(403),
        Answer::empty(418),
    ];
    for answer in of_keycloak {
        assert_fault_of(&[KEYCLOAK], |_| answer.clone(), is_unreadable).await;
    }
}

#[tokio::test]
async fn truncated_json_is_unreadable() {
    let truncated = |protocol: &WireProtocol| Answer::json(200, (protocol.grant)()).truncated();
    assert_fault_of(&PROTOCOLS, truncated, is_unreadable).await;
    let chunked = |protocol: &WireProtocol| truncated(protocol).chunked();
    assert_fault_of(&PROTOCOLS, chunked, is_unreadable).await;
}

#[tokio::test]
async fn connection_that_closes_within_a_response_is_unreachable() {
    let cut_short = |protocol: &WireProtocol| Answer::json(200, (protocol.grant)()).cut_short();
    assert_fault_of(&PROTOCOLS, cut_short, is_unreachable).await;
    assert_fault(Answer::reset(), is_unreachable).await;
}

#[tokio::test]
async fn body_of_ten_mebibytes_is_unreadable() {
    for answer in [
        Answer::padded(200, OVERLONG),
        Answer::padded(200, OVERLONG).chunked(),
        Answer::padded(400, OVERLONG),
    ] {
        assert_fault(answer, is_unreadable).await;
    }
}

#[tokio::test]
async fn server_of_another_protocol_is_unreadable() {
    assert_fault(Answer::not_http(), is_unreadable).await;
}

#[tokio::test]
async fn closed_port_is_unreachable() {
    let closed_port = RefusingPort::start();
    for protocol in &PROTOCOLS {
        for (operation, path) in operations(protocol) {
            let fixture = Fixture::new(protocol, operation, path).await;
            let iam = adapter(protocol, &closed_port.url());
            let result = call(&*iam, operation, &fixture.session).await;
            assert_eq!(kind(&result), "unreachable", "{operation:?} at {path}");
        }
    }
}

#[tokio::test]
async fn call_succeeds_after_the_server_has_started() {
    for protocol in &PROTOCOLS {
        let port = RefusingPort::start();
        let iam = adapter(protocol, &port.url());
        assert_eq!(kind(&log_in(&*iam).await), "unreachable");
        let upstream = ScriptedUpstream::in_place_of(port);
        (protocol.works)(&upstream);
        assert_eq!(kind(&log_in(&*iam).await), "ok");
    }
}

#[tokio::test]
async fn missing_or_endless_response_times_out_at_the_deadline() {
    let limit = CallLimit {
        deadline: Duration::from_secs(60),
        concurrency: 1,
    };
    for answer in [Answer::hanging(), Answer::dripping()] {
        for protocol in &PROTOCOLS {
            for (operation, path) in operations(protocol) {
                let Fixture {
                    upstream,
                    iam,
                    session,
                } = Fixture::new(protocol, operation, path).await;
                let before = upstream.requests_to(path).len();
                upstream.on(path, answer.clone());
                let iam = resilient(iam, limit, Arc::new(SystemClock::default()));
                let in_flight = tokio::spawn(async move { call(&iam, operation, &session).await });
                upstream.received(path, before + 1).await;
                pause();
                advance(limit.deadline).await;
                resume();
                let result = in_flight.await.expect("no panic");
                let timed_out = Err(IamError::TimedOut(limit.deadline));
                assert_eq!(result, timed_out, "{} {operation:?}", protocol.name);
                upstream.disconnected(1).await;
            }
        }
    }
}

#[tokio::test]
async fn cancelled_call_does_not_affect_the_next_one() {
    for protocol in &PROTOCOLS {
        for (operation, path) in operations(protocol) {
            let fixture = Fixture::new(protocol, operation, path).await;
            let upstream = &fixture.upstream;
            let before = upstream.requests_to(path).len();
            upstream.once(path, Answer::json(200, (protocol.grant)()).held());
            let (iam, session) = (Arc::clone(&fixture.iam), fixture.session.clone());
            let in_flight = tokio::spawn(async move { call(&*iam, operation, &session).await });
            upstream.received(path, before + 1).await;
            in_flight.abort();
            upstream.disconnected(1).await;
            let result = call(&*fixture.iam, operation, &fixture.session).await;
            assert_eq!(result, Ok(()), "{} {operation:?} at {path}", protocol.name);
        }
    }
}

fn is_unreadable(error: &IamError) -> bool {
    error.kind() == "unreadable"
}

fn is_unreachable(error: &IamError) -> bool {
    error.kind() == "unreachable"
}
