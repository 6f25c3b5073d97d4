use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use actix_web::http::header;
use actix_web::test::{TestRequest, call_service, init_service, read_body_json};
use iam_adapters::clock::SystemClock;
use iam_adapters::{Clock as _, IamAdapter, IamError, Scope};
use serde_json::{Value, json};
use test_support::LogoutSigner;
use test_support::scripted_iam::{CLIENT, ScriptedIam};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{self, SubscriberExt as _};

use super::*;
use crate::health::Lifecycle;
use crate::startup::{self, ServiceDependencies};
use crate::{config, http};

fn app_state(lifecycle: &Lifecycle) -> Data<AppState> {
    app_state_with(lifecycle, iam())
}

fn iam() -> ScriptedIam {
    ScriptedIam {
        signer: LogoutSigner::generate(),
        ..ScriptedIam::default()
    }
}

fn app_state_with(lifecycle: &Lifecycle, iam: ScriptedIam) -> Data<AppState> {
    let (variables, registry) = (BTreeMap::new(), config::sample::registry());
    let clock = Arc::new(SystemClock::default());
    let loaded = ServiceDependencies::load(None, &variables, &registry, clock);
    let (settings, parts) = loaded.expect("parts");
    let parts = ServiceDependencies {
        lifecycle: lifecycle.clone(),
        ..parts
    };
    let iam: Arc<dyn IamAdapter> = Arc::new(iam);
    parts.iams[0].store(Arc::new(iam));
    Data::new(startup::connect(&settings, &parts))
}

/// The levels of the lines of requests.
#[derive(Clone, Default)]
struct Levels(Arc<Mutex<Vec<Level>>>);

impl<S: Subscriber> Layer<S> for Levels {
    fn on_event(&self, event: &Event<'_>, _: layer::Context<'_, S>) {
        if event.metadata().target() == "auth_gateway::request" {
            self.0
                .lock()
                .expect("a lock")
                .push(*event.metadata().level());
        }
    }
}

#[actix_web::test]
async fn draining_gateway_refuses_operations_and_closes_their_connections() {
    let lifecycle = Lifecycle::default();
    let app_state = app_state(&lifecycle);
    let levels = Levels::default();
    let subscriber = tracing_subscriber::registry().with(levels.clone());
    let _subscriber = test_support::log::capture(subscriber);
    let app = http::app(app_state.clone()).configure(http::public);
    let app = init_service(app).await;
    let call = async |uri| {
        let request = TestRequest::post().uri(uri).to_request();
        call_service(&app, request).await
    };
    assert_eq!(call("/api/v1/auth/token").await.status(), 415);

    lifecycle.begin_shutdown();
    assert_eq!(call("/api/v1/auth/token").await.status(), 415, "not yet");

    lifecycle.drain();
    for uri in [
        "/api/v1/auth/login",
        "/api/v1/auth/token",
        "/api/v1/auth/logout",
        "/api/v1/auth/backchannel-logout",
    ] {
        let response = call(uri).await;
        assert_eq!(response.status(), 503, "{uri}");
        assert!(response.headers().contains_key(header::RETRY_AFTER));
        assert!(!response.response().head().keep_alive());
    }
    assert_eq!(call("/openapi.yaml").await.status(), 405, "no operation");
    let shed = &app_state.metrics.families.shed;
    let draining = shed.get_or_create(&[("reason", "draining")]);
    assert_eq!(draining.get(), 4);
    drop(draining);
    assert_eq!(*levels.0.lock().expect("a lock"), [Level::INFO; 7]);
}

#[actix_web::test]
async fn session_whose_logout_a_draining_gateway_refuses_is_still_exchanged() {
    let lifecycle = Lifecycle::default();
    let app_state = app_state(&lifecycle);
    let app = http::app(app_state.clone()).configure(http::public);
    let app = init_service(app).await;
    let call = async |uri, body: &Value| {
        let request = TestRequest::post().uri(uri).set_json(body);
        call_service(&app, request.to_request()).await
    };
    let credentials = json!({"email": "alice@iam.test", "password": "alice-pass"});
    let response = call("/api/v1/auth/login", &credentials).await;
    let session: Value = read_body_json(response).await;

    lifecycle.drain();
    let response = call("/api/v1/auth/logout", &session).await;
    assert_eq!(response.status(), 503);
    let [id, token] =
        ["session_id", "session_token"].map(|name| session[name].as_str().expect("text"));
    let request = RequestContext::default();
    let exchanged = (app_state.gateway)
        .exchange(&request, id, token, Scope::EMPTY)
        .await;
    assert!(exchanged.is_ok(), "{exchanged:?}");
}

