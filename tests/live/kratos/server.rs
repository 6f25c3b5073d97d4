//! A real Kratos, its administrator, and the adapter for it.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::clock::SystemClock;
use iam_adapters::kratos::KratosSettings;
use iam_adapters::settings::AdapterSettings as _;
use iam_adapters::{ClaimSources, IamAdapter, Permission, Permissions, Subject, UpstreamSession};
use iam_conformance::{Account, AccountState, ClaimMembers, Fixture};
use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use test_support::client::http_client;
use test_support::wait::until;

use crate::fixture::ServerFixture;
use crate::keycloak::address;
use crate::launched::{Launched, answer};

const LAUNCHER: &str = "KRATOS_LAUNCHER";

/// What the launcher prints.
#[derive(Debug, Deserialize)]
struct Facts {
    url: String,
    admin: String,
    database: String,
    home: String,
}

/// A running server. It is killed when it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    facts: Facts,
    adapter: Arc<dyn IamAdapter>,
    process: Mutex<Launched>,
}

pub(super) type KratosFixture = ServerFixture<Server>;

impl KratosFixture {
    pub(super) async fn start() -> Self {
        Self::new(Server::start(&[]).await)
    }

    /// A server at which no one can log in with a password.
    pub(super) async fn start_without_passwords() -> Self {
        Self::new(Server::start(&["--without-passwords"]).await)
    }
}

impl Server {
    async fn start(options: &[&str]) -> Self {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let (process, facts) = Launched::start::<Facts>(LAUNCHER, options).await;
        Self {
            adapter: adapter(&facts.url, &json!({})),
            facts,
            process: process.into(),
        }
    }

    pub(super) fn kill(&self) {
        self.process.lock().expect("the process").kill();
    }

    /// Starts the killed server again, with the same data, at the same address.
    pub(super) async fn start_again(&self) {
        let Facts { home, url, .. } = &self.facts;
        let (process, facts) = Launched::start_again::<Facts>(LAUNCHER, home, url).await;
        assert_eq!(facts.url, self.facts.url);
        *self.process.lock().expect("the process") = process;
    }

    pub(super) fn url(&self) -> &str {
        &self.facts.url
    }

    pub(super) fn admin(&self) -> &str {
        &self.facts.admin
    }

    /// Executes a statement in the database of the server.
    pub(super) fn change_database(&self, statement: &str) {
        const PROGRAM: &str =
            "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=20).execute(sys.argv[2])";
        let arguments = ["-c", PROGRAM, &self.facts.database, statement];
        let result = Command::new("python3").args(arguments).status();
        assert!(result.expect("python3").success(), "{statement}");
    }

    /// A call of the administrative API.
    async fn administer(&self, method: Method, path: &[&str], body: &Value) -> Value {
        let request = http_client().request(method, address(&self.facts.admin, path));
        let (status, body) = answer(request.json(body)).await;
        assert!(status.is_success(), "{path:?}: {status} {body}");
        body
    }

    async fn change(&self, user: &Account, changes: &Value) {
        let path = ["identities", user.subject.as_str()];
        self.administer(Method::PATCH, &path, changes).await;
    }

    /// A call of the public API with the token of a session.
    async fn call(
        &self,
        method: Method,
        path: &[&str],
        session: &UpstreamSession,
        body: &Value,
    ) -> (StatusCode, Value) {
        let url = address(&self.facts.url, path);
        let token = session.secret.expose_secret();
        let request = http_client().request(method, url).json(body);
        let request = request.header("x-session-token", token);
        answer(request).await
    }

    /// The status of the response about a session.
    pub(super) async fn whoami(&self, session: &UpstreamSession) -> StatusCode {
        let path = ["sessions", "whoami"];
        self.call(Method::GET, &path, session, &json!({})).await.0
    }

    /// Gives the user of this session codes as a second factor.
    pub(super) async fn add_recovery_codes(&self, session: &UpstreamSession) {
        let path = ["self-service", "settings", "api"];
        let (_, flow) = self.call(Method::GET, &path, session, &json!({})).await;
        let flow = flow["id"].as_str().expect("a flow").to_owned();
        for step in ["lookup_secret_regenerate", "lookup_secret_confirm"] {
            let mut url = address(&self.facts.url, &["self-service", "settings"]);
            url.query_pairs_mut().append_pair("flow", &flow);
            let request = http_client().post(url);
            let request = request.header("x-session-token", session.secret.expose_secret());
            let request = request.json(&json!({"method": "lookup_secret", step: true}));
            let response = request.send().await.expect("a response");
            assert_eq!(response.status(), StatusCode::OK, "{step}");
        }
    }

