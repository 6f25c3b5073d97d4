//! Failures of the server in every operation of every adapter: each is the right fault, never a success or a refusal.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::client::BODY_MAX;
use iam_adapters::clock::SystemClock;
use iam_adapters::registry::Registry;
use iam_adapters::resilient::{CallLimit, Operation};
use iam_adapters::{IamAdapter, IamError, Introspection, Misconfiguration, UpstreamSession};
use serde_json::{Map, Value, json};
use test_support::resilient::resilient;
use test_support::scripted_upstream::keycloak::{KEYCLOAK, KEYS};
use test_support::scripted_upstream::kratos::{KRATOS, LOGIN_FLOW};
use test_support::scripted_upstream::{
    Answer, PROTOCOLS, RefusingPort, ScriptedUpstream, WireProtocol,
};
use tokio::time::{advance, pause, resume};

use super::calls::{SECRET, is_misconfigured, kind, log_in};

/// The operations, each with a path that it calls.
fn operations(protocol: &WireProtocol) -> Vec<(Operation, &'static str)> {
    let mut operations = vec![
        (Operation::Login, protocol.token),
        (Operation::Introspection, protocol.introspection),
        (Operation::Logout, protocol.logout),
        (Operation::Probe, protocol.discovery),
    ];
    if protocol.name == KRATOS.name {
        operations.push((Operation::Login, LOGIN_FLOW));
        operations.push((Operation::Login, protocol.introspection));
        return operations;
    }
    operations.push((Operation::Login, protocol.discovery));
    operations.push((Operation::Probe, protocol.introspection));
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
    let (deadline, clock) = (Duration::from_secs(5), Arc::new(SystemClock::default()));
    let registry = Registry::default();
    let kind = registry.kind(protocol.adapter).expect("a kind");
    let section = serde_json::from_value(section).expect("a section");
    let settings = kind.read(section).expect("settings");
    let adapter = settings.connect("iam.corp", clock, deadline, None);
    adapter.expect("an adapter")
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
        let session = log_in(&iam).await.expect("a login").session;
        if path == protocol.discovery {
            // The first one has read the document.
            iam = adapter(protocol, &upstream.url());
        }
        if operation == Operation::Probe {
            // At some servers it introspects a made-up token.
            let (path, answer) = (protocol.probe)();
            upstream.on(path, answer);
        }
        Self {
            upstream,
            iam,
            session,
        }
    }
}

