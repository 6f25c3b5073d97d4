//! A real OAuth 2 server, its administrator, and the adapter for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::digest::{SHA512, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use iam_adapters::claims::ClaimType;
use iam_adapters::clock::SystemClock;
use iam_adapters::oauth2::OAuth2Settings;
use iam_adapters::settings::AdapterSettings as _;
use iam_adapters::{
    ClaimSources, ClientSection as _, IamAdapter, Permission, Permissions, Subject, UpstreamSession,
};
use iam_conformance::{Account, AccountState, ClaimMembers, Fixture};
use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use test_support::client::http_client;

use crate::fixture::ServerFixture;
use crate::keycloak::address;
use crate::launched::{Launched, answer};

/// A scope that every user of Glewlwyd has, because it refuses a user without any of the requested
/// scopes. It is no permission.
const SCOPE_OF_ALL: &str = "openid";

/// The permissions of the conformance suite.
const SUITE_SCOPES: &str = "urn:conformance:suite:thing:read urn:conformance:suite:thing:write";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Glewlwyd,
    DjangoOAuth,
}

/// What a launcher prints.
#[derive(Debug, Deserialize)]
struct Facts {
    url: String,
    issuer: String,
    clients: BTreeMap<String, Client>,
    /// The scope that a login must request to get all permissions.
    scope: Option<String>,
    admin: Admin,
    home: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Client {
    id: String,
    method: String,
    secret: Option<String>,
    key_file: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Admin {
    url: String,
    header: (String, String),
}

/// A running server. It is killed when it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) kind: Kind,
    facts: Facts,
    adapter: Arc<dyn IamAdapter>,
    process: std::sync::Mutex<Launched>,
}

pub(super) type OAuth2Fixture = ServerFixture<Server>;

impl OAuth2Fixture {
    pub(super) async fn start(kind: Kind) -> Self {
        Self::new(Server::start(kind).await)
    }
}

impl Kind {
    const fn launcher(self) -> &'static str {
        match self {
            Self::Glewlwyd => "GLEWLWYD_LAUNCHER",
            Self::DjangoOAuth => "DJANGO_OAUTH_LAUNCHER",
        }
    }

    pub(super) const fn preset(self) -> &'static str {
        match self {
            Self::Glewlwyd => "glewlwyd",
            Self::DjangoOAuth => "django-oauth-toolkit",
        }
    }
}

impl Server {
    async fn start(kind: Kind) -> Self {
        let (process, facts) = Launched::start::<Facts>(kind.launcher(), Vec::new()).await;
        let adapter = adapter(&settings(kind, &facts, "basic"));
        Self {
            kind,
            facts,
            adapter,
            process: process.into(),
        }
    }

    pub(super) fn kill(&self) {
        self.process.lock().expect("the process").kill();
    }

    /// Starts the killed server again, with the same data, at the same address.
    pub(super) async fn start_again(&self) {
        let Facts { home, url, .. } = &self.facts;
        let again = Launched::start_again::<Facts>(self.kind.launcher(), home, url);
        let (process, facts) = again.await;
        assert_eq!(facts.issuer, self.facts.issuer);
        *self.process.lock().expect("the process") = process;
    }