#[actix_web::test]
async fn logout_tokens_of_a_limited_sender_are_not_in_the_log() {
    let levels = Levels::default();
    let subscriber = tracing_subscriber::registry().with(levels.clone());
    let _subscriber = test_support::log::capture(subscriber);
    let app = http::app(app_state(&Lifecycle::default())).configure(http::public);
    let app = init_service(app).await;
    let mut statuses = Vec::new();
    for _ in 0..52 {
        let request = TestRequest::post()
            .uri("/api/v1/auth/backchannel-logout")
            .peer_addr(([203, 0, 113, 9], 1024).into())
            .set_form([("logout_token", "not.a.token")]);
        let response = call_service(&app, request.to_request()).await;
        statuses.push(response.status().as_u16());
    }
    assert_eq!(statuses, [[400; 50].as_slice(), &[429; 2]].concat());
    let expected = [[Level::INFO; 50].as_slice(), &[Level::DEBUG; 2]].concat();
    assert_eq!(*levels.0.lock().expect("a lock"), expected);
}

/// A session may go on meanwhile.
#[actix_web::test]
async fn logout_token_that_a_throttling_iam_prevents_is_in_the_log() {
    let levels = Levels::default();
    let subscriber = tracing_subscriber::registry().with(levels.clone());
    let _subscriber = test_support::log::capture(subscriber);
    let iam = iam();
    iam.set_outage(Some(IamError::Throttled { retry_after: None }));
    let parties = (iam.issuer, CLIENT);
    let now = SystemClock::default().now().unix_seconds();
    let signer = iam.signer.as_ref().expect("a key");
    let token = signer.logout_token(parties, Some("alice"), None, now);
    let app = http::app(app_state_with(&Lifecycle::default(), iam)).configure(http::public);
    let app = init_service(app).await;
    let request = TestRequest::post()
        .uri("/api/v1/auth/backchannel-logout")
        .set_form([("logout_token", token.expect("a token"))]);
    let response = call_service(&app, request.to_request()).await;
    assert_eq!(response.status(), 429);
    assert_eq!(*levels.0.lock().expect("a lock"), [Level::INFO]);
}

const PROXY: &str = "10.0.0.1";

/// The client's address, where the proxies in 10.0.0.0/8 and `fd00::/8` are trusted.
fn client(peer: &str, headers: &[(&str, &str)]) -> String {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::try_from(*name).unwrap();
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        map.append(name, value);
    }
    let peer = peer.parse::<IpAddr>().unwrap().into();
    let trusted_proxies = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap());
    let forwarded = map.get_all(X_FORWARDED_FOR);
    behind_proxies(peer, forwarded.map(HeaderValue::as_bytes), &trusted_proxies).to_string()
}

