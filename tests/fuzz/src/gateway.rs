//! A gateway on a free port of this process, and a client that sends arbitrary bytes.

use std::collections::BTreeMap;
use std::future::pending;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use actix_rt::System;
use async_trait::async_trait;
use auth_gateway::startup::{Application, ServiceDependencies};
use iam_adapters::clock::ManualClock;
use iam_adapters::{
    Authenticated, ClientAddress, ClientContext, Credentials, IamAdapter, IamError, Replaceable,
};
use serde_json::{Value, json};
use test_support::wrapper::{Wrapper, wrapped};

use crate::NOW;

/// The demo user of the mock.
pub const EMAIL: &str = "alice@example.test";
/// Her password.
pub const PASSWORD: &str = "alice-pass";
/// Her permissions.
pub const PERMISSIONS: [&str; 2] = ["urn:shop:orders:order:read", "urn:shop:orders:order:write"];

/// The users of the mock. No other user exists.
pub const USERS: [(&str, &str); 2] = [(EMAIL, PASSWORD), ("bob@example.test", "bob-pass")];

/// A gateway with the mock, and one connection to it.
#[derive(Debug)]
pub struct Gateway {
    address: SocketAddr,
    connection: Option<TcpStream>,
    seen: Arc<Mutex<Option<IpAddr>>>,
}

/// A response of the gateway.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A header, by its name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body as JSON, which it always is.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a body of JSON")
    }

    /// Panics unless the response has the form of all responses.
    pub fn is_well_formed(&self) {
        let json = self.json();
        let members = json.as_object().expect("an object");
        assert_eq!(self.header("cache-control"), Some("no-store"), "{self:?}");
        if self.status == 200 {
            return;
        }
        assert!(self.status < 500, "{self:?}");
        assert_eq!(members.len(), 3, "{self:?}");
        let text = |name: &str| members[name].as_str().expect("text").to_owned();
        let fit = |c| matches!(c, ' ' | '!' | '#'..='[' | ']'..='~');
        assert!(text("error").chars().all(fit), "{self:?}");
        assert!(text("error_description").chars().all(fit), "{self:?}");
        assert_eq!(
            Some(text("request_id").as_str()),
            self.header("x-request-id")
        );
        let challenged = self.header("www-authenticate").is_some();
        assert_eq!(challenged, self.status == 401, "{self:?}");
    }
}

impl Gateway {
    /// Starts it, with further settings.
    #[must_use]
    pub fn start(settings: &[(&str, &str)]) -> Self {
        let small = [
            ("http.listen", "127.0.0.1:0"),
            ("management.listen", "127.0.0.1:0"),
            ("http.workers", "1"),
            // The targets log in very often.
            ("login_limits.account_failures", "0"),
            ("login_limits.address_failures", "0"),
            ("login_limits.rate", "0"),
        ];
        let settings: BTreeMap<_, _> = small
            .iter()
            .chain(settings)
            .map(|(key, value)| {
                let name = key.to_uppercase().replace('.', "__");
                (format!("AUTH_GATEWAY__{name}"), (*value).to_owned())
            })
            .collect();
        let seen = Arc::<Mutex<_>>::default();
        let recorded = Arc::clone(&seen);
        let (bound, address) = mpsc::channel();
        thread::spawn(move || {
            System::new().block_on(async move {
                let settings = auth_gateway_dev::settings(None, &settings).expect("settings");
                let clock = Arc::new(ManualClock::at(NOW.unix));
                let parts = ServiceDependencies::prepare(&settings, clock).expect("parts");
                let recording = Arc::new(RecordingIam {
                    iam: parts.iams.first().expect("an IAM").get(),
                    seen: recorded,
                });
                let parts = ServiceDependencies {
                    iams: vec![Replaceable::shared(wrapped(&recording))],
                    ..parts
                };
                let application = Application::build(&settings, parts).expect("ports");
                bound
                    .send(application.addresses().public)
                    .expect("a target");
                application
                    .run_until_stopped(pending())
                    .await
                    .expect("it runs");
            });
        });
        Self {
            address: address.recv().expect("an address"),
            connection: None,
            seen,
        }
    }

    /// The client address that the IAM received with the last login.
    #[must_use]
    pub fn seen(&self) -> Option<IpAddr> {
        self.seen.lock().expect("no other panic").take()
    }

    /// Posts a body with header lines; `None` if the gateway closed the connection without a response.
    pub fn post(&mut self, path: &str, lines: &[u8], body: &[u8]) -> Option<Answer> {
        let length = body.len();
        let mut request =
            format!("POST {path} HTTP/1.1\r\nhost: gateway.test\r\ncontent-length: {length}\r\n")
                .into_bytes();
        request.extend_from_slice(lines);
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body);
        let mut connection = self.connection.take().unwrap_or_else(|| {
            let connection = TcpStream::connect(self.address).expect("a gateway");
            connection.set_nodelay(true).expect("a socket");
            connection
        });
        connection.write_all(&request).ok()?;
        let answer = read(&mut connection)?;
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
        let body = json!({ "email": EMAIL, "password": PASSWORD }).to_string();
        let answer = self.post_json("/api/v1/auth/login", body.as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = answer.json();
        let text = |name: &str| body[name].as_str().expect("text").to_owned();
        (text("session_id"), text("session_token"))
    }
}

fn read(connection: &mut TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).expect("a head of text");
            let mut answer = Answer {
                status: head.get(9..12)?.parse().expect("a status"),
                head,
                body: Vec::new(),
            };
            let length: usize = answer.header("content-length")?.parse().expect("a length");
            let body = &bytes[end + 4..];
            if body.len() >= length {
                answer.body = body.to_vec();
                return Some(answer);
            }
        }
        match connection.read(&mut chunk) {
            // The timer signal of libFuzzer.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    }
}

/// Records the client address of a login.
#[derive(Debug)]
struct RecordingIam {
    iam: Arc<dyn IamAdapter>,
    seen: Arc<Mutex<Option<IpAddr>>>,
}

#[async_trait]
impl Wrapper for RecordingIam {
    fn inner(&self) -> &dyn IamAdapter {
        &*self.iam
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        *self.seen.lock().expect("no other panic") = client.address.map(ClientAddress::ip);
        self.iam.authenticate(credentials, client).await
    }
}
