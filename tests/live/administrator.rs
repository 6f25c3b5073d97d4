//! The administrator of a realm, by Keycloak's admin REST API.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use iam_adapters::keycloak::KeycloakSettings;
use iam_adapters::settings::AdapterSettings as _;
use iam_adapters::{
    ClaimSources, IamAdapter, OAuth2ClientSettings, Permission, Permissions, Subject,
    UpstreamSession,
};
use iam_conformance::{Account, AccountState, ClaimMembers, Fixture};
use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use test_support::logout_inbox::LogoutInbox;
use test_support::totp;

use crate::admin_api::AdminApi;
use crate::another_realm::{gateway_client, send_logout_tokens};
use crate::keycloak::Keycloak;
use crate::version::Version;
use test_support::scripted_upstream::keycloak::PERMISSIONS_CLIENT;

/// Which roles are permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PermissionsFrom {
    /// Those of the API's client.
    Client,
    /// Those of the realm.
    Realm,
}

/// An administrator, and the adapter under test for the realm.
#[derive(Debug)]
pub(crate) struct Administrator {
    pub(crate) api: AdminApi,
    pub(crate) keycloak: Keycloak,
    from: PermissionsFrom,
    adapter: Arc<dyn IamAdapter>,
    /// The path of the roles that are permissions, and that of a user's role mappings.
    roles: Vec<String>,
    mappings: Vec<String>,
    states: Vec<AccountState>,
    pub(crate) inbox: Option<LogoutInbox>,
}

/// The number of wrong passwords that locks an account, in a realm that locks accounts.
pub(crate) const FAILURES_THAT_LOCK: usize = 5;
/// The most attempts until an account is locked.
const ATTEMPTS_MAX: usize = 100;

impl Administrator {
    /// Administers the realm.
    pub(crate) async fn new(keycloak: &Keycloak, from: PermissionsFrom) -> Self {
        let api = AdminApi::new(keycloak.clone());
        let realm = api.get(&[]).await;
        let mut states = vec![AccountState::Disabled, AccountState::Incomplete];
        if realm["bruteForceProtected"] == true {
            states.push(AccountState::Locked);
        }
        let (roles, mappings) = match from {
            PermissionsFrom::Realm => (strings(&["roles"]), strings(&["realm"])),
            PermissionsFrom::Client => {
                let clients = api.get(&["clients"]).await;
                let all = clients.as_array().expect("clients").iter();
                let mut named = all.filter(|client| client["clientId"] == PERMISSIONS_CLIENT);
                let id = named.next().expect("the client")["id"].as_str();
                let id = id.expect("an id");
                let roles = strings(&["clients", id, "roles"]);
                (roles, strings(&["clients", id]))
            }
        };
        Self {
            api,
            keycloak: keycloak.clone(),
            from,
            adapter: connect(&settings(keycloak, from, ClaimSources::NONE)),
            roles,
            mappings,
            states,
            inbox: None,
        }
    }

    /// The settings of an adapter for the realm with these claims.
    pub(crate) fn settings(&self, claims: ClaimSources) -> KeycloakSettings {
        settings(&self.keycloak, self.from, claims)
    }

    /// Makes the realm send its logout tokens here. Only for a realm of one test.
    pub(crate) async fn reading_logout_tokens(self) -> Self {
        let inbox = LogoutInbox::open().await;
        send_logout_tokens(&self.api, &self.keycloak, &inbox.url()).await;
        Self {
            inbox: Some(inbox),
            ..self
        }
    }

    /// Makes a call that ends sessions; returns their logout tokens.
    async fn ending(&self, method: Method, path: &[&str]) -> Vec<String> {
        let received = || self.inbox.as_ref().map(LogoutInbox::tokens);
        let before = received().unwrap_or_default().len();
        self.api.done(method, path, None).await;
        received().unwrap_or_default().split_off(before)
    }

    /// The role with this name, created if it does not exist.
    pub(crate) async fn role(&self, name: &str) -> Value {
        let roles: Vec<_> = self.roles.iter().map(String::as_str).collect();
        let of_name = [&roles[..], &[name]].concat();
        let found = self.api.call(Method::GET, &of_name, None).await;
        if found.status == StatusCode::OK {
            return found.body;
        }
        let made = json!({ "name": name });
        let made = self.api.call(Method::POST, &roles, Some(made)).await;
        // Another test may have created it in the meantime.
        let there = [StatusCode::CREATED, StatusCode::CONFLICT].contains(&made.status);
        assert!(there, "{} {}", made.status, made.body);
        self.api.get(&of_name).await
    }

    /// The permissions of a user as Keycloak computes them: from the user's own roles, composite
    /// roles and groups.
    pub(crate) async fn effective_permissions(&self, user: &Subject) -> BTreeSet<String> {
        let path = self.mappings_of(user.as_str());
        let path = [&path[..], &["composite"]].concat();
        names(&self.api.get(&path).await)
    }