/// Values of `X-Forwarded-For` from a trusted proxy, and the resulting client.
fn forms() -> Vec<(Vec<String>, &'static str)> {
    let long = vec!["198.51.100.7"; 300].join(", ");
    let proxies = vec!["10.1.1.1"; 400].join(",");
    let (long, proxies) = (long.as_str(), proxies.as_str());
    let endless: [&[&str]; 3] = [&[long], &["203.0.113.9", proxies], &[proxies]];
    let forms: Vec<(&[&str], &str)> = vec![
        (&[], PROXY),
        (&["203.0.113.9"], "203.0.113.9"),
        // The client can write anything to the left.
        (&["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
        (&["127.0.0.1, 203.0.113.9"], "203.0.113.9"),
        (&["10.0.0.1, 203.0.113.9"], "203.0.113.9"),
        (&["unknown, 203.0.113.9"], "203.0.113.9"),
        (&["<script>, ,,; 203.0.113.9, 203.0.113.9"], "203.0.113.9"),
        (&["é, 203.0.113.9"], "203.0.113.9"),
        // Several headers are one list.
        (&["1.1.1.1", "203.0.113.9"], "203.0.113.9"),
        (&["203.0.113.9", "10.9.9.9,10.8.8.8"], "203.0.113.9"),
        // A chain of proxies.
        (&["203.0.113.9, 10.9.9.9"], "203.0.113.9"),
        (&["203.0.113.9,\t10.9.9.9 ,10.8.8.8"], "203.0.113.9"),
        (&["10.7.7.7, 10.9.9.9"], "10.7.7.7"),
        // The relevant hop is invalid.
        (&[""], PROXY),
        (&[" "], PROXY),
        (&["203.0.113.9,"], PROXY),
        (&["203.0.113.9, , 10.9.9.9"], PROXY),
        (&["unknown"], PROXY),
        (&["_hidden"], PROXY),
        (&["203.0.113.9, unknown"], PROXY),
        (&["203.0.113.9, é"], PROXY),
        (&["203.0.113.9", ""], PROXY),
        (&["203.0.113.9 198.51.100.7"], PROXY),
        (&["203.0.113"], PROXY),
        (&["203.0.113.256"], PROXY),
        (&["0xcb.0.113.9"], PROXY),
        (&["3405803785"], PROXY),
        (&["0203.0.113.9"], PROXY),
        (&["203.0.113.9/32"], PROXY),
        (&["\"203.0.113.9\""], PROXY),
        (&["for=203.0.113.9"], PROXY),
        (&["localhost"], PROXY),
        // Ports and brackets.
        (&["203.0.113.9:4711"], "203.0.113.9"),
        (&["1.1.1.1:1, 203.0.113.9:4711, 10.9.9.9:80"], "203.0.113.9"),
        (&["[2001:db8::7]:4711"], "2001:db8::7"),
        (&["203.0.113.9:"], PROXY),
        (&["203.0.113.9:65536"], PROXY),
        (&["203.0.113.9:http"], PROXY),
        // IPv6.
        (&["2001:db8::7"], "2001:db8::7"),
        (&["2001:DB8:0::7, fd00::1"], "2001:db8::7"),
        (&["::ffff:203.0.113.9"], "203.0.113.9"),
        (&["203.0.113.9, ::ffff:10.9.9.9"], "203.0.113.9"),
        (&["fe80::1%eth0"], PROXY),
        (&["fe80::1%1"], PROXY),
        (&["[fe80::1%1]:80"], PROXY),
        // A loopback address from a trusted proxy is the client.
        (&["127.0.0.1"], "127.0.0.1"),
        (&["::1"], "::1"),
        // 4 KiB.
        (endless[0], "198.51.100.7"),
        (endless[1], "203.0.113.9"),
        (endless[2], "10.1.1.1"),
    ];
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    forms
        .into_iter()
        .map(|(lines, client)| (owned(lines), client))
        .collect()
}

fn named<'a>(name: &'a str, lines: &'a [String]) -> Vec<(&'a str, &'a str)> {
    lines.iter().map(|line| (name, line.as_str())).collect()
}

#[test]
fn client_is_the_right_most_hop_that_is_no_trusted_proxy() {
    for (lines, expected) in forms() {
        let headers = named("X-Forwarded-For", &lines);
        assert_eq!(client(PROXY, &headers), expected, "{lines:?}");
    }
}

#[test]
fn forwarding_header_of_an_untrusted_peer_is_ignored() {
    for (lines, _) in forms() {
        let headers = named("x-forwarded-for", &lines);
        for peer in ["192.0.2.1", "2001:db8::1", "127.0.0.1", "::1"] {
            assert_eq!(client(peer, &headers), peer, "{lines:?}");
        }
    }
}

#[test]
fn other_forwarding_headers_are_ignored() {
    for name in [
        "X_Forwarded_For",
        "X-Forwarded_For",
        "X_FORWARDED-FOR",
        "Forwarded",
        "X-Forwarded",
        "X-Real-IP",
        "X-Client-IP",
        "Client-IP",
        "True-Client-IP",
        "CF-Connecting-IP",
        "Forwarded-For",
        "Via",
    ] {
        let spoofed = [(name, "127.0.0.1")];
        assert_eq!(client(PROXY, &spoofed), PROXY, "{name}");
        let beside = [(name, "127.0.0.1"), ("x-forwarded-for", "203.0.113.9")];
        assert_eq!(client(PROXY, &beside), "203.0.113.9", "{name}");
    }
}
