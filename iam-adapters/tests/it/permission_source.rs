//! The decisions of a policy server, and the adapter with such a server or a table of groups.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use iam_adapters::client::UpstreamClient;
use iam_adapters::permission_source::{
    GroupRule, GroupTable, PermissionSource, PolicyServer, WithPermissionSource,
};
use iam_adapters::resilient::{CallEvent, CallLimit, CallLimits, Circuit, Observer, Operation};
use iam_adapters::{
    Clock, IamAdapter, IamError, Introspection, Misconfiguration, Permissions, ResilientAdapter,
    Subject,
};
use serde_json::{Value, json};
use test_support::ManualClock;
use test_support::scripted_upstream::keycloak::{INTROSPECTION, LOGOUT, SUBJECT, active};
use test_support::scripted_upstream::{Answer, RefusingPort, ScriptedUpstream};
use tokio::time::{advance, pause, resume};

use super::calls::{PASSWORD, client, credentials, permissions};
use super::keycloak::{adapter, session};

const DECISION: &str = "/v1/data/gateway/scopes";
const TOKEN: &str = "canary-bearer-token";
const LIMIT: CallLimit = CallLimit {
    deadline: Duration::from_secs(2),
    concurrency: 4,
};

fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)))
}

fn policy_server(url: &str) -> PolicyServer {
    let client = UpstreamClient::new(Duration::from_secs(1), None, None, clock());
    PolicyServer {
        url: format!("{url}{DECISION}").parse().expect("a URL"),
        token: Some(TOKEN.into()),
        client: client.expect("a client"),
    }
}

async fn decide(url: &str) -> Result<Permissions, IamError> {
    let source = PermissionSource::Http(Box::new(policy_server(url)), LIMIT);
    let subject = Subject::new("s-1").expect("a subject");
    let groups = ["/team".to_owned()];
    let at_iam = permissions(&["buyer"]);
    source
        .permissions("corp", &subject, &at_iam, Some(&groups))
        .await
}

#[tokio::test]
async fn policy_server_gets_iam_subject_groups_and_permissions_and_decides() {
    let upstream = ScriptedUpstream::start().await;
    upstream.on(DECISION, Answer::json(200, json!({"result": ["b", "a"]})));
    assert_eq!(decide(&upstream.url()).await, Ok(permissions(&["a", "b"])));
    let requests = upstream.requests();
    let [request] = &requests[..] else {
        panic!("one call, not {requests:?}");
    };
    assert_eq!(
        (request.method.as_str(), request.path.as_str()),
        ("POST", DECISION)
    );
    let sent: Value = serde_json::from_str(&request.text()).expect("JSON");
    let input = json!({
        "iam": "corp", "subject": "s-1", "groups": ["/team"], "permissions": ["buyer"],
    });
    assert_eq!(sent, json!({ "input": input }));
    assert_eq!(
        request.header("authorization"),
        Some(format!("Bearer {TOKEN}"))
    );
    assert_eq!(
        request.header("content-type").as_deref(),
        Some("application/json")
    );
}

#[tokio::test]
async fn unclear_answer_of_the_policy_server_is_a_fault() {
    for (answer, kind) in [
        (Answer::json(200, json!({})), "unreadable"),
        (Answer::reset(), "unreachable"),
        (Answer::empty(204), "misconfigured"),
        (Answer::empty(401), "misconfigured"),
        (Answer::empty(404), "misconfigured"),
        (Answer::empty(429), "throttled"),
        (Answer::html(500), "failed"),
        (Answer::html(503), "failed"),
    ] {
        let upstream = ScriptedUpstream::start().await;
        let shown = format!("{answer:?}");
        upstream.on(DECISION, answer);
        let decided = decide(&upstream.url()).await;
        let fault = decided.expect_err(&shown);
        assert_eq!(fault.kind(), kind, "{shown}: {fault}");
        assert!(!format!("{fault:?} {fault}").contains(TOKEN), "{fault:?}");
    }
    let away = decide(&RefusingPort::start().url()).await;
    assert!(matches!(away, Err(IamError::Unreachable(_))), "{away:?}");
}

#[test]
fn debug_of_the_policy_server_hides_the_token() {
    let shown = format!("{:?}", policy_server("http://127.0.0.1:1"));
    assert!(
        shown.contains("127.0.0.1") && !shown.contains(TOKEN),
        "{shown}"
    );
}

