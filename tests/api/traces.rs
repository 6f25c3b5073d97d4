//! The spans of requests, as a receiver of OTLP gets them, and `traceparent`.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::json;
use test_support::ManualClock;
use test_support::client::Session;
use test_support::endpoints::{LOGIN, TOKEN};
use test_support::gateway::{TestGateway, manual_clock, scripted_keycloak_settings};
use test_support::scripted_upstream::keycloak::{
    CLIENT, INTROSPECTION, LOGOUT, SUBJECT, TOKEN as GRANT, active, inactive, refresh_token,
};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};
use test_support::spans::{self, ExportedSpan, tree};
use test_support::wait::{until, until_ok};

const EMAIL: &str = "alice@example.test";
const PASSWORD: &str = "correct horse battery staple";

/// The trace of a client or a proxy, and its span.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// For gateways whose tests are clients behind a trusted proxy.
const TRUSTED: (&str, &str) = ("http.trusted_proxies", "127.0.0.1");

/// A gateway in front of a Keycloak, and the receiver of its spans.
struct TraceFixture {
    keycloak: ScriptedUpstream,
    collector: ScriptedUpstream,
    clock: Arc<ManualClock>,
    gateway: TestGateway,
}

impl TraceFixture {
    async fn new(settings: &[(&str, &str)]) -> Self {
        let keycloak = ScriptedUpstream::keycloak().await;
        // The first probe introspects an invalid token.
        keycloak.once(INTROSPECTION, inactive());
        let collector = ScriptedUpstream::start().await;
        collector.on(spans::PATH, Answer::empty(200));
        let (url, endpoint) = (keycloak.url(), collector.url());
        let iam = scripted_keycloak_settings(&url);
        let traces = [
            ("traces.endpoint", endpoint.as_str()),
            ("upstream.probe_interval", "1h"),
        ];
        let clock = manual_clock();
        let all = [&iam[..], &traces, settings].concat();
        let gateway = TestGateway::start_with_clock(Arc::<ManualClock>::clone(&clock), &all);
        // The probe has fetched the discovery document, which a login would fetch otherwise.
        gateway.wait_for_readiness("ready", &[]).await;
        Self {
            keycloak,
            collector,
            clock,
            gateway,
        }
    }

    async fn log_in(&self) -> Session {
        let password = SecretString::from(PASSWORD);
        self.gateway.log_in(EMAIL, &password).await.session()
    }

    /// The status of a login with this header, and a list in two headers.
    async fn log_in_with(&self, traceparent: &str) -> u16 {
        let body = json!({ "email": EMAIL, "password": PASSWORD });
        let headers = [
            ("traceparent", traceparent),
            ("tracestate", "vendor=value"),
            ("tracestate", "other=2"),
        ];
        let response = self.gateway.post(LOGIN, &headers, body.to_string()).await;
        response.status
    }

    fn exported(&self) -> Vec<ExportedSpan> {
        spans::exported(&self.collector)
    }

    /// The spans of the trace that contains the span with this name, once all of them have ended.
    async fn trace_of(&self, name: &str, count: usize) -> Vec<ExportedSpan> {
        spans::trace_of(&self.collector, |span| span.name == name, count).await
    }

    /// `traceparent` of the last request to a path of the IAM.
    fn sent_to(&self, path: &str) -> Option<String> {
        let requests = self.keycloak.requests_to(path);
        requests.last().expect("a request").header("traceparent")
    }
}

fn span<'a>(spans: &'a [ExportedSpan], name: &str) -> &'a ExportedSpan {
    let mut of_name = spans.iter().filter(|span| span.name == name);
    of_name.next().unwrap_or_else(|| panic!("no {name}"))
}

fn attribute<'a>(span: &'a ExportedSpan, name: &str) -> &'a str {
    span.attributes.get(name).map_or("", String::as_str)
}

