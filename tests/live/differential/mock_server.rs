//! The mock of the same realm, and its administrator.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use actix_web::rt::System;
use async_trait::async_trait;
use auth_gateway_dev::{MockIam, MockIamSettings};
use iam_adapters::clock::SystemClock;
use mock_iam::wire::ServerSettings;
use mock_iam::{Format, parse};
use reqwest::Url;
use serde_json::{Value, json};
use test_support::client::http_client;
use test_support::logout_inbox::LogoutInbox;
use test_support::totp;
use tokio::sync::oneshot;

use super::server::{Login, RealmServer, Setting, State};
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
    inbox: LogoutInbox,
    /// The number of accounts created so far. Each has a subject of its own.
    created: AtomicUsize,
    _stop: oneshot::Sender<()>,
}

impl MockServer {
    pub(super) async fn start() -> Self {
        let inbox = LogoutInbox::open().await;
        let logout_url = inbox.url().parse().expect("an address");
        // A port that was free a moment ago, because the issuer of logout tokens has it.
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let listen = free.local_addr().expect("an address");
        drop(free);
        let (bound, running) = mpsc::channel::<SocketAddr>();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::spawn(move || {
            System::new().block_on(async move {
                let mock = MockIam::build(settings(listen, logout_url)).expect("a free port");
                bound.send(mock.address()).expect("a test");
                let stopped = async move { drop(stopped.await) };
                mock.run_until_stopped(stopped).await.expect("a listener");
            });
        });
        let address = running.recv().expect("the mock started");
        Self {
            url: url_of(address),
            http: http_client(),
            inbox,
            created: AtomicUsize::default(),
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

fn url_of(address: SocketAddr) -> String {
    format!("http://localhost:{}", address.port())
}

fn settings(listen: SocketAddr, logout_url: Url) -> MockIamSettings {
    MockIamSettings {
        listen,
        server_settings: ServerSettings {
            url: url_of(listen).parse().expect("an address"),
            realm: "shop".to_owned(),
            client_id: GATEWAY.0.to_owned(),
            client_secret: GATEWAY.1.into(),
            permissions_client: Some(PERMISSIONS_CLIENT.to_owned()),
            issuer: None,
        },
        address_is_url: false,
        users: parse(USERS, Format::Toml, "the test's users").expect("valid users"),
        session_lifetime: SESSION_LIFETIME,
        backchannel_logout_url: Some(logout_url),
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
            Setting::Lockout => json!({"lockout": {"failures": 3, "wait": "5m"}}),
        };
        change["other_clients"] = json!([other]);
        self.realm(change).await;
    }

    async fn set_state(&self, email: &str, state: State) {
        let state = match state {
            State::Active => "active",
            State::Disabled => "disabled",
            State::Incomplete => "incomplete",
        };
        let path = format!("users/{email}");
        let body = Some(json!({"state": state}));
        self.control(reqwest::Method::PATCH, &path, body).await;
    }

    async fn create(&self, email: &str, password: &str, otp: bool) {
        let number = self.created.fetch_add(1, Ordering::Relaxed);
        let subject = format!("subject-{number}");
        let mut user = json!({"email": email, "password": password, "subject": subject});
        if otp {
            user["totp_secret"] = json!(totp::SECRET_BASE32);
        }
        self.control(reqwest::Method::POST, "users", Some(user))
            .await;
    }

    async fn set_password(&self, email: &str, password: &str) {
        let body = Some(json!({"password": password}));
        let path = format!("users/{email}");
        self.control(reqwest::Method::PATCH, &path, body).await;
    }

    async fn delete(&self, email: &str) {
        let path = format!("users/{email}");
        self.control(reqwest::Method::DELETE, &path, None).await;
    }

    async fn end_sessions_of(&self, email: &str) {
        let path = format!("users/{email}/sessions?notify=true");
        self.control(reqwest::Method::DELETE, &path, None).await;
    }

    async fn end_session(&self, id: &str) {
        let path = format!("{}/mock/v1/sessions/{id}?notify=true", self.url);
        // 404 if it has ended.
        self.http.delete(path).send().await.expect("an answer");
    }

    async fn login_counted(&self, _: &str, _: Login) {}

    async fn advance(&self, by: Duration) {
        let body = Some(json!({"by": format!("{}s", by.as_secs())}));
        self.control(reqwest::Method::POST, "time/advance", body)
            .await;
    }

    fn inbox(&self) -> &LogoutInbox {
        &self.inbox
    }

    async fn permit(&self, email: &str, permission: &str, held: bool) {
        let path = format!("users/{email}");
        let user = self.http.get(format!("{}/mock/v1/{path}", self.url)).send();
        let mut user: Value = user.await.expect("an answer").json().await.expect("JSON");
        let permissions = user["permissions"].as_array_mut().expect("a list");
        permissions.retain(|name| name != permission);
        permissions.extend(held.then(|| json!(permission)));
        let body = Some(json!({"permissions": permissions}));
        self.control(reqwest::Method::PATCH, &path, body).await;
    }
}
