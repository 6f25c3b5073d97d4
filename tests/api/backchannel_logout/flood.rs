//! Many forged logout tokens, and a genuine one among them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use std::sync::Arc;

use arc_swap::ArcSwap;
use auth_gateway::startup::ServiceDependencies;
use test_support::client::Response;
use test_support::endpoints::BACKCHANNEL_LOGOUT;
use test_support::gateway::{TestGateway, manual_clock, prepare};
use test_support::suite::IamFixture;
use test_support::wire::{Connection, chunked, form};

use super::{FORM, LogoutFixture};
use crate::metrics::exposition;

/// Every client is a trusted proxy, so the tests choose the client addresses.
const BEHIND_A_PROXY: [(&str, &str); 1] = [("http.trusted_proxies", "127.0.0.0/8")];

const IAM: &str = "192.0.2.1";
const FORGER: &str = "203.0.113.9";

impl LogoutFixture {
    async fn tell_from(&self, address: &str, token: &str) -> Response {
        let headers = [("content-type", FORM), ("x-forwarded-for", address)];
        let body = format!("logout_token={token}");
        self.gateway.post(BACKCHANNEL_LOGOUT, &headers, body).await
    }

    /// Sends this number of forged tokens from one address; counts the response statuses.
    async fn flood_from(&self, address: &str, count: usize) -> BTreeMap<u16, usize> {
        let genuine = self.token().await;
        let (claims, _) = genuine.rsplit_once('.').expect("a compact JWS");
        let mut statuses = BTreeMap::new();
        for _ in 0..count {
            let forged = format!("{claims}.{}", "A".repeat(86));
            let answer = self.tell_from(address, &forged).await;
            if answer.status == 429 {
                answer.is_error(429, "temporarily_unavailable");
                assert_eq!(answer.header("retry-after"), "10");
            }
            *statuses.entry(answer.status).or_default() += 1;
        }
        statuses
    }

