//! A gateway on a free port of this process, and a client that sends arbitrary bytes.

use std::net::{IpAddr, TcpStream};

use test_support::scenario::Scenario;
use test_support::wire::{ALICE, Answer, Connection};

/// The permissions of the demo user.
pub const PERMISSIONS: [&str; 2] = ["urn:shop:orders:order:read", "urn:shop:orders:order:write"];

/// The users of the mock. No other user exists.
pub const USERS: [(&str, &str); 2] = [
    ("alice@example.test", "alice-pass"),
    ("bob@example.test", "bob-pass"),
];

/// A gateway with the mock, and one connection to it.
#[derive(Debug)]
pub struct Gateway {
    scenario: Scenario,
    connection: Option<Connection<TcpStream>>,
}

/// Panics unless the response has the form of all responses.
pub fn is_well_formed(answer: &Answer) {
    let json = answer.json();
    let members = json.as_object().expect("an object");
    assert_eq!(
        answer.header("cache-control"),
        Some("no-store"),
        "{answer:?}"
    );
    if answer.status == 200 {
        return;
    }
    assert!(answer.status < 500, "{answer:?}");
    assert_eq!(members.len(), 3, "{answer:?}");
    let text = |name: &str| members[name].as_str().expect("text").to_owned();
    let fit = |c| matches!(c, ' ' | '!' | '#'..='[' | ']'..='~');
    assert!(text("error").chars().all(fit), "{answer:?}");
    assert!(text("error_description").chars().all(fit), "{answer:?}");
    assert_eq!(
        Some(text("request_id").as_str()),
        answer.header("x-request-id")
    );
    let challenged = answer.header("www-authenticate").is_some();
    assert_eq!(challenged, answer.status == 401, "{answer:?}");
}

impl Gateway {
    /// Starts it, with further settings.
    #[must_use]
    pub fn start(settings: &[(&str, &str)]) -> Self {
        // The targets log in very often.
        let unlimited = [
            ("login_limits.account_failures", "0"),
            ("login_limits.address_failures", "0"),
            ("login_limits.rate", "0"),
        ];
        Self {
            scenario: Scenario::new(&[&unlimited[..], settings].concat()),
            connection: None,
        }
    }

    /// The client address that the IAM received with the login of the last request.
    #[must_use]
    pub fn seen(&self) -> Option<IpAddr> {
        let address = self.scenario.take_logins().pop()??;
        Some(address.parse().expect("an address"))
    }

    /// Posts a body with header lines; `None` if the gateway closed the connection without a response.
    pub fn post(&mut self, path: &str, lines: &[u8], body: &[u8]) -> Option<Answer> {
        self.scenario.take_logins();
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: gateway.test\r\ncontent-length: {length}\r\n");
        let request = [head.as_bytes(), lines, b"\r\n", body].concat();
        let address = self.scenario.gateway.addresses().public;
        let connection = self.connection.take();
        let mut connection = connection.unwrap_or_else(|| Connection::to(address));
        let answer = connection.send(request).answer_unless_closed()?;
        if answer.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        Some(answer)
    }

    /// Posts JSON.
    pub fn post_json(&mut self, path: &str, body: &[u8]) -> Answer {
        self.post(path, b"content-type: application/json\r\n", body)
            .expect("an answer")
    }

    /// A new session: its id and token.
    pub fn session(&mut self) -> (String, String) {
        let answer = self.post_json("/api/v1/auth/login", ALICE.as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = answer.json();
        let text = |name: &str| body[name].as_str().expect("text").to_owned();
        (text("session_id"), text("session_token"))
    }
}