    /// The ids of a user's sessions.
    pub(crate) async fn sessions_of(&self, user: &Subject) -> BTreeSet<String> {
        let sessions = self.api.get(&["users", user.as_str(), "sessions"]).await;
        let sessions = sessions.as_array().expect("sessions").iter();
        let ids = sessions.filter_map(|session| session["id"].as_str());
        ids.map(str::to_owned).collect()
    }

    fn mappings_of<'a>(&'a self, user: &'a str) -> Vec<&'a str> {
        let mappings = self.mappings.iter().map(String::as_str);
        ["users", user, "role-mappings"]
            .into_iter()
            .chain(mappings)
            .collect()
    }

    /// Assigns roles to a user, or removes them.
    async fn map(&self, method: Method, user: &Subject, names: &[&str]) {
        let mut roles = Vec::new();
        for name in names {
            roles.push(self.role(name).await);
        }
        let path = self.mappings_of(user.as_str());
        self.api.done(method, &path, Some(json!(roles))).await;
    }

    /// Makes the realm state an attribute of users in introspection responses, as the member with this name, in which
    /// dots separate the parts of a path.
    pub(crate) async fn map_attribute(&self, member: &str, json_type: &str, multivalued: bool) {
        // Attributes that the realm's profile of users does not list are refused otherwise.
        let profile = ["users", "profile"];
        let mut settings = self.api.get(&profile).await;
        settings["unmanagedAttributePolicy"] = json!("ENABLED");
        self.api.done(Method::PUT, &profile, Some(settings)).await;
        let client = gateway_client(&self.api, &self.keycloak).await;
        let mapper = json!({
            "name": member,
            "protocol": "openid-connect",
            "protocolMapper": "oidc-usermodel-attribute-mapper",
            "config": {
                "user.attribute": member,
                "claim.name": member,
                "jsonType.label": json_type,
                "multivalued": multivalued.to_string(),
                "introspection.token.claim": "true",
                "access.token.claim": "true",
            },
        });
        let path = ["clients", &client, "protocol-mappers", "models"];
        let made = self.api.call(Method::POST, &path, Some(mapper)).await;
        // Another test may have created it in the meantime.
        let there = [StatusCode::CREATED, StatusCode::CONFLICT].contains(&made.status);
        assert!(there, "{} {}", made.status, made.body);
    }

    /// Changes members of a user's representation.
    async fn change(&self, user: &Subject, changes: &[(&str, Value)]) {
        let path = ["users", user.as_str()];
        let mut representation = self.api.get(&path).await;
        for (member, value) in changes {
            representation[member] = value.clone();
        }
        self.api
            .done(Method::PUT, &path, Some(representation))
            .await;
    }

    /// Keycloak does not count an attempt that arrives while it processes the previous one.
    async fn lock(&self, user: &Account) {
        for _ in 0..ATTEMPTS_MAX {
            let status = self.keycloak.log_in(&user.email, "not the password").await;
            assert_eq!(status, Version::of_environment().wrong_password);
            let attacks = self.api.get(&attacks_on(&user.subject)).await;
            if attacks["disabled"] == true {
                return;
            }
        }
        panic!("no wrong passwords lock the account");
    }
}

fn attacks_on(user: &Subject) -> [&str; 4] {
    ["attack-detection", "brute-force", "users", user.as_str()]
}

fn settings(keycloak: &Keycloak, from: PermissionsFrom, claims: ClaimSources) -> KeycloakSettings {
    KeycloakSettings {
        url: keycloak.url.parse().expect("an address"),
        realm: keycloak.realm.clone(),
        client: OAuth2ClientSettings {
            client_id: keycloak.client_id.clone(),
            client_secret: Some(keycloak.client_secret.clone()),
            claims,
            ..OAuth2ClientSettings::default()
        },
        permissions_client: (from == PermissionsFrom::Client)
            .then(|| PERMISSIONS_CLIENT.to_owned()),
        issuer: None,
    }
}

fn connect(settings: &KeycloakSettings) -> Arc<dyn IamAdapter> {
    let clock = Arc::new(iam_adapters::clock::SystemClock::default());
    let adapter = settings.connect("iam.keycloak", clock, Duration::from_secs(5), None);
    adapter.expect("usable settings")
}

fn strings(path: &[&str]) -> Vec<String> {
    path.iter().map(|part| (*part).to_owned()).collect()
}

