//! Every way in which a server can fail, for every call: the right fault, never a yes and never a
//! no.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::SystemClock;
use iam_adapters::guarded::{Circuit, Guarded, Limit, Limits, Observer, Operation};
use iam_adapters::{Clock, IamAdapter, IamError};
use serde_json::json;
use test_support::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, KEYS, LOGOUT, TOKEN, grant, inactive,
};
use test_support::scripted_upstream::{Answer, Refusing, ScriptedUpstream};

use super::{CONNECT_DEADLINE, PASSWORD, adapter, client, credentials, kind, session};

const OPERATIONS: [(Operation, &str); 6] = [
    (Operation::Login, TOKEN),
    (Operation::Introspection, INTROSPECTION),
    (Operation::Logout, LOGOUT),
    (Operation::Keys, KEYS),
    (Operation::Probe, DISCOVERY),
    (Operation::Probe, INTROSPECTION),
];

const OVERLONG: usize = 10 * 1024 * 1024;

/// A Keycloak in good health for that operation: to a probe it says no.
async fn healthy(operation: Operation) -> ScriptedUpstream {
    let upstream = ScriptedUpstream::keycloak().await;
    if operation == Operation::Probe {
        upstream.on(INTROSPECTION, inactive());
    }
    upstream
}

async fn call(keycloak: &impl IamAdapter, operation: Operation) -> Result<(), IamError> {
    match operation {
        Operation::Login => {
            let login = keycloak
                .authenticate(&credentials(PASSWORD), &client())
                .await;
            login.map(|_| ())
        }
        Operation::Introspection => keycloak.introspect(&session()).await.map(|_| ()),
        Operation::Logout => keycloak.end_session(&session()).await,
        Operation::Keys => keycloak.verification_keys().await.map(|_| ()),
        Operation::Probe => keycloak.probe().await,
    }
}

/// What each operation makes of each answer, asked once.
async fn each_makes_of(answer: impl Fn() -> Answer, expected: impl Fn(&IamError) -> bool) {
    for (operation, path) in OPERATIONS {
        let upstream = healthy(operation).await;
        upstream.on(path, answer());
        let result = call(&adapter(&upstream.url()), operation).await;
        assert!(
            result.as_ref().is_err_and(&expected),
            "{operation:?} at {path}: {result:?}"
        );
        assert_eq!(
            upstream.requests_to(path).len(),
            1,
            "{operation:?} at {path}"
        );
    }
}

#[tokio::test]
async fn a_server_that_fails_has_failed() {
    for status in [500, 502, 503, 504] {
        let said = IamError::Failed(format!("status {status}"));
        each_makes_of(|| Answer::html(status), |error| *error == said).await;
        let json = || Answer::json(status, json!({"error": "invalid_grant"}));
        each_makes_of(json, |error| *error == said).await;
    }
}

#[tokio::test]
async fn a_server_that_asks_for_a_pause_is_told_on_with_its_seconds() {
    for (sent, expected) in [
        (Some("7"), Some(7)),
        (Some("0"), Some(0)),
        (None, None),
        (Some("Fri, 20 Nov 2026 10:00:00 GMT"), None),
        (Some("-1"), None),
        (Some("99999999999999999999"), None),
    ] {
        let answer = || {
            let answer = Answer::html(429);
            sent.map_or(answer.clone(), |seconds| {
                answer.with("Retry-After", seconds)
            })
        };
        let retry_after = expected.map(Duration::from_secs);
        each_makes_of(answer, |error| {
            *error == IamError::Throttled { retry_after }
        })
        .await;
    }
}

#[tokio::test]
async fn a_redirect_is_never_followed() {
    let thief = ScriptedUpstream::keycloak().await;
    for status in [301, 302, 303, 307, 308] {
        let away = || Answer::redirect(status, &thief.url());
        each_makes_of(away, |error| {
            error.kind() == "misconfigured" && error.to_string().contains("redirect")
        })
        .await;
    }
    assert!(thief.requests().is_empty());
}

#[tokio::test]
async fn a_page_for_people_is_unreadable_whatever_its_status() {
    for status in [200, 201, 400, 401, 403] {
        each_makes_of(|| Answer::html(status), is_unreadable).await;
    }
    for status in [400, 401, 403, 418] {
        each_makes_of(|| Answer::empty(status), is_unreadable).await;
    }
}

