//! The real Keycloak, and its administrator.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Method;
use serde_json::{Value, json};
use test_support::client::http_client;
use test_support::logout_inbox::LogoutInbox;
use tokio::sync::OnceCell;

use super::observed::now;
use super::server::{Login, RealmServer, Setting, State};
use crate::admin_api::AdminApi;
use crate::administrator::{one_time_password, password};
use crate::another_realm::send_logout_tokens;
use crate::keycloak::Instance;
use test_support::scripted_upstream::keycloak::PERMISSIONS_CLIENT;

pub(super) struct KeycloakServer {
    instance: Instance,
    http: reqwest::Client,
    api: AdminApi,
    inbox: LogoutInbox,
    ahead: Mutex<Duration>,
    /// The accounts that were created here, by address.
    created: Mutex<HashMap<String, Created>>,
    /// The roles that are permissions, with the id of their client, by name.
    roles: OnceCell<HashMap<String, Value>>,
}

/// The most reads until Keycloak has counted a login.
const READS_MAX: usize = 1000;

/// An account, and its failed logins when they were last read.
#[derive(Clone)]
struct Created {
    id: String,
    enabled: bool,
    failures: Failures,
}

/// Milliseconds and seconds since 1970; 0: none.
#[derive(Clone, Copy, Default)]
struct Failures {
    last_at: u64,
    locked_until: u64,
}

impl KeycloakServer {
    pub(super) async fn start() -> Self {
        let instance = Instance::start_for_any_host().await;
        let (api, inbox) = (
            AdminApi::new(instance.keycloak.clone()),
            LogoutInbox::open().await,
        );
        send_logout_tokens(&api, &instance.keycloak, &inbox.url()).await;
        // Cheap, because the test makes thousands of logins.
        let policy =
            json!({"passwordPolicy": "hashAlgorithm(pbkdf2-sha256) and hashIterations(1)"});
        api.done(Method::PUT, &[], Some(policy)).await;
        Self {
            instance,
            http: http_client(),
            api,
            inbox,
            ahead: Mutex::default(),
            created: Mutex::default(),
            roles: OnceCell::new(),
        }
    }

    /// The role with this name.
    async fn role(&self, name: &str) -> &Value {
        let read = async || {
            let (client, _) = self.client(PERMISSIONS_CLIENT).await;
            let roles = self.api.get(&["clients", &client, "roles"]).await;
            let roles = roles.as_array().expect("roles").iter();
            let named = roles.map(|role| (text(&role["name"]), role.clone()));
            named.collect()
        };
        self.roles
            .get_or_init(read)
            .await
            .get(name)
            .expect("a role")
    }

    fn created(&self, email: &str) -> Option<Created> {
        let created = self.created.lock().expect("accounts");
        created.get(email).cloned()
    }

    fn note(&self, email: &str, change: impl FnOnce(&mut Created)) {
        let mut created = self.created.lock().expect("accounts");
        if let Some(created) = created.get_mut(email) {
            change(created);
        }
    }

    async fn user(&self, email: &str) -> String {
        if let Some(created) = self.created(email) {
            return created.id;
        }
        let users = self.api.get(&["users"]).await;
        let all = users.as_array().expect("users").iter();
        let mut named = all.filter(|user| user["email"] == email);
        let user = named.next().expect("a user of that address");
        user["id"].as_str().expect("an id").to_owned()
    }

    async fn client(&self, name: &str) -> (String, Value) {
        let clients = self.api.get(&["clients"]).await;
        let all = clients.as_array().expect("clients").iter();
        let mut named = all.filter(|client| client["clientId"] == name);
        let client = named.next().expect("a client").clone();
        (client["id"].as_str().expect("an id").to_owned(), client)
    }
}

#[async_trait]
impl RealmServer for KeycloakServer {
    fn url(&self) -> &str {
        &self.instance.keycloak.url
    }

    fn http(&self) -> &reqwest::Client {
        &self.http
    }