    /// The members of `[iam.oauth2]` for a client of the server by its name in the launcher, with the
    /// server's preset.
    pub(super) fn settings(&self, client: &str) -> BTreeMap<&'static str, String> {
        settings(self.kind, &self.facts, client)
    }

    pub(super) fn issuer(&self) -> &str {
        &self.facts.issuer
    }

    /// A client for each way of authentication, and one with characters that HTTP Basic encodes.
    pub(super) const fn clients_of_methods(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Glewlwyd => &["basic", "post", "special", "jwt"],
            Kind::DjangoOAuth => &["basic", "post", "special"],
        }
    }

    /// The secret of a client.
    pub(super) fn secret(&self, client: &str) -> &str {
        let secret = self.facts.clients[client].secret.as_deref();
        secret.expect("a client with a secret")
    }

    async fn administer(&self, method: Method, path: &[&str], body: &Value) -> (StatusCode, Value) {
        self.administer_for(method, path, "", body).await
    }

    /// A call on behalf of a user.
    async fn administer_for(
        &self,
        method: Method,
        path: &[&str],
        user: &str,
        body: &Value,
    ) -> (StatusCode, Value) {
        let (header, value) = &self.facts.admin.header;
        let mut url = address(&self.facts.admin.url, path);
        if !user.is_empty() {
            url.query_pairs_mut().append_pair("impersonate", user);
        }
        let request = http_client().request(method, url).header(header, value);
        answer(request.json(body)).await
    }

    async fn change(&self, user: &Account, change: &Value) {
        let path = ["user", &user.email];
        let (status, body) = self.administer(Method::PUT, &path, change).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }

    /// The scopes of a user with these permissions, all of which exist.
    async fn scopes(&self, permissions: &Permissions) -> Value {
        let mut scopes: Vec<_> = permissions.iter().map(Permission::as_str).collect();
        if self.kind == Kind::Glewlwyd {
            scopes.push(SCOPE_OF_ALL);
        }
        let existing = shop_scopes();
        for scope in &scopes {
            if existing.iter().all(|name| name != scope) {
                // Fails if another test has made it.
                let body = json!({"name": scope});
                self.administer(Method::POST, &["scope", ""], &body).await;
            }
        }
        json!(scopes)
    }

    /// Calls an endpoint as a client that uses HTTP Basic, without the adapter.
    pub(super) async fn call(
        &self,
        client: &str,
        endpoint: &str,
        form: &[(&str, &str)],
    ) -> (StatusCode, Value) {
        let client = &self.facts.clients[client];
        let slash = match self.kind {
            Kind::Glewlwyd => "",
            Kind::DjangoOAuth => "/",
        };
        let url = format!("{}/{endpoint}{slash}", self.facts.issuer);
        let request = http_client().post(url).form(form);
        let request = request.basic_auth(&client.id, client.secret.as_ref());
        let response = request.send().await.expect("a response");
        let status = response.status();
        let body = response.bytes().await.expect("a complete response");
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// The response to a password grant without the gateway, which requests every scope.
    async fn grant(&self, email: &str, password: &SecretString) -> Value {
        let scope = scope(&self.facts);
        let mut form = vec![
            ("grant_type", "password"),
            ("username", email),
            ("password", password.expose_secret()),
        ];
        form.extend(scope.iter().map(|scope| ("scope", scope.as_str())));
        let (status, grant) = self.call("other", "token", &form).await;
        assert_eq!(status, StatusCode::OK, "{grant}");
        grant
    }

    /// The permissions of a user by the word of the server: the scopes that it grants.
    pub(super) async fn granted_permissions(&self, user: &Account) -> BTreeSet<String> {
        let grant = self.grant(&user.email, &user.password).await;
        let granted = grant["scope"].as_str().expect("scopes").split(' ');
        let granted = granted.filter(|scope| !scope.is_empty() && *scope != SCOPE_OF_ALL);
        granted.map(str::to_owned).collect()
    }

    /// Whether the server reports a token as active.
    pub(super) async fn is_active(&self, token: &str) -> bool {
        let (status, body) = self.call("basic", "introspect", &[("token", token)]).await;
        assert_eq!(status, StatusCode::OK);
        body["active"].as_bool().expect("a boolean")
    }

    /// Whether the server grants a new access token for a refresh token. The session may change.
    pub(super) async fn refreshes(&self, token: &str) -> bool {
        let form = [("grant_type", "refresh_token"), ("refresh_token", token)];
        self.call("basic", "token", &form).await.0 == StatusCode::OK
    }

    /// All sessions of a user, also those that have ended.
    pub(super) async fn sessions_of(&self, user: &Account) -> Vec<Value> {
        let path = ["oidc", "token"];
        let none = json!({});
        let sessions = self.administer_for(Method::GET, &path, &user.email, &none);
        let (_, sessions) = sessions.await;
        sessions.as_array().expect("sessions").clone()
    }

    /// The number of sessions of a user that have not ended.
    pub(super) async fn active_sessions(&self, user: &Account) -> usize {
        let sessions = self.sessions_of(user).await;
        let active = sessions.iter().filter(|session| session["enabled"] == true);
        active.count()
    }

    /// Ends the session with this hash of its refresh token.
    async fn end(&self, user: &Account, hash: &str) {
        let path = ["oidc", "token", hash];
        let none = json!({});
        let ended = self.administer_for(Method::DELETE, &path, &user.email, &none);
        assert_eq!(ended.await.0, StatusCode::OK);
    }
}

/// The names of the permissions that every server has.
pub(super) fn shop_scopes() -> Vec<String> {
    let realm: Value = serde_json::from_str(include_str!("../realm.json")).expect("JSON");
    let roles = realm["roles"]["client"]["shop-api"].as_array();
    let names = roles.expect("roles").iter();
    let names = names.map(|role| role["name"].as_str().expect("a name").to_owned());
    names.collect()
}

/// The scope of a login: all scopes, if the server does not grant them by default.
fn scope(facts: &Facts) -> Option<String> {
    let shop = facts.scope.as_ref()?;
    Some(format!("{SCOPE_OF_ALL} {shop} {SUITE_SCOPES}"))
}

fn settings(kind: Kind, facts: &Facts, client: &str) -> BTreeMap<&'static str, String> {
    let Client {
        id,
        method,
        secret,
        key_file,
    } = facts.clients[client].clone();
    let mut settings = BTreeMap::from([
        ("preset", kind.preset().to_owned()),
        ("issuer", facts.issuer.clone()),
        ("client_id", id),
        ("client_auth_method", method),
    ]);
    settings.extend(secret.map(|secret| ("client_secret", secret)));
    settings.extend(key_file.map(|file| ("private_key_file", file)));
    settings.extend(scope(facts).map(|scope| ("scope", scope)));
    settings
}

