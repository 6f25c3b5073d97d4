//! The mock of the same realm, and its administrator.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use actix_web::rt::System;
use async_trait::async_trait;
use auth_gateway_dev::{MockIam, MockIamSettings};
use iam_adapters::clock::SystemClock;
use mock_iam::wire::ServerSettings;
use mock_iam::{Format, parse};
use serde_json::{Value, json};
use test_support::client::http_client;
use test_support::totp;
use tokio::sync::oneshot;

use super::server::{RealmServer, Setting};
use super::{GATEWAY, OTHER};
use test_support::scripted_upstream::keycloak::PERMISSIONS_CLIENT;

/// The client's credentials in `realm.json`.
const USERS: &str = r#"
    [[users]]
    email = "alice@example.test"
    password = "alice-pass"
    permissions = ["urn:shop:orders:order:read", "urn:shop:orders:order:write"]
    [[users]]
    email = "bob@example.test"
    password = "bob-pass"
    permissions = ["urn:shop:catalog:item:read"]
    [[users]]
    email = "carol@example.test"
    password = "carol-pass"
    state = "disabled"
    [[users]]
    email = "dave@example.test"
    password = "dave-pass"
    state = "incomplete"
"#;

/// As in `realm.json`.
const SESSION_LIFETIME: Duration = Duration::from_secs(28_800);

/// It stops when it is dropped.
pub(super) struct MockServer {
    url: String,
    http: reqwest::Client,
    _stop: oneshot::Sender<()>,
}

impl MockServer {
    pub(super) fn start() -> Self {
        let (bound, running) = mpsc::channel::<SocketAddr>();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::spawn(move || {
            System::new().block_on(async move {
                let mock = MockIam::build(settings()).expect("a free port");
                bound.send(mock.address()).expect("a test");
                let stopped = async move { drop(stopped.await) };
                mock.run_until_stopped(stopped).await.expect("a listener");
            });
        });
        let address = running.recv().expect("the mock started");
        Self {
            url: format!("http://localhost:{}", address.port()),
            http: http_client(),
            _stop: stop,
        }
    }

    async fn control(&self, method: reqwest::Method, path: &str, body: Option<Value>) {
        let mut request = self
            .http
            .request(method, format!("{}/mock/v1/{path}", self.url));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.expect("an answer");
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
    }

    async fn realm(&self, change: Value) {
        self.control(reqwest::Method::PATCH, "realm", Some(change))
            .await;
    }
}

fn settings() -> MockIamSettings {
    MockIamSettings {
        listen: "127.0.0.1:0".parse().expect("an address"),
        server_settings: ServerSettings {
            url: "http://localhost".parse().expect("an address"),
            realm: "shop".to_owned(),
            client_id: GATEWAY.0.to_owned(),
            client_secret: GATEWAY.1.into(),
            permissions_client: Some(PERMISSIONS_CLIENT.to_owned()),
            issuer: None,
        },
        address_is_url: false,
        users: parse(USERS, Format::Toml, "the test's users").expect("valid users"),
        session_lifetime: SESSION_LIFETIME,
        backchannel_logout_url: None,
        allowed_hosts: Vec::new(),
        clock: Arc::new(SystemClock::default()),
        keys: Arc::default(),
    }
}

#[async_trait]
impl RealmServer for MockServer {
    fn url(&self) -> &str {
        &self.url
    }

    fn http(&self) -> &reqwest::Client {
        &self.http
    }

    async fn set(&self, setting: Setting) {
        let other = json!({"client_id": OTHER.0, "client_secret": OTHER.1});
        let mut change = match setting {
            Setting::Enabled(on) => json!({"enabled": on}),
            Setting::DirectGrants(on) => json!({"direct_grants": on}),
            Setting::SslRequired(on) => json!({"ssl_required": on}),
        };
        change["other_clients"] = json!([other]);
        self.realm(change).await;
    }

    async fn disable(&self, email: &str, disabled: bool) {
        let state = if disabled { "disabled" } else { "active" };
        let path = format!("users/{email}");
        let body = Some(json!({"state": state}));
        self.control(reqwest::Method::PATCH, &path, body).await;
    }

    async fn create_with_otp(&self, email: &str, password: &str) {
        let secret = totp::SECRET_BASE32;
        let user = json!({"email": email, "password": password, "totp_secret": secret});
        self.control(reqwest::Method::POST, "users", Some(user))
            .await;
    }

    async fn delete(&self, email: &str) {
        let path = format!("users/{email}");
        self.control(reqwest::Method::DELETE, &path, None).await;
    }

    async fn end_sessions_of(&self, email: &str) {
        let path = format!("users/{email}/sessions");
        self.control(reqwest::Method::DELETE, &path, None).await;
    }

    async fn permit(&self, email: &str, permission: &str) {
        let path = format!("users/{email}");
        let user = self.http.get(format!("{}/mock/v1/{path}", self.url)).send();
        let mut user: Value = user.await.expect("an answer").json().await.expect("JSON");
        let permissions = user["permissions"].as_array_mut().expect("a list");
        permissions.push(json!(permission));
        let body = Some(json!({"permissions": permissions}));
        self.control(reqwest::Method::PATCH, &path, body).await;
    }
}
