//! The log: one line for each request, and its members.

use std::fs;
use std::net::TcpListener;

use serde_json::{Value, json};
use test_support::endpoints::{BACKCHANNEL_LOGOUT, LOGIN};
use test_support::files::write_private;
use test_support::gateway::{scripted_keycloak_settings, two_scripted_keycloaks_settings};
use test_support::logout_token::logout_token;
use test_support::program::Program;
use test_support::scripted_upstream::keycloak::{
    INTROSPECTION, KEYS, LOGOUT as UPSTREAM_LOGOUT, TOKEN as GRANT, inactive, refusal,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};
use test_support::spans;
use test_support::wire::{
    ALICE, Connection, exchange, fetch, form, get, logout, post, with_header,
};

use crate::GATEWAY;

/// A request with this id.
fn named(id: &str, request: &str) -> String {
    with_header(&format!("x-request-id: {id}"), request)
}

/// A request of the IAM with this logout token.
fn sent(logout_token: &str) -> String {
    form(BACKCHANNEL_LOGOUT, &format!("logout_token={logout_token}"))
}

/// The lines of one request.
fn of<'a>(log: &'a [Value], id: &str) -> Vec<&'a Value> {
    log.iter().filter(|line| line["request_id"] == id).collect()
}

/// A gateway in front of this Keycloak.
fn serve_with_one_probe(keycloak: &ScriptedUpstream) -> Program {
    let url = keycloak.url();
    let settings = scripted_keycloak_settings(&url);
    GATEWAY.serve(&[&settings[..], &[("upstream.probe_interval", "1h")]].concat())
}

/// A Keycloak, and a gateway that has probed it and does so no more.
async fn after_the_only_probe() -> (ScriptedUpstream, Program) {
    let keycloak = ScriptedUpstream::keycloak().await;
    keycloak.once(INTROSPECTION, inactive());
    let mut program = serve_with_one_probe(&keycloak);
    program.addresses();
    keycloak.received(INTROSPECTION, 1).await;
    (keycloak, program)
}

/// A gateway, and the Keycloaks of its users at `example.test` and at `other.test`.
async fn before_two_keycloaks() -> ([ScriptedUpstream; 2], Program) {
    let iams = [
        ScriptedUpstream::keycloak().await,
        ScriptedUpstream::keycloak().await,
    ];
    let urls = iams.each_ref().map(ScriptedUpstream::url);
    let settings = two_scripted_keycloaks_settings(&urls[0], &urls[1]);
    let program = GATEWAY.serve(&settings);
    (iams, program)
}