    async fn set(&self, setting: Setting) {
        let realm = match setting {
            Setting::Enabled(on) => json!({"enabled": on}),
            Setting::SslRequired(on) => json!({"sslRequired": if on { "all" } else { "none" }}),
            Setting::Lockout => json!({
                "bruteForceProtected": true,
                "failureFactor": 3,
                "waitIncrementSeconds": 300,
                "maxFailureWaitSeconds": 900,
                // The mock has no second lock-out for attempts in quick succession.
                "quickLoginCheckMilliSeconds": 0,
            }),
            Setting::DirectGrants(on) => {
                let (id, mut client) = self.client("auth-gateway").await;
                client["directAccessGrantsEnabled"] = json!(on);
                let path = ["clients", id.as_str()];
                self.api.done(Method::PUT, &path, Some(client)).await;
                return;
            }
        };
        self.api.done(Method::PUT, &[], Some(realm)).await;
    }

    async fn set_state(&self, email: &str, state: State) {
        let id = self.user(email).await;
        let mut user = self.api.get(&["users", &id]).await;
        user["enabled"] = json!(state != State::Disabled);
        let actions: &[&str] = match state {
            // A new password by an administrator ends UPDATE_PASSWORD.
            State::Incomplete => &["UPDATE_PROFILE"],
            State::Active | State::Disabled => &[],
        };
        user["requiredActions"] = json!(actions);
        self.api
            .done(Method::PUT, &["users", &id], Some(user))
            .await;
        let failures = ["attack-detection", "brute-force", "users", &id];
        self.api.done(Method::DELETE, &failures, None).await;
        self.note(email, |created| {
            created.enabled = state != State::Disabled;
            created.failures = Failures::default();
        });
    }

    async fn create(&self, email: &str, secret: &str, otp: bool) {
        let mut credentials = vec![password(&secret.into())];
        credentials.extend(otp.then(one_time_password));
        let id = self.api.create_user(email, &credentials).await;
        let account = Created {
            id: id.as_str().to_owned(),
            enabled: true,
            failures: Failures::default(),
        };
        let mut created = self.created.lock().expect("accounts");
        created.insert(email.to_owned(), account);
    }

    async fn set_password(&self, email: &str, secret: &str) {
        let id = self.user(email).await;
        let path = ["users", &id, "reset-password"];
        let body = Some(password(&secret.into()));
        self.api.done(Method::PUT, &path, body).await;
    }

    async fn delete(&self, email: &str) {
        let id = self.user(email).await;
        self.api.done(Method::DELETE, &["users", &id], None).await;
    }

    async fn end_sessions_of(&self, email: &str) {
        let id = self.user(email).await;
        let path = ["users", &id, "logout"];
        self.api.done(Method::POST, &path, None).await;
    }

    async fn end_session(&self, id: &str) {
        // 404 if it has ended.
        self.api.call(Method::DELETE, &["sessions", id], None).await;
    }

    async fn permit(&self, email: &str, permission: &str, held: bool) {
        let (user, role) = (self.user(email).await, self.role(permission).await);
        let client = text(&role["containerId"]);
        let path = ["users", &user, "role-mappings", "clients", &client];
        let method = if held { Method::POST } else { Method::DELETE };
        self.api.done(method, &path, Some(json!([role]))).await;
    }

    async fn login_counted(&self, email: &str, login: Login) {
        let account = self.created(email).expect("an account of the test");
        let before = account.failures;
        let ahead = *self.ahead.lock().expect("a time");
        let counts = match login {
            Login::Succeeded => before.last_at != 0,
            Login::InvalidCredentials => {
                account.enabled && before.locked_until <= now(ahead).as_secs()
            }
            Login::OtherwiseRefused => false,
        };
        let path = ["attack-detection", "brute-force", "users", &account.id];
        let mut after = before;
        for attempt in 0.. {
            if !counts || after.last_at != before.last_at {
                break;
            }
            assert!(
                attempt < READS_MAX,
                "Keycloak has not counted a login of {email}"
            );
            let status = self.api.get(&path).await;
            after = Failures {
                last_at: status["lastFailure"].as_u64().expect("milliseconds"),
                locked_until: status["failedLoginNotBefore"].as_u64().expect("seconds"),
            };
        }
        self.note(email, |created| created.failures = after);
    }

    async fn advance(&self, by: Duration) {
        {
            let mut ahead = self.ahead.lock().expect("a time");
            *ahead += by;
            self.instance.shift_time(*ahead);
        }
        self.api.forget_token().await;
    }

    fn inbox(&self) -> &LogoutInbox {
        &self.inbox
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}
