//! A client of one namespace of a gateway with the mock: the API of the gateway and the control API
//! of the mock. Every response of the control API is checked with its own document.

use std::ops::Deref;
use std::sync::Arc;

use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderValue};
use secrecy::SecretString;
use serde_json::{Value, json};
use test_support::client::{Client, Response, Session};
use test_support::endpoints::CONTROL;
use test_support::gateway::{TestGateway, manual_clock};

pub(crate) const ALICE: &str = "alice@example.test";
pub(crate) const BOB: &str = "bob@example.test";
pub(crate) const READ: &str = "urn:shop:orders:order:read";
pub(crate) const WRITE: &str = "urn:shop:orders:order:write";
pub(crate) const BROWSE: &str = "urn:shop:catalog:item:read";

/// A gateway with the mock and its demo users, by a clock that stands still.
pub(crate) fn gateway() -> TestGateway {
    gateway_with(&[])
}

/// The same, with these settings.
pub(crate) fn gateway_with(overrides: &[(&str, &str)]) -> TestGateway {
    TestGateway::start_with_clock(manual_clock(), overrides)
}

/// One namespace.
#[derive(Debug, Clone)]
pub(crate) struct Namespace {
    api: Client,
    /// If it belongs to no test.
    _gateway: Option<Arc<TestGateway>>,
}

impl Deref for Namespace {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.api
    }
}

impl Namespace {
    /// The default namespace of a new gateway.
    pub(crate) fn alone() -> Self {
        let gateway = Arc::new(gateway());
        Self {
            _gateway: Some(Arc::clone(&gateway)),
            ..Self::unnamed(&gateway)
        }
    }

    /// The default namespace.
    pub(crate) fn unnamed(app: &TestGateway) -> Self {
        Self::with(app, HeaderMap::new())
    }

    pub(crate) fn named(app: &TestGateway, name: &str) -> Self {
        let name = HeaderValue::from_str(name).expect("a header's value");
        Self::with(app, HeaderMap::from_iter([(header(), name)]))
    }

    fn with(app: &TestGateway, headers: HeaderMap) -> Self {
        let addresses = app.addresses();
        Self {
            api: Client::with(headers, addresses.public, addresses.management),
            _gateway: None,
        }
    }

    /// Calls the control API.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Response {
        let path = format!("{CONTROL}{path}");
        self.api.control(method, &path, headers, body).await
    }

    /// Sends JSON.
    pub(crate) async fn send_json(&self, method: Method, path: &str, body: &Value) -> Response {
        let json = [("content-type", "application/json")];
        self.send(method, path, &json, body.to_string()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        self.send_json(Method::POST, path, body).await
    }

    /// Makes a call without a body.
    pub(crate) async fn call(&self, method: Method, path: &str) -> Response {
        self.send(method, path, &[], Vec::new()).await
    }

    /// Reads a resource that has to exist.
    pub(crate) async fn read(&self, path: &str) -> Value {
        let answer = self.call(Method::GET, path).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Makes a call that returns no content.
    pub(crate) async fn done(&self, method: Method, path: &str) {
        let answer = self.call(method, path).await;
        assert_eq!(answer.status, 204, "{}", answer.text());
    }

    /// Adds a fault.
    pub(crate) async fn fault(&self, rule: Value) -> Value {
        let answer = self.post("/faults", &rule).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()
    }

    pub(crate) async fn advance(&self, by: &str) {
        let answer = self.post("/time/advance", &json!({ "by": by })).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// The number of calls in the journal.
    pub(crate) async fn calls(&self, query: &str) -> u64 {
        let found = self.read(&format!("/journal?{query}")).await;
        found["count"].as_u64().expect("a number")
    }

    /// Logs a demo user in; the login may fail.
    pub(crate) async fn try_log_in(&self, user: &str) -> Response {
        let name = user.split('@').next().unwrap_or_default();
        self.log_in(user, &SecretString::from(format!("{name}-pass")))
            .await
    }

    /// The session of a demo user.
    pub(crate) async fn session(&self, user: &str) -> Session {
        self.try_log_in(user).await.session()
    }
}

fn header() -> reqwest::header::HeaderName {
    reqwest::header::HeaderName::from_static("mock-namespace")
}