/// The adapter with these members of `[iam.oauth2]`.
pub(super) fn adapter(settings: &BTreeMap<&'static str, String>) -> Arc<dyn IamAdapter> {
    adapter_with_claims(settings, ClaimSources::NONE)
}

fn adapter_with_claims(
    settings: &BTreeMap<&'static str, String>,
    claims: ClaimSources,
) -> Arc<dyn IamAdapter> {
    let section = serde_json::from_value(json!(settings)).expect("a section");
    let mut settings = OAuth2Settings::read(section).expect("settings");
    settings.client.claims = claims;
    let clock = Arc::new(SystemClock::default());
    let adapter = settings.connect("iam.oauth2", clock, Duration::from_secs(5), None);
    adapter.expect("usable settings")
}

/// The tokens that a session carries.
#[derive(Debug, Deserialize)]
pub(super) struct SessionTokens {
    pub(super) access_token: String,
    pub(super) refresh_token: String,
}

impl SessionTokens {
    pub(super) fn of(session: &UpstreamSession) -> Self {
        serde_json::from_str(session.secret.expose_secret()).expect("tokens")
    }
}

/// The identifier of a session in the administration APIs.
fn hash_of(refresh_token: &str) -> String {
    let hash = digest(&SHA512, refresh_token.as_bytes());
    format!("{{SHA512}}{}", URL_SAFE_NO_PAD.encode(hash))
}

#[async_trait]
impl Fixture for Server {
    fn adapter(&self) -> Arc<dyn IamAdapter> {
        Arc::clone(&self.adapter)
    }

    fn account_states(&self) -> &[AccountState] {
        &[AccountState::Disabled]
    }

    fn adapter_with_claims(&self, claims: ClaimSources) -> Arc<dyn IamAdapter> {
        adapter_with_claims(&self.settings("basic"), claims)
    }

    /// Neither server states attributes of users, or an integer that is not about one token.
    fn claim_members(&self) -> ClaimMembers {
        ClaimMembers::Fixed(&[
            ("username", ClaimType::Text),
            ("active", ClaimType::Boolean),
            ("username", ClaimType::ListOfTexts),
        ])
    }

    async fn introspection_response(&self, session: &UpstreamSession) -> Value {
        let tokens = SessionTokens::of(session);
        let introspected = match self.kind {
            Kind::Glewlwyd => &tokens.refresh_token,
            Kind::DjangoOAuth => &tokens.access_token,
        };
        let form = [("token", introspected.as_str())];
        let (status, response) = self.call("basic", "introspect", &form).await;
        assert_eq!(status, StatusCode::OK, "{response}");
        response
    }

    async fn create_user(
        &self,
        email: &str,
        password: &SecretString,
        permissions: &Permissions,
    ) -> Subject {
        let user = json!({
            "username": email,
            "email": email,
            "password": password.expose_secret(),
            "enabled": true,
            "scope": self.scopes(permissions).await,
        });
        let (status, body) = self.administer(Method::POST, &["user", ""], &user).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let subject = match self.kind {
            Kind::DjangoOAuth => email.to_owned(),
            // Only the claims of a token show it.
            Kind::Glewlwyd => {
                let grant = self.grant(email, password).await;
                let token = grant["access_token"].as_str().expect("a token");
                let claims = token.split('.').nth(1).expect("claims");
                let claims = URL_SAFE_NO_PAD.decode(claims).expect("base64url");
                let claims: Value = serde_json::from_slice(&claims).expect("JSON");
                claims["sub"].as_str().expect("a subject").to_owned()
            }
        };
        Subject::new(subject).expect("a subject")
    }

    async fn delete_user(&self, user: &Account) {
        let path = ["user", &user.email];
        let deleted = self.administer(Method::DELETE, &path, &json!({})).await;
        assert_eq!(deleted.0, StatusCode::OK);
    }

    async fn set_password(&self, user: &Account, password: &SecretString) {
        let change = json!({"password": password.expose_secret()});
        self.change(user, &change).await;
    }

    async fn set_permissions(&self, user: &Account, permissions: &Permissions) {
        let change = json!({"scope": self.scopes(permissions).await});
        self.change(user, &change).await;
    }

    async fn set_state(&self, user: &Account, state: AccountState) {
        let change = json!({"enabled": state == AccountState::Active});
        self.change(user, &change).await;
    }

    async fn end_session(&self, user: &Account, session: &UpstreamSession) -> Vec<String> {
        let tokens = SessionTokens::of(session);
        self.end(user, &hash_of(&tokens.refresh_token)).await;
        Vec::new()
    }

    async fn end_sessions_of(&self, user: &Account) -> Vec<String> {
        for session in self.sessions_of(user).await {
            if session["enabled"] == true {
                let hash = session["token_hash"].as_str().expect("a hash");
                self.end(user, hash).await;
            }
        }
        Vec::new()
    }
}