#[tokio::test]
async fn json_that_ends_in_the_middle_is_unreadable() {
    let whole = || Answer::json(200, grant());
    each_makes_of(|| whole().truncated(), is_unreadable).await;
    each_makes_of(|| whole().truncated().chunked(), is_unreadable).await;
}

#[tokio::test]
async fn a_connection_that_ends_in_the_middle_is_unreachable() {
    each_makes_of(|| Answer::json(200, grant()).cut_short(), is_unreachable).await;
    each_makes_of(Answer::reset, is_unreachable).await;
}

#[tokio::test]
async fn a_body_of_ten_mebibytes_is_unreadable() {
    each_makes_of(|| Answer::padded(200, OVERLONG), is_unreadable).await;
    each_makes_of(|| Answer::padded(200, OVERLONG).chunked(), is_unreadable).await;
    each_makes_of(|| Answer::padded(401, OVERLONG), is_unreadable).await;
}

#[tokio::test]
async fn a_server_of_another_protocol_is_unreadable() {
    each_makes_of(Answer::not_http, is_unreadable).await;
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_unreachable() {
    let nobody = Refusing::start();
    for (operation, _) in OPERATIONS {
        let result = call(&adapter(&nobody.url()), operation).await;
        assert_eq!(kind(&result), "unreachable", "{operation:?}");
    }
}

#[tokio::test]
async fn a_server_that_begins_to_listen_is_found_by_the_next_call() {
    let port = Refusing::start();
    let keycloak = adapter(&port.url());
    assert_eq!(kind(&keycloak.probe().await), "unreachable");
    let upstream = ScriptedUpstream::in_place_of(port);
    upstream.in_good_health().on(INTROSPECTION, inactive());
    assert_eq!(keycloak.probe().await, Ok(()));
}

#[derive(Debug)]
struct Unwatched;

impl Observer for Unwatched {
    fn called(&self, _: Operation, _: Result<(), &IamError>, _: Duration) {}
    fn circuit(&self, _: Operation, _: Circuit) {}
}

#[tokio::test]
async fn an_answer_that_does_not_come_or_does_not_end_is_dropped_at_the_deadline() {
    // No answer comes at all, so that the deadline's length decides nothing but the test's.
    let limit = Limit {
        deadline: Duration::from_millis(200),
        concurrency: 1,
    };
    let limits = Limits {
        login: limit,
        introspection: limit,
        logout: limit,
        keys: limit,
        probe: limit,
    };
    for answer in [Answer::hanging(), Answer::dripping()] {
        for (operation, path) in OPERATIONS {
            let upstream = healthy(operation).await;
            upstream.on(path, answer.clone());
            let keycloak = Arc::new(adapter(&upstream.url()));
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
            let unwatched: Arc<dyn Observer> = Arc::new(Unwatched);
            let guarded = Guarded::new(keycloak, limits, &clock, &unwatched);
            let result = call(&guarded, operation).await;
            assert_eq!(
                result,
                Err(IamError::TimedOut(limit.deadline)),
                "{operation:?}"
            );
            upstream.hung_up(1).await;
        }
    }
    assert!(limit.deadline < CONNECT_DEADLINE);
}

#[tokio::test]
async fn a_call_that_is_dropped_on_the_way_does_not_harm_the_next() {
    for (operation, path) in OPERATIONS {
        let upstream = healthy(operation).await;
        upstream.once(path, Answer::json(200, grant()).held());
        let keycloak = Arc::new(adapter(&upstream.url()));
        let under_way = tokio::spawn({
            let keycloak = Arc::clone(&keycloak);
            async move { call(&*keycloak, operation).await }
        });
        upstream.received(path, 1).await;
        under_way.abort();
        upstream.hung_up(1).await;
        let result = call(&*keycloak, operation).await;
        assert_eq!(result, Ok(()), "{operation:?} at {path}");
    }
}

fn is_unreadable(error: &IamError) -> bool {
    error.kind() == "unreadable"
}

fn is_unreachable(error: &IamError) -> bool {
    error.kind() == "unreachable"
}
