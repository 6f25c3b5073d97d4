//! `/metrics`: what is counted, and that its size does not depend on users.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use iam_adapters::clock::SystemClock;
use iam_adapters::{Permission, Permissions};
use mock_iam::{Directory, Identity, Mock, User, Users};
use serde_json::{Value, json};
use test_support::endpoints::{LOGIN, TOKEN};
use test_support::gateway::TestGateway;
use test_support::wire::{ALICE, Answer, Connection, fetch, get, pair, post};

mod exposition;
mod outcomes;
mod reference;

pub(crate) use exposition::Exposition;

fn over_the_mock() -> TestGateway {
    TestGateway::start(&[])
}

fn scrape(gateway: &TestGateway) -> Answer {
    fetch(gateway.addresses().management, get("/metrics"))
}

pub(crate) fn exposition(gateway: &TestGateway) -> Exposition {
    let answer = scrape(gateway);
    assert_eq!(answer.status, 200);
    Exposition::parse(&answer.body)
}

/// The status and body of a response.
fn send(gateway: &TestGateway, path: &str, body: &Value) -> (u16, Value) {
    let mut connection = Connection::to(gateway.addresses().public);
    let answer = connection.send(post(path, &body.to_string())).answer();
    (answer.status, answer.json())
}

fn with(session: &Value, more: &[(&str, &str)]) -> Value {
    let mut body = pair(session);
    for (name, value) in more {
        body[*name] = json!(value);
    }
    body
}

const EXCHANGE: (&str, &str) = ("grant_type", "session");

fn requests(route: &str, outcome: &str) -> String {
    format!("auth_gateway_requests_total{{route=\"{route}\",outcome=\"{outcome}\"}}")
}

/// The reference page has the values of each label. These are all of their combinations.
#[test]
fn every_series_exists_before_the_first_event() {
    let gateway = over_the_mock();
    let first = exposition(&gateway);
    for (metric, count) in [
        ("requests_total", 7 * 10),
        ("iam_calls_total", 6 * 10),
        ("key_reloads_total", 2 * 2),
    ] {
        let begin = format!("auth_gateway_{metric}{{");
        let series = first.names().into_iter();
        let series = series.filter(|series| series.starts_with(&begin));
        assert_eq!(series.count(), count, "{metric}");
    }
    for series in first.names() {
        let metric = series.split('{').next().expect("a name");
        let counts = metric.ends_with("_total") || metric.ends_with("_count");
        // The first probe may have been made.
        let is_probe = series.contains("operation=\"probe\"");
        if counts && !is_probe && !metric.starts_with("process_") {
            assert_eq!(first.count(series), 0, "{series}");
        }
    }
    for purpose in ["signing", "sealing"] {
        let labels = format!("purpose=\"{purpose}\"");
        let keys = format!("auth_gateway_keys{{{labels}}}");
        assert_eq!(first.count(&keys), 1);
        let age = first.only("auth_gateway_key_age_seconds", &labels);
        assert!(age.contains("kid=\""), "{age}");
    }
    let version = format!("version=\"{}\"", auth_gateway::VERSION);
    first.only("auth_gateway_build_info", &version);
}