async fn call(
    iam: &Arc<dyn IamAdapter>,
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

/// The fault that a response means.
#[derive(Clone)]
enum Fault {
    Kind(&'static str),
    Exactly(IamError),
    Redirect,
}

impl Fault {
    fn is(&self, error: &IamError) -> bool {
        match self {
            Self::Kind(kind) => error.kind() == *kind,
            Self::Exactly(fault) => error == fault,
            Self::Redirect => {
                error.kind() == "misconfigured" && error.to_string().contains("redirect")
            }
        }
    }
}

/// Asserts the fault of every operation for each of these responses, after one request.
async fn assert_faults_of(
    protocols: &[WireProtocol],
    cases: impl Fn(&WireProtocol) -> Vec<(Answer, Fault)>,
) {
    for protocol in protocols {
        for (operation, path) in operations(protocol) {
            let Fixture {
                upstream,
                iam,
                session,
            } = Fixture::new(protocol, operation, path).await;
            for (number, (answer, fault)) in cases(protocol).into_iter().enumerate() {
                let before = upstream.requests_to(path).len();
                upstream.on(path, answer);
                let result = call(&iam, operation, &session).await;
                let of = format!("{} {operation:?} at {path}, case {number}", protocol.name);
                let is_fault = result.as_ref().is_err_and(|error| fault.is(error));
                assert!(is_fault, "{of}: {result:?}");
                let calls = upstream.requests_to(path).len() - before;
                assert_eq!(calls, 1, "{of}");
            }
        }
    }
}

async fn assert_faults(cases: &[(Answer, Fault)]) {
    assert_faults_of(&PROTOCOLS, |_| cases.to_vec()).await;
}

#[tokio::test]
async fn server_error_is_failed() {
    let cases = [500, 502, 503, 504].map(|status| {
        let failed = Fault::Exactly(IamError::Failed(format!("status {status}")));
        let json = Answer::json(status, json!({"error": "invalid_grant"}));
        [(Answer::html(status), failed.clone()), (json, failed)]
    });
    assert_faults(&cases.concat()).await;
}

#[tokio::test]
async fn status_429_is_throttled_with_its_retry_after() {
    let cases = [
        (Some("7"), Some(7)),
        (Some("0"), Some(0)),
        (None, None),
        (Some("Fri, 20 Nov 2026 10:00:00 GMT"), None),
        (Some("-1"), None),
        (Some("99999999999999999999"), None),
    ];
    let cases = cases.map(|(sent, expected)| {
        let answer = Answer::html(429);
        let answer = sent.map_or(answer.clone(), |seconds| {
            answer.with("Retry-After", seconds)
        });
        let retry_after = expected.map(Duration::from_secs);
        (answer, Fault::Exactly(IamError::Throttled { retry_after }))
    });
    assert_faults(&cases).await;
}

#[tokio::test]
async fn redirect_is_never_followed() {
    let other = ScriptedUpstream::keycloak().await;
    let cases = [301, 302, 303, 307, 308]
        .map(|status| (Answer::redirect(status, &other.url()), Fault::Redirect));
    assert_faults(&cases).await;
    assert!(other.requests().is_empty());
}

/// The other kinds refuse credentials, or reject a client, with some of the statuses that Keycloak has alone here.
#[tokio::test]
async fn page_empty_response_or_unknown_error_is_unreadable() {
    let of_all = [
        Answer::json(418, json!({"error": "teapot"})),
        Answer::html(200),
        Answer::html(400),
        Answer::html(401),
    ];
    assert_faults(&of_all.map(unreadable)).await;
    let of_keycloak = [
        Answer::html(201),
        Answer::html(403),
        Answer::empty(400),
        Answer::empty(401),
        Answer::empty(403),
        Answer::empty(418),
    ];
    let of_keycloak = of_keycloak.map(unreadable);
    assert_faults_of(&[KEYCLOAK], |_| of_keycloak.to_vec()).await;
}

#[tokio::test]
async fn truncated_json_is_unreadable() {
    let cases = |protocol: &WireProtocol| {
        let truncated = Answer::json(200, (protocol.grant)()).truncated();
        [truncated.clone(), truncated.chunked()]
            .map(unreadable)
            .to_vec()
    };
    assert_faults_of(&PROTOCOLS, cases).await;
}

#[tokio::test]
async fn connection_that_closes_within_a_response_is_unreachable() {
    let cases = |protocol: &WireProtocol| {
        let cut_short = Answer::json(200, (protocol.grant)()).cut_short();
        let unreachable = Fault::Kind("unreachable");
        vec![
            (cut_short, unreachable.clone()),
            (Answer::reset(), unreachable),
        ]
    };
    assert_faults_of(&PROTOCOLS, cases).await;
}

#[tokio::test]
async fn body_over_the_limit_is_unreadable() {
    let overlong = |status| Answer::padded(status, BODY_MAX + 1);
    let cases = [overlong(200), overlong(200).chunked(), overlong(400)];
    assert_faults(&cases.map(unreadable)).await;
}

#[tokio::test]
async fn server_of_another_protocol_is_unreadable() {
    assert_faults(&[unreadable(Answer::not_http())]).await;
}

#[tokio::test]
async fn closed_port_is_unreachable() {
    let closed_port = RefusingPort::start();
    for protocol in &PROTOCOLS {
        for (operation, path) in operations(protocol) {
            let fixture = Fixture::new(protocol, operation, path).await;
            let iam = adapter(protocol, &closed_port.url());
            let result = call(&iam, operation, &fixture.session).await;
            assert_eq!(kind(&result), "unreachable", "{operation:?} at {path}");
        }
    }
}

#[tokio::test]
async fn call_succeeds_after_the_server_has_started() {
    for protocol in &PROTOCOLS {
        let port = RefusingPort::start();
        let iam = adapter(protocol, &port.url());
        assert_eq!(kind(&log_in(&iam).await), "unreachable");
        let upstream = ScriptedUpstream::in_place_of(port);
        (protocol.works)(&upstream);
        assert_eq!(kind(&log_in(&iam).await), "ok");
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
                let iam: Arc<dyn IamAdapter> = Arc::new(iam);
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
            let in_flight = tokio::spawn(async move { call(&iam, operation, &session).await });
            upstream.received(path, before + 1).await;
            in_flight.abort();
            upstream.disconnected(1).await;
            let result = call(&fixture.iam, operation, &fixture.session).await;
            assert_eq!(result, Ok(()), "{} {operation:?} at {path}", protocol.name);
        }
    }
}

#[tokio::test]
async fn session_of_a_cancelled_login_is_ended() {
    for protocol in &PROTOCOLS {
        let upstream = ScriptedUpstream::of(protocol).await;
        upstream.on(protocol.introspection, Answer::hanging());
        let iam = adapter(protocol, &upstream.url());
        let login = tokio::spawn(async move { log_in(&iam).await.map(drop) });
        upstream.received(protocol.introspection, 1).await;
        login.abort();
        // Both tokens are revoked.
        let calls = if protocol.logout_is_revocation { 2 } else { 1 };
        upstream.received(protocol.logout, calls).await;
    }
}

#[tokio::test]
async fn inactive_is_not_believed_while_logins_are_reported_inactive() {
    for protocol in &PROTOCOLS {
        let name = protocol.name;
        let upstream = ScriptedUpstream::of(protocol).await;
        let iam = adapter(protocol, &upstream.url());
        let session = log_in(&iam).await.expect("a login").session;
        upstream.on(protocol.introspection, (protocol.inactive)());
        let introspected = iam.introspect(&session).await;
        assert_eq!(introspected, Ok(Introspection::Inactive), "{name}");
        for result in [
            log_in(&iam).await.map(drop),
            iam.introspect(&session).await.map(drop),
            iam.probe().await,
        ] {
            is_misconfigured(&result, Misconfiguration::Introspection);
        }
        (protocol.works)(&upstream);
        assert_eq!(kind(&iam.introspect(&session).await), "ok", "{name}");
        upstream.on(protocol.introspection, (protocol.inactive)());
        let introspected = iam.introspect(&session).await;
        assert_eq!(introspected, Ok(Introspection::Inactive), "{name}");
        assert_eq!(iam.probe().await, Ok(()), "{name}");
    }
}

fn unreadable(answer: Answer) -> (Answer, Fault) {
    (answer, Fault::Kind("unreadable"))
}