#[test]
fn json_format_writes_nothing_but_json() {
    let json = ("log.format", "json");
    let mut program = GATEWAY.serve(&[json]);
    program.addresses();
    let ended = program.stop();
    assert_eq!((ended.code, ended.err.trim()), (Some(0), ""));
    assert!(!ended.log().is_empty());

    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let ended = GATEWAY.run(&[], &[json, ("http.listen", &address)]);
    assert_eq!((ended.code, ended.err.trim()), (Some(70), ""));
    let log = ended.log();
    let last = log.last().expect("a line");
    assert_eq!(last["level"], "ERROR");
    let error = last["error"].as_str().expect("text");
    assert!(
        error.starts_with(&format!("cannot listen on {address}")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn line_of_a_request_names_its_iam_if_there_are_several() {
    let (iams, mut program) = before_two_keycloaks().await;
    let mut connection = Connection::to(program.addresses().0);
    let other = ALICE.replace("example.test", "other.test");
    let session = connection.send(post(LOGIN, &other)).answer().json();
    iams[1].on(UPSTREAM_LOGOUT, Answer::empty(503));
    let mut unknown = session.clone();
    unknown["session_token"] = json!("a");
    let another_client = logout_token(&iams[1].url(), "a", &json!({"aud": "another-client"}));
    let requests = [
        ("one", post(LOGIN, ALICE), 200, Some("one")),
        ("other", post(LOGIN, &other), 200, Some("other")),
        ("none", post(LOGIN, "[]"), 400, None),
        ("logout", logout(&session), 500, Some("other")),
        ("exchange", exchange(&session), 401, Some("other")),
        ("unknown", exchange(&unknown), 401, None),
        ("form", sent(&another_client), 400, Some("other")),
    ];
    for (id, request, status, _) in &requests {
        let answer = connection.send(named(id, request)).answer();
        assert_eq!(answer.status, *status, "{id}");
    }
    let log = program.stop().log();
    for (id, _, _, iam) in requests {
        let mut lines = of(&log, id).into_iter();
        let line = lines
            .find(|line| line["target"] == "auth_gateway::request")
            .expect(id);
        assert_eq!(line["iam.name"].as_str(), iam, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_of_a_replica_that_is_not_ready_log_one_warning_and_no_error() {
    let keycloak = ScriptedUpstream::keycloak().await;
    let invalid = refusal(
        401,
        "unauthorized_client",
        "Invalid client or Invalid client credentials",
    );
    keycloak
        .on(GRANT, invalid.clone())
        .on(INTROSPECTION, invalid);
    let mut program = serve_with_one_probe(&keycloak);
    let (_, management) = program.addresses();
    program.logged("calls to the IAM fail");
    for _ in 0..3 {
        let probe = fetch(management, get("/health/ready"));
        assert_eq!(probe.status, 503);
    }
    let log = program.stop().log();
    let changes: Vec<_> = log
        .iter()
        .filter(|line| line["message"] == "readiness changed")
        .collect();
    let [change] = changes[..] else {
        panic!("{log:#?}");
    };
    assert_eq!(change["level"], "WARN");
    assert_eq!(change["readiness"], "not_ready");
    assert_eq!(change["reasons"], "client_secret");
    assert!(log.iter().all(|line| line["level"] != "ERROR"), "{log:#?}");
}

#[test]
fn readiness_of_a_replica_that_stops_is_logged_at_info_level() {
    let mut program = GATEWAY.serve(&[("http.shutdown_delay", "10m")]);
    let (_, management) = program.addresses();
    for (status, readiness, reasons) in [(200, "ready", None), (503, "not_ready", Some("stopping"))]
    {
        let probe = fetch(management, get("/health/ready"));
        assert_eq!(probe.status, status);
        let line = program.logged_with("readiness", readiness);
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["message"], "readiness changed");
        assert_eq!(line["reasons"].as_str(), reasons);
        if status == 200 {
            program.signal("TERM");
            program.logged("stopping");
        }
    }
}

#[test]
fn each_request_has_one_log_line_with_all_its_fields() {
    let mut program = GATEWAY.serve(&[]);
    let (public, management) = program.addresses();
    let mut connection = Connection::to(public);
    let session = connection
        .send(named("login", &post(LOGIN, ALICE)))
        .answer()
        .json();
    connection
        .send(named("exchange", &exchange(&session)))
        .answer();
    let wrong = ALICE.replace("alice-pass", "wrong");
    connection
        .send(named("refused", &post(LOGIN, &wrong)))
        .answer();
    connection
        .send(named("malformed", &post(LOGIN, "[]")))
        .answer();
    connection
        .send(named("nowhere", &get("/nowhere?a=b")))
        .answer();
    fetch(management, named("probe", &get("/health/live")));
    let log = program.stop().log();
    for (id, route, status, outcome, cache, error) in [
        ("login", "login", 200, "ok", None, None),
        ("exchange", "token", 200, "ok", Some("hit"), None),
        (
            "refused",
            "login",
            401,
            "invalid_grant",
            None,
            Some("login refused: invalid credentials"),
        ),
        (
            "malformed",
            "login",
            400,
            "invalid_request",
            None,
            Some("The body is not a JSON object."),
        ),
        ("nowhere", "other", 404, "invalid_request", None, None),
    ] {
        let lines = of(&log, id);
        let [line] = lines[..] else {
            panic!("{id}: {lines:#?}");
        };
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["target"], "auth_gateway::request");
        assert_eq!(line["route"], route);
        assert_eq!(line["status"], status);
        assert_eq!(line["outcome"], outcome);
        assert_eq!(line["iam.name"], "mock");
        assert_eq!(line["client.address"], "127.0.0.1");
        assert_eq!(line["cache"].as_str(), cache, "{line}");
        assert_eq!(line["error"].as_str(), error, "{line}");
        assert!(
            line["duration_us"].as_u64().is_some_and(|took| took > 0),
            "{line}"
        );
        assert!(!line.to_string().contains("a=b"), "{line}");
    }
    // Probes and scrapes are frequent and are not logged.
    assert_eq!(of(&log, "probe"), Vec::<&Value>::new());
}

#[test]
fn login_is_logged_with_its_subject_and_never_with_the_email_address() {
    let mut program = GATEWAY.serve(&[("login_limits.account_failures", "2")]);
    let (public, _) = program.addresses();
    let mut connection = Connection::to(public);
    let mut log_in = |id: &str, email: &str, password: &str| {
        let body = json!({ "email": email, "password": password });
        let request = post(LOGIN, &body.to_string());
        connection.send(named(id, &request)).answer().status
    };
    let alice = "alice@example.test";
    assert_eq!(log_in("in", alice, "alice-pass"), 200);
    assert_eq!(log_in("wrong", "ALICE@example.test", "wrong"), 401);
    assert_eq!(log_in("empty", alice, ""), 401);
    assert_eq!(log_in("stopped", alice, "alice-pass"), 429);
    assert_eq!(log_in("bob", "bob@example.test", "wrong"), 401);
    let log = program.stop().log();
    let line = |id: &str| {
        let lines = of(&log, id);
        let [line] = lines[..] else {
            panic!("{id}: {lines:#?}");
        };
        line.clone()
    };
    let account = line("in")["account"].clone();
    let digits = account.as_str().expect("an account");
    assert!(digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert!(line("in")["subject"].is_string());
    for (id, error) in [
        ("wrong", "login refused: invalid credentials"),
        ("empty", "login refused: invalid credentials"),
        ("stopped", "too many logins: the limit of the account"),
    ] {
        assert_eq!(line(id)["account"], account, "{id}");
        assert_eq!(line(id)["subject"], Value::Null, "{id}");
        assert_eq!(line(id)["error"], error, "{id}");
        assert_eq!(line(id)["client.address"], "127.0.0.1", "{id}");
    }
    let account_of_bob = line("bob")["account"].clone();
    assert!(account_of_bob.is_string() && account_of_bob != account);
    for line in &log {
        let text = line.to_string();
        for typed in ["alice@", "ALICE@", "bob@"] {
            assert!(!text.contains(typed), "{text}");
        }
    }
}

#[test]
fn proxy_missing_in_the_settings_is_reported_once_if_its_clients_share_limits() {
    for (trusted, warnings) in [("10.0.0.0/8", 1), ("127.0.0.1", 0)] {
        let mut program = GATEWAY.serve(&[
            ("http.trusted_proxies", trusted),
            ("login_limits.address_failures", "1"),
        ]);
        let (public, _) = program.addresses();
        let wrong = post(LOGIN, &ALICE.replace("alice-pass", "wrong"));
        let forwarded = with_header("x-forwarded-for: 203.0.113.9", &wrong);
        let mut connection = Connection::to(public);
        for status in [401, 429, 429, 429] {
            assert_eq!(connection.send(&forwarded).answer().status, status);
        }
        let log = program.stop().log();
        let warned = log.iter().filter(|line| line["level"] == "WARN");
        assert_eq!(warned.count(), warnings, "{log:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn warning_about_a_call_to_the_iam_has_the_id_of_its_request() {
    let no_permissions = "login without permissions: the introspection of the new session failed";
    let failing = "calls to the IAM fail";
    for (path, warnings) in [
        (
            INTROSPECTION,
            &[("login", 200, no_permissions), ("exchange", 500, failing)][..],
        ),
        (KEYS, &[("logout_token", 500, failing)]),
    ] {
        let (keycloak, mut program) = after_the_only_probe().await;
        keycloak.on(path, Answer::empty(503));
        let mut connection = Connection::to(program.addresses().0);
        let mut send = |id: &str, request: &str| connection.send(named(id, request)).answer();
        let session = send("login", &post(LOGIN, ALICE)).json();
        send("exchange", &exchange(&session));
        let token = logout_token(&keycloak.url(), "a", &json!({"sub": "alice"}));
        send("logout_token", &sent(&token));
        let log = program.stop().log();
        for (id, status, warning) in warnings {
            let [of_the_call, of_the_request] = of(&log, id)[..] else {
                panic!("{id}: {log:#?}");
            };
            assert_eq!(of_the_call["message"], *warning, "{log:#?}");
            assert_eq!(of_the_request["target"], "auth_gateway::request");
            assert_eq!(of_the_request["status"], *status, "{id}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cause_of_a_fault_is_in_the_log_line_of_its_request_only() {
    let keycloak = ScriptedUpstream::keycloak().await;
    keycloak.once(INTROSPECTION, inactive());
    keycloak.on(GRANT, Answer::empty(503));
    let mut program = serve_with_one_probe(&keycloak);
    let (public, _) = program.addresses();
    keycloak.received(INTROSPECTION, 1).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let answer = fetch(public, post(LOGIN, ALICE));
        assert_eq!(answer.status, 500);
        ids.push(
            answer.json()["request_id"]
                .as_str()
                .expect("an id")
                .to_owned(),
        );
    }
    let log = program.stop().log();
    for id in &ids {
        let mut lines = of(&log, id);
        lines.retain(|line| line["target"] == "auth_gateway::request");
        let [line] = lines[..] else {
            panic!("{lines:#?}");
        };
        assert_eq!(line["level"], "ERROR");
        assert_eq!(line["outcome"], "temporarily_unavailable");
        let error = line["error"].as_str().expect("a cause");
        assert!(error.starts_with("the IAM failed: "), "{error}");
    }
    // The transition from available to unavailable is logged once.
    let turned = log
        .iter()
        .filter(|line| line["message"] == "calls to the IAM fail");
    assert_eq!(turned.count(), 1, "{log:#?}");
    let faulty = log
        .iter()
        .filter(|line| line["level"] == "ERROR" || line["level"] == "WARN");
    assert_eq!(faulty.count(), ids.len() + 1, "{log:#?}");
}

#[test]
fn invalid_request_is_logged_at_info_level() {
    let mut program = GATEWAY.serve(&[]);
    let (public, _) = program.addresses();
    let mut ids = Vec::new();
    for request in [
        "NO HTTP\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(200_000)),
    ] {
        let answer = fetch(public, request);
        ids.push(answer.header("x-request-id").expect("an id").to_owned());
    }
    let half = post(LOGIN, ALICE);
    let mut connection = Connection::to(public);
    connection.send(&half[..half.len() - 1]).finish();
    // The gateway closes it once it has handled the request.
    connection.rest();
    let log = program.stop().log();
    for id in ids {
        assert_eq!(of(&log, &id).len(), 1, "{log:#?}");
    }
    assert!(log.iter().all(|line| line["level"] == "INFO"), "{log:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn line_of_a_sampled_request_has_its_trace_id_and_a_gateway_that_stops_exports_its_spans() {
    let collector = ScriptedUpstream::start().await;
    collector.on(spans::PATH, Answer::empty(200));
    let endpoint = collector.url();
    let mut program = GATEWAY.serve(&[
        ("traces.endpoint", endpoint.as_str()),
        ("traces.sample_ratio", "0"),
        ("http.trusted_proxies", "127.0.0.1"),
    ]);
    let mut connection = Connection::to(program.addresses().0);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    for (id, flags) in [("sampled", "01"), ("unsampled", "00")] {
        let traceparent = format!("traceparent: 00-{trace}-00f067aa0ba902b7-{flags}");
        let request = with_header(&traceparent, &post(LOGIN, ALICE));
        connection.send(named(id, &request)).answer();
    }
    let log = program.stop().log();
    for (id, expected) in [("sampled", Some(trace)), ("unsampled", None)] {
        let mut lines = of(&log, id).into_iter();
        let line = lines.find(|line| line["target"] == "auth_gateway::request");
        assert_eq!(line.expect(id)["trace_id"].as_str(), expected);
    }
    let exported = spans::exported(&collector).into_iter();
    let names: Vec<_> = exported.map(|span| span.name).collect();
    assert_eq!(names, ["iam login", "POST /api/v1/auth/login"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_headers_file_of_the_collector_is_used_without_a_restart() {
    let collector = ScriptedUpstream::start().await;
    collector.on(spans::PATH, Answer::empty(200));
    let endpoint = collector.url();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("headers");
    write_private(&file, "authorization=Bearer%20old");
    let mut program = GATEWAY.serve(&[
        ("traces.endpoint", endpoint.as_str()),
        ("traces.sample_ratio", "1"),
        ("traces.headers_file", file.to_str().expect("text")),
    ]);
    let public = program.addresses().0;
    fs::write(&file, "authorization=Bearer%20new").expect("written");
    program.signal("HUP");
    program.logged("the files that the settings name were read again");
    fetch(public, post(LOGIN, ALICE));
    program.stop().log();
    let exports = collector.requests_to(spans::PATH);
    let last = exports.last().expect("an export");
    assert_eq!(last.header("authorization").as_deref(), Some("Bearer new"));
}
