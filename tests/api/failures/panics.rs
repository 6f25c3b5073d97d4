//! Panics during a request, and the connection on which they happen.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::name::Name as _;
use iam_adapters::resilient::Operation;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use test_support::client::Response;
use test_support::contract::Contract;
use test_support::endpoints::{LOGIN, LOGOUT, TOKEN};
use test_support::scenario::{Fault, OPERATIONS, Scenario};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;

use super::{BROKEN, STALE};

#[tokio::test]
async fn panic_is_a_500_and_its_connection_stays_usable() {
    let fixture = Scenario::new(&[]);
    let mut connection = Connection::open(fixture.gateway.addresses().public).await;
    for operation in OPERATIONS {
        let session = fixture.log_in().await.session();
        fixture.clock.advance(STALE);
        let mut pair = session.pair();
        pair["grant_type"] = json!("session");
        let login = json!({ "email": "alice@example.test", "password": "alice-pass" });
        let (path, body) = match operation {
            Operation::Login => (LOGIN, login),
            Operation::Introspection => (TOKEN, pair),
            Operation::Logout | Operation::Keys | Operation::Probe | Operation::Permissions => {
                (LOGOUT, pair)
            }
        };
        fixture.fails(operation, Fault::Panics);
        let answer = connection.post(path, &body.to_string()).await;
        BROKEN.is_in(&answer, false, operation.name());
        fixture.recovers();
        // The fault of the session is held until then.
        fixture.clock.advance(Duration::from_secs(1));
        let answer = connection.post(path, &body.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

#[tokio::test]
async fn probing_continues_after_a_panic() {
    let script = HashMap::from([(Operation::Probe, Fault::Panics)]);
    let fixture = Scenario::with_faults(script, &[("upstream.probe_interval", "20ms")]);
    fixture.is_probed().await;
    fixture
        .gateway
        .wait_for_readiness("degraded", &["unreadable"])
        .await;
    let unreachable_iam = IamError::Unreachable("unreachable".into());
    fixture.fails(Operation::Probe, Fault::Error(unreachable_iam));
    fixture
        .gateway
        .wait_for_readiness("degraded", &["unreachable"])
        .await;
    fixture.fails(Operation::Probe, Fault::Never);
    fixture.gateway.wait_for_readiness("ready", &[]).await;
}

/// A single connection.
struct Connection(BufStream<TcpStream>);

impl Connection {
    async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await;
        Self(BufStream::new(stream.expect("a connection")))
    }

    async fn post(&mut self, path: &str, body: &str) -> Response {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: gateway.test\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        let written = self.0.write_all(request.as_bytes()).await;
        written.expect("an open connection");
        self.0.flush().await.expect("an open connection");
        let status = self.line().await;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut headers = HeaderMap::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            let name = HeaderName::try_from(name).expect("a name");
            headers.append(name, HeaderValue::try_from(value).expect("a value"));
        }
        let length = headers["content-length"].to_str().expect("text");
        let mut body = vec![0; length.parse().expect("a length")];
        self.0.read_exact(&mut body).await.expect("a whole body");
        let status = status.expect("a status");
        Contract::get().check("POST", path, status, &headers, &body);
        Response {
            status,
            headers,
            body,
        }
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).await.expect("a line of text");
        assert_ne!(read, 0, "the connection is closed");
        line.trim_end().to_owned()
    }
}