pub(crate) fn names(roles: &Value) -> BTreeSet<String> {
    let roles = roles.as_array().expect("roles").iter();
    let names = roles.filter_map(|role| role["name"].as_str());
    names.map(str::to_owned).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

pub(crate) fn password(password: &SecretString) -> Value {
    json!({
        "type": "password",
        "value": password.expose_secret(),
        "temporary": false,
    })
}

/// The credential of the test users' one-time passwords, with the values of a new realm's policy.
pub(crate) fn one_time_password() -> Value {
    let parameters = json!({
        "subType": "totp",
        "digits": 6,
        "counter": 0,
        "period": 30,
        "algorithm": "HmacSHA1",
    });
    json!({
        "type": "otp",
        "secretData": json!({"value": totp::SECRET}).to_string(),
        "credentialData": parameters.to_string(),
    })
}

#[async_trait]
impl Fixture for Administrator {
    fn adapter(&self) -> Arc<dyn IamAdapter> {
        Arc::clone(&self.adapter)
    }

    fn account_states(&self) -> &[AccountState] {
        &self.states
    }

    fn adapter_with_claims(&self, claims: ClaimSources) -> Arc<dyn IamAdapter> {
        connect(&self.settings(claims))
    }

    fn claim_members(&self) -> ClaimMembers {
        ClaimMembers::Attributes
    }

    async fn set_attributes(&self, user: &Account, attributes: &Map<String, Value>) {
        let mut values = Map::new();
        for (name, value) in attributes {
            let nested = value.as_object().into_iter().flatten();
            let nested = nested.map(|(inner, value)| (format!("{name}.{inner}"), value));
            let itself = (!value.is_object()).then(|| (name.clone(), value));
            for (member, value) in nested.chain(itself) {
                let (json_type, texts) = match value {
                    Value::Number(number) => ("long", vec![number.to_string()]),
                    Value::Bool(flag) => ("boolean", vec![flag.to_string()]),
                    Value::Array(texts) => ("String", texts.iter().map(text).collect()),
                    value => ("String", vec![text(value)]),
                };
                self.map_attribute(&member, json_type, value.is_array())
                    .await;
                values.insert(member, json!(texts));
            }
        }
        let changes = [("attributes", Value::Object(values))];
        self.change(&user.subject, &changes).await;
    }

    async fn introspection_response(&self, session: &UpstreamSession) -> Value {
        self.keycloak.introspect(&session.secret).await
    }

    async fn create_user(
        &self,
        email: &str,
        secret: &SecretString,
        permissions: &Permissions,
    ) -> Subject {
        let subject = self.api.create_user(email, &[password(secret)]).await;
        let names: Vec<_> = permissions.iter().map(Permission::as_str).collect();
        if !names.is_empty() {
            self.map(Method::POST, &subject, &names).await;
        }
        subject
    }

    async fn create_user_with_otp(&self, email: &str, secret: &SecretString) -> Subject {
        self.api
            .create_user(email, &[password(secret), one_time_password()])
            .await
    }

    fn otp(&self) -> SecretString {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        totp::otp_at(now.expect("a time after 1970"))
    }

    async fn delete_user(&self, user: &Account) {
        let path = ["users", user.subject.as_str()];
        self.api.done(Method::DELETE, &path, None).await;
    }

    async fn set_password(&self, user: &Account, secret: &SecretString) {
        let path = ["users", user.subject.as_str(), "reset-password"];
        let body = Some(password(secret));
        self.api.done(Method::PUT, &path, body).await;
    }

    async fn set_permissions(&self, user: &Account, permissions: &Permissions) {
        let path = self.mappings_of(user.subject.as_str());
        let held = names(&self.api.get(&path).await);
        // The default roles of every user are no permissions.
        let built_in = format!("default-roles-{}", self.keycloak.realm);
        let right: BTreeSet<_> = permissions.iter().map(Permission::as_str).collect();
        let held: BTreeSet<_> = held.iter().map(String::as_str).collect();
        let held: BTreeSet<_> = held.into_iter().filter(|name| *name != built_in).collect();
        let surplus: Vec<_> = held.difference(&right).copied().collect();
        let missing: Vec<_> = right.difference(&held).copied().collect();
        self.map(Method::DELETE, &user.subject, &surplus).await;
        self.map(Method::POST, &user.subject, &missing).await;
    }

    async fn set_state(&self, user: &Account, state: AccountState) {
        let nothing_to_do = json!([]);
        let (enabled, actions) = match state {
            AccountState::Active => {
                let path = attacks_on(&user.subject);
                self.api.done(Method::DELETE, &path, None).await;
                (true, nothing_to_do)
            }
            AccountState::Disabled => (false, nothing_to_do),
            AccountState::Incomplete => (true, json!(["UPDATE_PASSWORD"])),
            AccountState::Locked => return self.lock(user).await,
        };
        let changes = [("enabled", json!(enabled)), ("requiredActions", actions)];
        self.change(&user.subject, &changes).await;
    }

    async fn end_session(&self, _user: &Account, session: &UpstreamSession) -> Vec<String> {
        let path = ["sessions", &session.id];
        self.ending(Method::DELETE, &path).await
    }

    async fn end_sessions_of(&self, user: &Account) -> Vec<String> {
        let path = ["users", user.subject.as_str(), "logout"];
        self.ending(Method::POST, &path).await
    }
}
