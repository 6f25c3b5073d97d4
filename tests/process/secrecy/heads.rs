//! Headers that contain secrets of clients, and malformed requests.

use serde_json::json;
use test_support::endpoints::LOGIN;
use test_support::secrecy::{EMAIL, PASSWORD, SecrecyFixture};
use test_support::wire::{fetch, get, post, with_header};

use crate::GATEWAY;

const BEARER: &str = "canary-bearer-token-0123";
const COOKIE: &str = "canary-cookie-0123";
const ADDRESS: &str = "canary-address-0123";

/// With every header that may contain a secret or the address of another client.
fn laden(request: &str) -> String {
    let headers = format!(
        "Authorization: Bearer {BEARER}\r\nProxy-Authorization: Basic {BEARER}\r\n\
         Cookie: session={COOKIE}\r\nX-Api-Key: {BEARER}\r\nX-Forwarded-For: {ADDRESS}, ::1\r\n\
         Forwarded: for={ADDRESS}\r\nX-Real-IP: {ADDRESS}\r\nReferer: https://{ADDRESS}/\r\n\
         User-Agent: {ADDRESS}\r\nx-request-id: {ADDRESS} {BEARER}"
    );
    with_header(&headers, request)
}

#[tokio::test(flavor = "multi_thread")]
async fn header_values_are_never_written() {
    // From a trusted proxy, so that forwarded addresses are read.
    let trusted = [("http.trusted_proxies", "127.0.0.0/8")];
    let mut fixture = SecrecyFixture::start(GATEWAY, 1, &trusted).await;
    for (what, canary) in [
        ("a bearer token", BEARER),
        ("a cookie", COOKIE),
        ("a forwarded address that is none", ADDRESS),
    ] {
        fixture.add_secret(what, canary);
    }
    fixture.log_in(PASSWORD, 200);
    let login = json!({"email": EMAIL, "password": PASSWORD}).to_string();
    let whole = post(LOGIN, &login);
    let large = format!("{login}{}", " ".repeat(100_000));
    let long = "x".repeat(200_000);
    for (request, status) in [
        (whole.clone(), 200),
        (get(&format!("/{COOKIE}?access_token={BEARER}")), 404),
        (get(&format!("{LOGIN}/../{COOKIE}")), 404),
        (
            format!("DELETE {LOGIN} HTTP/1.1\r\nHost: {ADDRESS}\r\n\r\n"),
            405,
        ),
        (post(LOGIN, &large), 413),
        (whole.replace("application/json", COOKIE), 415),
        (with_header("Content-Length: 1", &whole), 400),
        (with_header(COOKIE, &whole), 400),
        (with_header(&format!("X: {COOKIE}\u{1}"), &whole), 400),
        (whole.replace("HTTP/1.1", COOKIE), 400),
        (with_header(&format!("X: {long}"), &whole), 431),
        (with_header(&["X: y"; 200].join("\r\n"), &whole), 431),
    ] {
        let answer = fixture.connect(0).send(laden(&request)).answer();
        assert_eq!(answer.status, status, "{request:.300}: {answer:?}");
        fixture.record(&answer);
    }
    // Incomplete in the head and in the body, and another protocol.
    let laden = laden(&whole);
    for text in [
        &laden[..200],
        &laden[..laden.len() - 1],
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut connection = fixture.connect(0);
        connection.send(text).finish();
        let rest = String::from_utf8_lossy(&connection.rest()).into_owned();
        fixture.record_text(rest);
    }
    // The management listener.
    let (_, management) = fixture.replicas[0].addresses();
    for request in [
        laden_get("/health/ready"),
        laden_get(&format!("/metrics?access_token={BEARER}")),
        laden_get(&format!("/{COOKIE}")),
        format!("{COOKIE} no HTTP\r\n\r\n"),
    ] {
        let answer = fetch(management, request);
        fixture.record_text(format!("{answer:?}"));
    }
    fixture.end();
}

fn laden_get(path: &str) -> String {
    laden(&get(path))
}