#[test]
fn content_type_and_format_of_the_metrics_match() {
    let gateway = over_the_mock();
    let answer = scrape(&gateway);
    let content_type = answer.header("content-type").expect("a content type");
    assert_eq!(
        content_type,
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    Exposition::parse(&answer.body);
}

#[test]
fn size_of_the_caches_follows_their_entries() {
    let gateway = over_the_mock();
    let of = |metric: &str, cache: &str| {
        let series = format!("auth_gateway_cache_{metric}{{cache=\"{cache}\"}}");
        exposition(&gateway).count(&series)
    };
    for email in [
        "alice@example.test",
        "bob@example.test",
        "alice@example.test",
    ] {
        let password = format!("{}-pass", email.split('@').next().expect("a name"));
        let (status, _) = send(
            &gateway,
            LOGIN,
            &json!({"email": email, "password": password}),
        );
        assert_eq!(status, 200);
    }
    assert_eq!(of("entries", "liveness"), 3);
    assert_eq!(of("entries", "permissions"), 2);
    for cache in ["liveness", "permissions"] {
        let (bytes, max) = (of("bytes", cache), of("max_bytes", cache));
        assert!(bytes > 100 * of("entries", cache), "{cache}: {bytes}");
        assert!(bytes < max, "{cache}: {bytes}");
    }
}

/// In seconds, without the time at which the system started: `starttime` of `proc_pid_stat(5)` is in hundredths
/// of a second since then, as is the uptime.
fn age_of_the_process() -> f64 {
    let uptime = std::fs::read_to_string("/proc/uptime").expect("an uptime");
    let uptime = uptime.split(' ').next().expect("a number");
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a process");
    // The name of the program, in parentheses, may have spaces. Member 22, and this begins with 3.
    let (_, members) = stat.rsplit_once(") ").expect("a name");
    let started = members.split(' ').nth(22 - 3).expect("a start");
    let number = |text: &str| text.parse::<f64>().expect("a number");
    number(uptime) - number(started) / 100.0
}

#[test]
fn metrics_of_the_process_are_those_of_the_system() {
    let gateway = over_the_mock();
    let exposition = exposition(&gateway);
    let value = |name: &str| exposition.value(name).parse::<f64>().expect("a number");
    let status = std::fs::read_to_string("/proc/self/status").expect("a process");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = resident.expect("VmRSS").trim().trim_end_matches(" kB");
    let resident = kibibytes.parse::<f64>().expect("a number") * 1024.0;
    let reported = value("process_resident_memory_bytes");
    assert!((0.5..2.0).contains(&(reported / resident)), "{reported}");
    assert!(value("process_virtual_memory_bytes") > reported);
    let cpu = value("process_cpu_seconds_total");
    assert!((0.0..100_000.0).contains(&cpu), "{cpu}");
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time");
    let age = now.as_secs_f64() - value("process_start_time_seconds");
    assert!((0.0..86_400.0).contains(&age), "{age}");
    let system_age = age_of_the_process();
    assert!((age - system_age).abs() < 2.0, "{age} {system_age}");
    let (open, max) = (value("process_open_fds"), value("process_max_fds"));
    assert!(open > 3.0 && open < max, "{open} {max}");
}

#[test]
fn number_of_series_is_independent_of_the_number_of_users() {
    let clock = Arc::new(SystemClock::default());
    let mut users = Users::default();
    let read: Permissions = [Permission::parse("read").expect("a name")]
        .into_iter()
        .collect();
    for number in 0..50 {
        let user = User::new(
            format!("user{number}@example.test"),
            "secret".into(),
            read.clone(),
        );
        users.add(user.expect("a user")).expect("a new one");
    }
    let (identity, lifetime) = (Identity::default(), Duration::from_secs(3600));
    let directory = Directory::new(identity, users, lifetime, clock.clone());
    let gateway = TestGateway::with_adapter(Arc::new(Mock::new(Arc::new(directory))), clock, &[]);
    let before = exposition(&gateway);
    let mut connection = Connection::to(gateway.addresses().public);
    for number in 0..50 {
        let login = json!({"email": format!("user{number}@example.test"), "password": "secret"});
        let session = connection
            .send(post(LOGIN, &login.to_string()))
            .answer()
            .json();
        let exchange = with(&session, &[EXCHANGE, ("scope", "read")]).to_string();
        let exchanged = connection.send(post(TOKEN, &exchange)).answer();
        assert_eq!(exchanged.status, 200, "{exchanged:?}");
        connection.send(get(&format!("/user/{number}"))).answer();
    }
    let after = exposition(&gateway);
    assert_eq!(after.names(), before.names());
    for (route, outcome) in [
        ("login", "ok"),
        ("token", "ok"),
        ("other", "invalid_request"),
    ] {
        assert_eq!(after.count(&requests(route, outcome)), 50);
    }
    let written = format!("{:?}", after.names());
    assert!(
        !written.contains("user") && !written.contains("example"),
        "{written}"
    );
}

#[test]
fn histogram_contains_every_request_of_its_route() {
    let gateway = over_the_mock();
    let alice = serde_json::from_str(ALICE).expect("JSON");
    for _ in 0..20 {
        send(&gateway, LOGIN, &alice);
        send(&gateway, LOGIN, &json!({}));
    }
    let exposition = exposition(&gateway);
    let of =
        |series: &str| format!("auth_gateway_request_duration_seconds_{series}{{route=\"login\"}}");
    assert_eq!(exposition.count(&of("count")), 40);
    let sum: f64 = exposition.value(&of("sum")).parse().expect("a number");
    assert!(sum > 0.0);
    assert_eq!(exposition.count(&requests("login", "ok")), 20);
    let calls = "auth_gateway_iam_call_duration_seconds_count{operation=\"login\",iam=\"mock\"}";
    assert_eq!(exposition.count(calls), 20);
}