#[tokio::test]
async fn login_exchange_and_logout_have_a_span_for_each_call_to_the_iam() {
    let fixture = TraceFixture::new(&[("traces.sample_ratio", "1")]).await;
    let session = fixture.log_in().await;
    fixture.outlive_freshness_of(&session).await;
    let logged_out = fixture.gateway.log_out(&session).await;
    assert_eq!(logged_out.status, 200);

    let login = fixture.trace_of("POST /api/v1/auth/login", 4).await;
    let expected = [
        "0 POST /api/v1/auth/login Server",
        "1 iam login Internal",
        "2 POST Client",
        "2 POST Client",
    ];
    assert_eq!(tree(&login), expected);
    let exchange = fixture.trace_of("POST /api/v1/auth/token", 4).await;
    let expected = [
        "0 POST /api/v1/auth/token Server",
        "1 introspection Internal",
        "2 iam introspection Internal",
        "3 POST Client",
    ];
    assert_eq!(tree(&exchange), expected);
    let logout = fixture.trace_of("POST /api/v1/auth/logout", 3).await;
    let expected = [
        "0 POST /api/v1/auth/logout Server",
        "1 iam logout Internal",
        "2 POST Client",
    ];
    assert_eq!(tree(&logout), expected);

    let server = span(&exchange, "POST /api/v1/auth/token");
    for (name, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/api/v1/auth/token"),
        ("http.response.status_code", "200"),
        ("auth_gateway.outcome", "ok"),
        ("auth_gateway.cache", "miss"),
        ("iam.name", "keycloak"),
    ] {
        assert_eq!(attribute(server, name), value, "{name}");
    }
    let client = span(&exchange, "POST");
    let url = format!("{}{INTROSPECTION}", fixture.keycloak.url());
    for (name, value) in [
        ("url.full", url.as_str()),
        ("server.address", "127.0.0.1"),
        ("http.response.status_code", "200"),
    ] {
        assert_eq!(attribute(client, name), value, "{name}");
    }
    let sent = format!("00-{}-{}-01", client.trace_id, client.span_id);
    assert_eq!(fixture.sent_to(INTROSPECTION), Some(sent));
    assert_eq!(server.resource["service.name"], "auth-gateway");
    assert_eq!(
        server.resource["service.version"],
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(server.resource["service.instance.id"].len(), 32);
}

impl TraceFixture {
    /// Makes cached data stale, and exchanges the session.
    async fn outlive_freshness_of(&self, session: &Session) {
        // Within the session's lifetime at the IAM, and beyond the freshness.
        self.clock.advance(Duration::from_secs(120));
        let exchanged = self.gateway.exchange(session, "").await;
        assert_eq!(exchanged.status, 200, "{}", exchanged.text());
    }
}

#[tokio::test]
async fn spans_contain_no_secret_and_no_personal_data() {
    let fixture = TraceFixture::new(&[("traces.sample_ratio", "1"), TRUSTED]).await;
    let session = fixture.log_in().await;
    fixture.outlive_freshness_of(&session).await;
    let with = [
        ("x-forwarded-for", "203.0.113.77"),
        ("x-request-id", "canary-id"),
    ];
    let nowhere = fixture.gateway.get("/nowhere-canary?q=canary", &with).await;
    assert_eq!(nowhere.status, 404);
    fixture.trace_of("GET", 1).await;
    let exports = fixture.collector.requests_to(spans::PATH);
    let all: Vec<u8> = exports
        .iter()
        .flat_map(|export| export.body.clone())
        .collect();
    let refresh = refresh_token(CLIENT);
    let pair = session.pair();
    let id = pair["session_id"].as_str().expect("an id");
    let token = pair["session_token"].as_str().expect("a token");
    for secret in [
        EMAIL,
        PASSWORD,
        &refresh,
        id,
        token,
        SUBJECT,
        "203.0.113.77",
        "canary",
        "a-secret-of-the-client",
    ] {
        let found = all
            .windows(secret.len())
            .any(|part| part == secret.as_bytes());
        assert!(!found, "{secret}");
    }
}

#[tokio::test]
async fn traceparent_of_a_trusted_proxy_is_continued_although_the_ratio_is_zero() {
    let fixture = TraceFixture::new(&[("traces.sample_ratio", "0"), TRUSTED]).await;
    assert_eq!(
        fixture
            .log_in_with(&format!("00-{TRACE}-{PARENT}-01"))
            .await,
        200
    );
    let spans = fixture.trace_of("POST /api/v1/auth/login", 4).await;
    let server = span(&spans, "POST /api/v1/auth/login");
    assert_eq!(
        (server.trace_id.as_str(), server.parent_id.as_str()),
        (TRACE, PARENT)
    );
    let sent = fixture.sent_to(GRANT).expect("a header");
    assert!(
        sent.starts_with(&format!("00-{TRACE}-")) && sent.ends_with("-01"),
        "{sent}"
    );
    assert!(!sent.contains(PARENT), "{sent}");
    let requests = fixture.keycloak.requests_to(GRANT);
    assert_eq!(
        requests
            .last()
            .expect("a login")
            .header("tracestate")
            .as_deref(),
        Some("vendor=value,other=2")
    );
}

#[tokio::test]
async fn traceparent_of_a_client_that_is_no_trusted_proxy_is_ignored() {
    for (ratio, sampled) in [("0", false), ("1", true)] {
        let fixture = TraceFixture::new(&[("traces.sample_ratio", ratio)]).await;
        assert_eq!(
            fixture
                .log_in_with(&format!("00-{TRACE}-{PARENT}-01"))
                .await,
            200
        );
        let sent = fixture.sent_to(GRANT).expect("a header");
        assert!(!sent.contains(TRACE), "{sent}");
        assert_eq!(sent.ends_with("-01"), sampled, "{sent}");
        let requests = fixture.keycloak.requests_to(GRANT);
        assert_eq!(requests.last().expect("a login").header("tracestate"), None);
        if sampled {
            let spans = fixture.trace_of("POST /api/v1/auth/login", 4).await;
            assert_ne!(spans[0].trace_id, TRACE);
            assert_eq!(span(&spans, "POST /api/v1/auth/login").parent_id, "");
        }
    }
}

#[tokio::test]
async fn request_that_a_proxy_does_not_sample_has_no_span_and_keeps_its_ids() {
    let fixture = TraceFixture::new(&[("traces.sample_ratio", "1"), TRUSTED]).await;
    let unsampled = format!("00-{TRACE}-{PARENT}-00");
    assert_eq!(fixture.log_in_with(&unsampled).await, 200);
    assert_eq!(fixture.sent_to(GRANT), Some(unsampled));
    // A later request is sampled, and its spans are exported after those of an earlier one.
    fixture.gateway.get("/openapi.yaml", &[]).await;
    fixture.trace_of("GET /openapi.yaml", 1).await;
    assert_eq!(fixture.exported().len(), 1);
}

#[tokio::test]
async fn iam_gets_no_traceparent_if_traces_are_off() {
    let keycloak = ScriptedUpstream::keycloak().await;
    let url = keycloak.url();
    let settings = [&scripted_keycloak_settings(&url)[..], &[TRUSTED]].concat();
    let gateway = TestGateway::start(&settings);
    let body = json!({ "email": EMAIL, "password": PASSWORD }).to_string();
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [("traceparent", traceparent.as_str())];
    assert_eq!(gateway.post(LOGIN, &headers, body).await.status, 200);
    assert_eq!(keycloak.requests_to(GRANT)[0].header("traceparent"), None);
}

#[tokio::test]
async fn exchange_that_joins_an_introspection_in_flight_links_to_its_span() {
    let fixture = TraceFixture::new(&[("traces.sample_ratio", "0"), TRUSTED]).await;
    let session = fixture.log_in().await;
    fixture.clock.advance(Duration::from_secs(120));
    let introspections = fixture.keycloak.requests_to(INTROSPECTION).len();
    fixture
        .keycloak
        .once(INTROSPECTION, Answer::json(200, active()).held());
    let mut body = session.pair();
    body["grant_type"] = json!("session");
    let exchange = async |trace: &str| {
        let traceparent = format!("00-{trace}-{PARENT}-01");
        let headers = [("traceparent", traceparent.as_str())];
        fixture
            .gateway
            .post(TOKEN, &headers, body.to_string())
            .await
            .status
    };
    let other = "5bf92f3577b34da6a3ce929d0e0e4736";
    let second = async {
        fixture
            .keycloak
            .received(INTROSPECTION, introspections + 1)
            .await;
        let second = exchange(other);
        let release = async {
            // Both requests are on one worker. The second has joined when it has its response, so the
            // first is released when the second was sent.
            until("the second exchange to wait", async || {
                fixture.gateway.get("/openapi.yaml", &[]).await.status == 200
            })
            .await;
            fixture.keycloak.release();
        };
        tokio::join!(second, release).0
    };
    assert_eq!(tokio::join!(exchange(TRACE), second), (200, 200));
    let of = async |trace: &str, count| {
        spans::trace_of(&fixture.collector, |span| span.trace_id == trace, count).await
    };
    let (first, second) = (of(TRACE, 4).await, of(other, 2).await);
    let joined = span(&second, "introspection");
    assert_eq!(
        joined.links,
        [span(&first, "introspection").span_id.clone()]
    );
    assert_eq!(attribute(joined, "auth_gateway.cache"), "coalesced");
}

#[tokio::test]
async fn failed_export_fails_no_request_and_its_spans_are_counted() {
    let fixture = TraceFixture::new(&[("traces.sample_ratio", "1")]).await;
    fixture.collector.on(spans::PATH, Answer::empty(503));
    fixture.log_in().await;
    until("failed spans", async || {
        fixture.gateway.metric("spans_total", "failed").await == 4
    })
    .await;
    fixture.collector.on(spans::PATH, Answer::empty(200));
    fixture.log_in().await;
    until("exported spans", async || {
        fixture.gateway.metric("spans_total", "exported").await == 4
    })
    .await;
    assert_eq!(fixture.gateway.metric("spans_total", "failed").await, 4);
    // `partial_success { rejected_spans: 3 }`.
    let partial = Answer::text(200, "application/x-protobuf", "\x0a\x02\x08\x03");
    fixture.collector.on(spans::PATH, partial);
    fixture.log_in().await;
    until("rejected spans", async || {
        fixture.gateway.metric("spans_total", "exported").await == 5
    })
    .await;
    assert_eq!(fixture.gateway.metric("spans_total", "failed").await, 7);
}

#[tokio::test]
async fn fault_of_the_iam_is_an_error_of_its_span_and_a_wrong_password_is_none() {
    let fixture = TraceFixture::new(&[("traces.sample_ratio", "1")]).await;
    let session = fixture.log_in().await;
    fixture.keycloak.on(LOGOUT, Answer::empty(503));
    assert_eq!(fixture.gateway.log_out(&session).await.status, 500);
    let spans = fixture.trace_of("POST /api/v1/auth/logout", 3).await;
    let failed: Vec<_> = spans
        .iter()
        .map(|span| (span.is_error, attribute(span, "error.type")))
        .collect();
    assert!(failed.iter().all(|(is_error, _)| *is_error), "{spans:?}");
    assert_eq!(
        attribute(span(&spans, "iam logout"), "error.type"),
        "failed"
    );
    assert_eq!(attribute(span(&spans, "POST"), "error.type"), "503");

    let refused = Answer::json(
        401,
        json!({
            "error": "invalid_grant", "error_description": "Invalid user credentials",
        }),
    );
    fixture.keycloak.on(GRANT, refused);
    let password = SecretString::from("wrong");
    let refused = fixture.gateway.log_in("bob@example.test", &password).await;
    assert_eq!(refused.status, 401);
    let outcome = until_ok("the refused login", async || {
        let all = fixture.exported();
        let found = all
            .iter()
            .find(|span| attribute(span, "iam.outcome") == "refused");
        found.map(|span| span.is_error).ok_or(all.len())
    });
    assert!(!outcome.await);
}

#[tokio::test]
async fn headers_of_the_settings_are_sent_to_the_collector() {
    let headers = "authorization=Bearer%20canary-token,x-tenant=shop";
    let settings = [("traces.sample_ratio", "1"), ("traces.headers", headers)];
    let fixture = TraceFixture::new(&settings).await;
    fixture.log_in().await;
    fixture.collector.received(spans::PATH, 1).await;
    let export = &fixture.collector.requests_to(spans::PATH)[0];
    for (name, value) in [
        ("authorization", "Bearer canary-token"),
        ("x-tenant", "shop"),
        ("content-type", "application/x-protobuf"),
    ] {
        assert_eq!(export.header(name).as_deref(), Some(value));
    }
}