    /// Waits until the user has this number of active sessions.
    pub(super) async fn has_active_sessions(&self, user: &Account, count: usize) {
        let path = ["identities", user.subject.as_str(), "sessions"];
        until("the end of sessions at the server", async || {
            let sessions = self.administer(Method::GET, &path, &json!({})).await;
            let sessions = sessions.as_array().expect("sessions").iter();
            sessions.filter(|session| session["active"] == true).count() == count
        })
        .await;
    }
}

/// An adapter for a server at this address, whose tokens have these claims.
pub(super) fn adapter(url: &str, claims: &Value) -> Arc<dyn IamAdapter> {
    let settings: KratosSettings =
        serde_json::from_value(json!({"url": url, "claims": claims})).expect("settings");
    let clock = Arc::new(SystemClock::default());
    let adapter = settings.connect("iam.kratos", clock, Duration::from_secs(5), None);
    adapter.expect("usable settings")
}

fn names(permissions: &Permissions) -> Vec<&str> {
    permissions.iter().map(Permission::as_str).collect()
}

#[async_trait]
impl Fixture for Server {
    fn adapter(&self) -> Arc<dyn IamAdapter> {
        Arc::clone(&self.adapter)
    }

    fn account_states(&self) -> &[AccountState] {
        &[AccountState::Disabled, AccountState::Incomplete]
    }

    /// The members are those of `metadata_public`.
    fn adapter_with_claims(&self, claims: ClaimSources) -> Arc<dyn IamAdapter> {
        let mut claims = serde_json::to_value(claims).expect("a table");
        for claim in claims.as_object_mut().expect("a table").values_mut() {
            let member = claim["member"].as_str().expect("a member");
            let member = member.trim_start_matches('/');
            claim["member"] = json!(format!("/metadata_public/{member}"));
        }
        adapter(&self.facts.url, &claims)
    }

    fn claim_members(&self) -> ClaimMembers {
        ClaimMembers::Attributes
    }

    async fn set_attributes(&self, user: &Account, attributes: &Map<String, Value>) {
        let changes = attributes.iter().map(|(name, value)| {
            json!({"op": "add", "path": format!("/metadata_public/{name}"), "value": value})
        });
        self.change(user, &changes.collect()).await;
    }

    async fn introspection_response(&self, session: &UpstreamSession) -> Value {
        let path = ["identities", session.subject.as_str()];
        let identity = self.administer(Method::GET, &path, &json!({})).await;
        identity["metadata_public"].clone()
    }

    async fn create_user(
        &self,
        email: &str,
        password: &SecretString,
        permissions: &Permissions,
    ) -> Subject {
        let identity = json!({
            "schema_id": "person",
            "traits": {"email": email},
            "metadata_public": {"permissions": names(permissions)},
            "verifiable_addresses": [
                {"value": email, "verified": true, "via": "email", "status": "completed"},
            ],
            "credentials": {"password": {"config": {"password": password.expose_secret()}}},
        });
        let created = self
            .administer(Method::POST, &["identities"], &identity)
            .await;
        Subject::new(created["id"].as_str().expect("an id")).expect("a subject")
    }

    async fn delete_user(&self, user: &Account) {
        let path = ["identities", user.subject.as_str()];
        self.administer(Method::DELETE, &path, &json!({})).await;
    }

    async fn set_password(&self, user: &Account, password: &SecretString) {
        let path = ["identities", user.subject.as_str()];
        let mut identity = self.administer(Method::GET, &path, &json!({})).await;
        let password = json!({"password": {"config": {"password": password.expose_secret()}}});
        identity["credentials"] = password;
        self.administer(Method::PUT, &path, &identity).await;
    }

    async fn set_permissions(&self, user: &Account, permissions: &Permissions) {
        let value = names(permissions);
        let change = json!([{"op": "add", "path": "/metadata_public/permissions", "value": value}]);
        self.change(user, &change).await;
    }

    async fn set_state(&self, user: &Account, state: AccountState) {
        let name = match state {
            AccountState::Disabled => "inactive",
            _ => "active",
        };
        let is_verified = state != AccountState::Incomplete;
        let changes = json!([
            {"op": "replace", "path": "/state", "value": name},
            {"op": "replace", "path": "/verifiable_addresses/0/verified", "value": is_verified},
        ]);
        self.change(user, &changes).await;
    }

    async fn end_session(&self, _: &Account, session: &UpstreamSession) -> Vec<String> {
        let path = ["sessions", session.id.as_str()];
        self.administer(Method::DELETE, &path, &json!({})).await;
        Vec::new()
    }

    async fn end_sessions_of(&self, user: &Account) -> Vec<String> {
        let path = ["identities", user.subject.as_str(), "sessions"];
        self.administer(Method::DELETE, &path, &json!({})).await;
        Vec::new()
    }
}