    fn key_fetches(&self) -> u64 {
        let (exposition, label) = (
            exposition(&self.gateway),
            "operation=\"keys\",outcome=\"ok\"",
        );
        exposition.count(exposition.only("auth_gateway_iam_calls_total", label))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn address_with_too_many_forged_logout_tokens_is_limited_and_the_iam_is_not() {
    let fixture = LogoutFixture::with(&BEHIND_A_PROXY).await;
    let session = fixture.log_in().await;
    let flood = fixture.flood_from(FORGER, 300).await;
    assert_eq!(flood, [(400, 50), (429, 250)].into());
    // Tokens of a limited address are not read, not even valid ones.
    let token = fixture.token().await;
    let answer = fixture.tell_from(FORGER, &token).await;
    answer.is_error(429, "temporarily_unavailable");
    fixture.is_active(&session).await;
    assert_eq!(fixture.tell_from(IAM, &token).await.status, 200);
    fixture.is_over(&session).await;
    fixture.iam.advance(10);
    let flood = fixture.flood_from(FORGER, 60).await;
    assert_eq!(flood, [(400, 50), (429, 10)].into());
    assert_eq!(fixture.key_fetches(), 1, "the IAM receives no further call");
}

fn forged_token() -> String {
    form(BACKCHANNEL_LOGOUT, "logout_token=a.b.c")
}

/// Sends forged tokens until the address is limited.
fn limit(connection: &mut Connection<TcpStream>) {
    let request = forged_token();
    let statuses: Vec<_> = (0..53)
        .map(|_| connection.send(&request).answer().status)
        .collect();
    assert_eq!(statuses, [[400; 50].as_slice(), &[429; 3]].concat());
}

/// A new connection for each token would cost more than its refusal.
#[test]
fn connection_with_too_many_forged_logout_tokens_stays_open() {
    let gateway = IamFixture::in_memory().gateway();
    let mut connection = Connection::to(gateway.addresses().public);
    limit(&mut connection);
    let request = forged_token();
    // By its head: the handler would refuse the media type.
    let plain = request.replace(FORM, "text/plain");
    assert_eq!(connection.send(plain).answer().status, 429);
    // It has the same response whether it is refused by its head or by its handler: with an absolute target, or with a
    // body that the head does not measure.
    let absolute = request.replace(
        BACKCHANNEL_LOGOUT,
        &format!("http://localhost{BACKCHANNEL_LOGOUT}"),
    );
    let (head, body) = request
        .split_once("Content-Length: 18\r\n\r\n")
        .expect("a length");
    let chunked = format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n{}",
        chunked(body, 9)
    );
    let responses = [request.as_str(), &absolute, &chunked].map(|request| {
        let answer = connection.send(request).answer();
        let id = answer.header("x-request-id").expect("an id").to_owned();
        let names = answer.headers.iter().map(|(name, _)| name.clone());
        let kept =
            ["cache-control", "content-type"].map(|name| answer.header(name).map(str::to_owned));
        (
            answer.status,
            names.collect::<BTreeSet<_>>(),
            kept,
            answer.body.replace(&id, ""),
        )
    });
    assert_eq!(responses[0].0, 429);
    assert_eq!([&responses[1], &responses[2]], [&responses[0]; 2]);
}

#[test]
fn management_listener_has_no_path_for_logout_tokens_of_a_limited_sender_either() {
    let gateway = IamFixture::in_memory().gateway();
    limit(&mut Connection::to(gateway.addresses().public));
    let mut connection = Connection::to(gateway.addresses().management);
    assert_eq!(connection.send(forged_token()).answer().status, 404);
}

#[test]
fn draining_gateway_refuses_a_limited_sender_as_any_other() {
    let (settings, prepared) = prepare(None, &[], manual_clock());
    let lifecycle = prepared.lifecycle.clone();
    let iam = IamFixture::in_memory().administrator.adapter();
    let gateway = TestGateway::from_parts(
        settings,
        ServiceDependencies {
            iams: vec![Arc::new(ArcSwap::from_pointee(iam))],
            ..prepared
        },
    );
    let mut connection = Connection::to(gateway.addresses().public);
    limit(&mut connection);
    lifecycle.drain();
    assert_eq!(connection.send(forged_token()).answer().status, 503);
    let exposition = exposition(&gateway);
    let shed = "auth_gateway_shed_total{reason=\"draining\"}";
    assert_eq!(exposition.count(shed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn logout_tokens_of_the_iam_are_accepted_from_an_address_that_also_sends_forgeries() {
    let fixture = LogoutFixture::with(&BEHIND_A_PROXY).await;
    let token = fixture.token().await;
    assert_eq!(fixture.tell_from(IAM, &token).await.status, 200);
    fixture.iam.advance(1);
    let session = fixture.log_in().await;
    let flood = fixture.flood_from(IAM, 200).await;
    assert_eq!(flood, [(400, 200)].into());
    let token = fixture.token().await;
    assert_eq!(fixture.tell_from(IAM, &token).await.status, 200);
    fixture.is_over(&session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn outcome_of_each_logout_token_is_counted() {
    let fixture = LogoutFixture::with(&BEHIND_A_PROXY).await;
    let token = fixture.token().await;
    for _ in 0..2 {
        fixture.tell_from(IAM, &token).await;
    }
    fixture.flood_from(FORGER, 53).await;
    let exposition = exposition(&fixture.gateway);
    for (outcome, count) in [
        ("subject_ended", 1),
        ("session_ended", 0),
        ("replayed", 1),
        ("signature", 50),
        ("turned_away", 3),
        ("fault", 0),
    ] {
        let labels = format!("outcome=\"{outcome}\",iam=\"mock\"");
        let series = format!("auth_gateway_logout_tokens_total{{{labels}}}");
        assert_eq!(exposition.count(&series), count, "{outcome}");
    }
    let requests = |outcome: &str| {
        let labels = format!("route=\"backchannel_logout\",outcome=\"{outcome}\"");
        exposition.count(&format!("auth_gateway_requests_total{{{labels}}}"))
    };
    assert_eq!(requests("ok"), 1);
    assert_eq!(requests("invalid_request"), 51);
    assert_eq!(requests("temporarily_unavailable"), 3);
}