#[derive(Default)]
struct Calls(
    Mutex<Vec<(Operation, Option<&'static str>)>>,
    Mutex<Vec<(Operation, Circuit)>>,
);

impl Calls {
    fn record(&self, event: &CallEvent<'_>) {
        match *event {
            CallEvent::Called {
                operation, result, ..
            } => {
                let outcome = result.err().map(IamError::kind);
                let mut calls = self.0.lock().expect("not poisoned");
                calls.push((operation, outcome));
            }
            CallEvent::Circuit { operation, circuit } => {
                let mut circuits = self.1.lock().expect("not poisoned");
                circuits.push((operation, circuit));
            }
            CallEvent::Clock { .. } => {}
        }
    }
}

fn with_source(iam: &str, source: PermissionSource) -> (WithPermissionSource, Arc<Calls>) {
    with_source_at(&clock(), iam, source)
}

fn with_source_at(
    clock: &Arc<dyn Clock>,
    iam: &str,
    source: PermissionSource,
) -> (WithPermissionSource, Arc<Calls>) {
    let limits = CallLimits {
        login: LIMIT,
        introspection: LIMIT,
        logout: LIMIT,
        keys: LIMIT,
        probe: LIMIT,
    };
    let calls = Arc::<Calls>::default();
    let recording = Arc::clone(&calls);
    let observer: Observer = Arc::new(move |event: &CallEvent<'_>| recording.record(event));
    let name = "tested".into();
    let iam = Arc::new(ArcSwap::from_pointee(adapter(iam)));
    let iam = ResilientAdapter::new(&name, iam, limits, clock, &observer);
    let source = Arc::new(ArcSwap::from_pointee(source));
    let iam = WithPermissionSource::new(&name, Arc::new(iam), source, clock, &observer);
    (iam, calls)
}

fn team_table() -> PermissionSource {
    let rules = vec![GroupRule {
        iam: None,
        group: "/team/*".to_owned(),
        scopes: vec!["orders:read".to_owned()],
    }];
    PermissionSource::Groups(GroupTable::try_from(rules).expect("a table"))
}

#[tokio::test]
async fn table_replaces_the_permissions_of_the_iam_at_login_and_introspection() {
    let upstream = ScriptedUpstream::keycloak().await;
    let mut answer = active();
    answer["groups"] = json!(["/team/a", "/others"]);
    upstream.on(INTROSPECTION, Answer::json(200, answer));
    let (iam, _) = with_source(&upstream.url(), team_table());
    let expected = permissions(&["orders:read"]);
    let login = iam.authenticate(&credentials(PASSWORD), &client()).await;
    let login = login.expect("a login");
    assert_eq!(
        (login.permissions, login.groups),
        (Some(expected.clone()), None)
    );
    assert_eq!(
        iam.introspect(&session()).await,
        Ok(Introspection::Active {
            subject: Subject::new(SUBJECT).expect("a subject"),
            permissions: expected,
            groups: None,
            claims: iam_adapters::Claims::default(),
        })
    );
}

#[tokio::test]
async fn table_without_groups_of_the_iam_is_a_fault_and_not_no_permissions() {
    let upstream = ScriptedUpstream::keycloak().await;
    let mut answer = active();
    answer["groups"] = json!("not a list");
    upstream.on(INTROSPECTION, Answer::json(200, answer));
    let (iam, _) = with_source(&upstream.url(), team_table());
    let fault = iam.introspect(&session()).await.expect_err("a fault");
    assert!(
        matches!(&fault, IamError::PermissionSource(fault) if matches!(**fault, IamError::Unreadable(_))),
        "{fault:?}"
    );
}

#[tokio::test]
async fn failed_policy_server_fails_the_introspection_and_not_the_login() {
    let upstream = ScriptedUpstream::keycloak().await;
    let source =
        PermissionSource::Http(Box::new(policy_server(&RefusingPort::start().url())), LIMIT);
    let (iam, calls) = with_source(&upstream.url(), source);
    let login = iam.authenticate(&credentials(PASSWORD), &client()).await;
    assert_eq!(login.expect("a login").permissions, None);
    let fault = iam.introspect(&session()).await.expect_err("a fault");
    assert!(
        fault
            .to_string()
            .starts_with("the permission source cannot be reached"),
        "{fault}"
    );
    assert_eq!(
        *calls.0.lock().expect("not poisoned"),
        [
            (Operation::Login, None),
            (Operation::Permissions, Some("unreachable")),
            (Operation::Introspection, None),
            (Operation::Permissions, Some("unreachable")),
        ]
    );
}

#[tokio::test]
async fn session_of_a_login_that_is_cancelled_during_the_decision_is_ended() {
    let upstream = ScriptedUpstream::keycloak().await;
    let server = ScriptedUpstream::start().await;
    server.on(DECISION, Answer::hanging());
    let source = PermissionSource::Http(Box::new(policy_server(&server.url())), LIMIT);
    let (iam, _) = with_source(&upstream.url(), source);
    let (credentials, client) = (credentials(PASSWORD), client());
    let cancelled = tokio::select! {
        login = iam.authenticate(&credentials, &client) => Some(login),
        () = server.received(DECISION, 1) => None,
    };
    assert!(cancelled.is_none(), "{cancelled:?}");
    upstream.received(LOGOUT, 1).await;
}

#[tokio::test]
async fn policy_server_has_its_own_deadline() {
    let upstream = ScriptedUpstream::keycloak().await;
    let server = ScriptedUpstream::start().await;
    server.on(DECISION, Answer::hanging());
    let source = PermissionSource::Http(Box::new(policy_server(&server.url())), LIMIT);
    let (iam, _) = with_source(&upstream.url(), source);
    let in_flight = tokio::spawn(async move { iam.introspect(&session()).await });
    server.received(DECISION, 1).await;
    pause();
    advance(LIMIT.deadline).await;
    resume();
    let timed_out = IamError::TimedOut(LIMIT.deadline).of_permission_source();
    assert_eq!(in_flight.await.expect("no panic"), Err(timed_out));
}

#[tokio::test]
async fn policy_server_has_its_own_circuit() {
    let upstream = ScriptedUpstream::keycloak().await;
    let server = RefusingPort::start();
    let source = PermissionSource::Http(Box::new(policy_server(&server.url())), LIMIT);
    let (iam, calls) = with_source(&upstream.url(), source);
    for number in 0..30 {
        let fault = iam.introspect(&session()).await.expect_err("no decision");
        let IamError::PermissionSource(fault) = fault else {
            panic!("{fault:?}");
        };
        assert_eq!(*fault == IamError::CircuitOpen, number >= 20, "{fault:?}");
    }
    // Without a decision, the IAM is not called in vain.
    assert_eq!(upstream.requests_to(INTROSPECTION).len(), 20);
    let calls = calls.0.lock().expect("not poisoned");
    let refused = (Operation::Permissions, Some("circuit_open"));
    assert_eq!(calls.iter().filter(|call| **call == refused).count(), 10);
}

/// Otherwise readiness and the metrics report it as open for as long as no exchange needs a decision.
#[tokio::test]
async fn circuit_of_a_policy_server_that_is_not_called_half_opens_at_a_probe_after_its_pause() {
    let upstream = ScriptedUpstream::keycloak().await;
    let server = RefusingPort::start();
    let source = PermissionSource::Http(Box::new(policy_server(&server.url())), LIMIT);
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let (iam, calls) = with_source_at(&time, &upstream.url(), source);
    for _ in 0..20 {
        iam.introspect(&session()).await.expect_err("no decision");
    }
    // The probe's token is invalid.
    upstream.on(INTROSPECTION, Answer::json(200, json!({"active": false})));
    let open = (Operation::Permissions, Circuit::Open);
    let half_open = (Operation::Permissions, Circuit::HalfOpen);
    iam.probe().await.expect("a probe");
    assert_eq!(*calls.1.lock().expect("not poisoned"), [open]);
    clock.advance(Duration::from_secs(3));
    iam.probe().await.expect("a probe");
    assert_eq!(*calls.1.lock().expect("not poisoned"), [open, half_open]);
}

#[tokio::test]
async fn policy_server_that_fails_for_one_user_is_asked_about_the_others() {
    let upstream = ScriptedUpstream::keycloak().await;
    let server = ScriptedUpstream::start().await;
    server.on(DECISION, Answer::html(500));
    let source = PermissionSource::Http(Box::new(policy_server(&server.url())), LIMIT);
    let (iam, _) = with_source(&upstream.url(), source);
    for _ in 0..100 {
        let fault = iam.introspect(&session()).await.expect_err("no decision");
        assert_eq!(
            fault.to_string(),
            "the permission source failed: status 500"
        );
    }
    server.on(DECISION, Answer::json(200, json!({"result": []})));
    let introspection = iam.introspect(&session()).await;
    assert!(
        matches!(introspection, Ok(Introspection::Active { .. })),
        "{introspection:?}"
    );
}

#[tokio::test]
async fn inactive_session_causes_no_decision() {
    let upstream = ScriptedUpstream::keycloak().await;
    let server = ScriptedUpstream::start().await;
    server.on(DECISION, Answer::json(200, json!({"result": []})));
    let source = PermissionSource::Http(Box::new(policy_server(&server.url())), LIMIT);
    let (iam, _) = with_source(&upstream.url(), source);
    // Without an active one before, "inactive" would be a fault.
    iam.introspect(&session()).await.expect("an active session");
    upstream.on(INTROSPECTION, Answer::json(200, json!({"active": false})));
    let introspected = iam.introspect(&session()).await;
    assert_eq!(introspected, Ok(Introspection::Inactive));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn refusal_of_the_policy_server_is_a_misconfiguration_of_its_own() {
    let fault = IamError::misconfigured(Misconfiguration::PermissionSource, "status 403");
    let fault = IamError::PermissionSource(Box::new(fault));
    assert_eq!(
        fault.to_string(),
        "the permission source does not accept this gateway: policy server (status 403)"
    );
}
