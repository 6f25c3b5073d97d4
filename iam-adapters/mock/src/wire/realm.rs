//! Realms: each serves the IAM of one namespace in Keycloak's protocol, with settings and a key of its
//! own.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use auth_gateway::config::HostName;
use iam_adapters::Clock as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use url::Url;

use super::backchannel::Backchannel;
use super::refresh_token::RefreshKey;
use super::signing::RealmKeys;
use crate::iam::Mock;
use crate::{Namespace, NamespaceName, Namespaces};

/// The Keycloak to emulate: with the same settings as the gateway.
#[derive(Debug)]
pub struct ServerSettings {
    /// The base URL of `/realms/…`.
    pub url: Url,
    /// The realm of the default namespace.
    pub realm: String,
    /// The gateway's client id.
    pub client_id: String,
    /// The gateway's client secret.
    pub client_secret: SecretString,
    /// The client whose roles are the permissions; none: the realm's roles.
    pub permissions_client: Option<String>,
    /// A fixed issuer; none: the issuer follows `Host`.
    pub issuer: Option<String>,
}

impl ServerSettings {
    /// The issuer of a realm in responses to requests with this `Host`.
    #[must_use]
    pub fn issuer_of(&self, realm: &str, host: &str) -> String {
        match &self.issuer {
            Some(issuer) if realm == self.realm => issuer.clone(),
            Some(_) | None => below(&self.url, host, &["realms", realm]),
        }
    }

    /// The host and port of the URL.
    #[must_use]
    pub fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port();
        port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// The host names of the URL and of the issuer.
    pub fn host_names(&self) -> impl Iterator<Item = HostName> {
        let issuer = self.issuer.as_deref().and_then(|url| Url::parse(url).ok());
        let urls = [Some(self.url.clone()), issuer];
        urls.into_iter()
            .flatten()
            .filter_map(|url| HostName::try_from(url.host_str()?).ok())
    }
}

/// Every realm: that of the settings, which is the default namespace, and one of the same name for
/// each other namespace.
#[derive(Debug)]
pub struct Realms {
    pub(super) server_settings: Arc<ServerSettings>,
    pub(super) keys: Arc<RealmKeys>,
    pub(super) backchannel: Option<Arc<Backchannel>>,
    namespaces: Arc<Namespaces>,
    states: RwLock<HashMap<NamespaceName, Arc<RealmState>>>,
}

/// The settings and key of a realm.
struct RealmState {
    /// The IAM to which the settings belong. A namespace that was reset has a new IAM, and its realm
    /// has the initial settings again.
    mock: Weak<Mock>,
    settings: RwLock<RealmSettings>,
    refresh_key: Arc<RefreshKey>,
}

impl RealmState {
    fn is_of(&self, mock: &Arc<Mock>) -> bool {
        std::ptr::eq(self.mock.as_ptr(), Arc::as_ptr(mock))
    }
}

impl Realms {
    /// The realms of these namespaces.
    #[must_use]
    pub fn new(
        server_settings: Arc<ServerSettings>,
        keys: Arc<RealmKeys>,
        backchannel: Option<Arc<Backchannel>>,
        namespaces: Arc<Namespaces>,
    ) -> Self {
        Self {
            server_settings,
            keys,
            backchannel,
            namespaces,
            states: RwLock::default(),
        }
    }

    /// The base path of the realms.
    #[must_use]
    pub fn path(&self) -> &str {
        self.server_settings.url.path()
    }

    /// The realm with this name.
    pub(super) fn find(&self, name: &str) -> Option<Realm> {
        let namespace = if name == self.server_settings.realm {
            self.namespaces.default_namespace()
        } else {
            let name = NamespaceName::parse(name).ok()?;
            let named = self.namespaces.find(&name)?;
            // The default namespace has the realm of the settings only.
            (named.name != NamespaceName::default_name()).then_some(named)?
        };
        self.of(namespace)
    }

    /// The realm of a namespace. None if the system has no random numbers for its key.
    pub(crate) fn of(&self, namespace: Arc<Namespace>) -> Option<Realm> {
        let states = self.states.read().unwrap_or_else(PoisonError::into_inner);
        let known = states.get(&namespace.name);
        let known = known.filter(|state| state.is_of(&namespace.mock)).cloned();
        drop(states);
        let state = known.map_or_else(|| self.create_state(&namespace), Some)?;
        let name = if namespace.name == NamespaceName::default_name() {
            self.server_settings.realm.clone()
        } else {
            namespace.name.to_string()
        };
        Some(Realm {
            name,
            namespace,
            state,
        })
    }

    /// Creates the state of a realm. The key is kept, because a snapshot may restore its sessions.
    fn create_state(&self, namespace: &Namespace) -> Option<Arc<RealmState>> {
        let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
        // Drop the states of deleted namespaces.
        states.retain(|name, _| self.namespaces.find(name).is_some());
        let refresh_key = match states.get(&namespace.name) {
            Some(state) if state.is_of(&namespace.mock) => return Some(Arc::clone(state)),
            Some(state) => Arc::clone(&state.refresh_key),
            None => Arc::new(RefreshKey::generate()?),
        };
        let state = Arc::new(RealmState {
            mock: Arc::downgrade(&namespace.mock),
            settings: RwLock::default(),
            refresh_key,
        });
        states.insert(namespace.name.clone(), Arc::clone(&state));
        Some(state)
    }

    /// The issuer of a realm in responses to requests with this `Host`.
    pub(super) fn issuer(&self, realm: &Realm, host: &str) -> String {
        self.server_settings.issuer_of(&realm.name, host)
    }

    /// Authenticates a client.
    pub(super) fn client(
        &self,
        realm: &Realm,
        id: &str,
        secret: &str,
    ) -> Result<(), ClientAuthError> {
        let same = |known: &SecretString| {
            let known = known.expose_secret().as_bytes();
            bool::from(known.ct_eq(secret.as_bytes()))
        };
        let server_settings = &self.server_settings;
        let settings = realm.settings();
        let right = if id == server_settings.client_id {
            same(&server_settings.client_secret)
        } else if let Some(other) = settings.client(id) {
            same(other)
        } else if server_settings.permissions_client.as_deref() == Some(id) {
            // This client represents the API and has no secret.
            false
        } else {
            return Err(ClientAuthError::Unknown);
        };
        right.then_some(()).ok_or(ClientAuthError::Secret)
    }
}

/// Why a client was not authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientAuthError {
    /// There is no client with this id.
    Unknown,
    /// The secret is wrong.
    Secret,
}

impl fmt::Debug for RealmState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealmState")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// One realm.
pub(crate) struct Realm {
    pub(super) name: String,
    pub(super) namespace: Arc<Namespace>,
    state: Arc<RealmState>,
}

impl Realm {
    /// Its IAM.
    pub(super) fn mock(&self) -> &Mock {
        &self.namespace.mock
    }

    /// The time in whole seconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.namespace.clock.now().unix_seconds()
    }

    /// The key of its refresh tokens.
    pub(super) fn refresh_key(&self) -> &RefreshKey {
        &self.state.refresh_key
    }

    /// Its settings.
    pub(super) fn settings(&self) -> RwLockReadGuard<'_, RealmSettings> {
        let settings = self.state.settings.read();
        settings.unwrap_or_else(PoisonError::into_inner)
    }

    fn settings_mut(&self) -> RwLockWriteGuard<'_, RealmSettings> {
        let settings = self.state.settings.write();
        settings.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Realm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Realm")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A URL below that of the server, with the requested host.
pub(super) fn below(server: &Url, host: &str, parts: &[&str]) -> String {
    let path = server.path().trim_end_matches('/');
    let base = format!("{}://{host}{path}", server.scheme());
    let Ok(mut url) = Url::parse(&base) else {
        return base;
    };
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(parts);
    }
    url.into()
}

/// The settings of a realm that the control API can change.
#[derive(Debug, Clone)]
pub(super) struct RealmSettings {
    pub(super) enabled: bool,
    pub(super) direct_grants: bool,
    pub(super) ssl_required: bool,
    others: Vec<OtherClient>,
}

impl Default for RealmSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            direct_grants: true,
            ssl_required: false,
            others: Vec::new(),
        }
    }
}

impl RealmSettings {
    /// The secret of a client other than the gateway's.
    pub(super) fn client(&self, id: &str) -> Option<&SecretString> {
        let mut others = self.others.iter();
        let found = others.find(|other| other.client_id == id);
        found.map(|other| &other.client_secret)
    }
}

/// Another client of the realm. It can call the endpoints, but not for sessions of the gateway.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherClient {
    client_id: String,
    #[serde(deserialize_with = "secret")]
    client_secret: SecretString,
}

/// The error does not quote a value of another type, because it may be the secret.
fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecretString, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(secret) => Ok(secret.into()),
        _ => Err(D::Error::custom("must be a string")),
    }
}

/// A change of the settings. Members that are none keep their value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RealmSettingsChange {
    #[serde(default)]
    enabled: Option<bool>,
    #[serde(default)]
    direct_grants: Option<bool>,
    #[serde(default)]
    ssl_required: Option<bool>,
    #[serde(default)]
    other_clients: Option<Vec<OtherClient>>,
}

/// The settings of a realm, without secrets.
#[derive(Debug, Serialize)]
pub(crate) struct RealmSettingsResponse {
    realm: String,
    enabled: bool,
    direct_grants: bool,
    ssl_required: bool,
    other_clients: Vec<String>,
}

impl Realm {
    /// Its settings, without secrets.
    pub(crate) fn settings_response(&self) -> RealmSettingsResponse {
        let settings = self.settings();
        let others = settings.others.iter();
        RealmSettingsResponse {
            realm: self.name.clone(),
            enabled: settings.enabled,
            direct_grants: settings.direct_grants,
            ssl_required: settings.ssl_required,
            other_clients: others.map(|other| other.client_id.clone()).collect(),
        }
    }

    /// Changes its settings.
    pub(crate) fn change(&self, change: RealmSettingsChange) {
        let mut settings = self.settings_mut();
        let set = |setting: &mut bool, to: Option<bool>| *setting = to.unwrap_or(*setting);
        set(&mut settings.enabled, change.enabled);
        set(&mut settings.direct_grants, change.direct_grants);
        set(&mut settings.ssl_required, change.ssl_required);
        if let Some(others) = change.other_clients {
            settings.others = others;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuer_follows_the_requested_host() {
        for (server, host, issuer) in [
            (
                "http://localhost:8180",
                "localhost:8180",
                "http://localhost:8180/realms/a%20b",
            ),
            (
                "http://localhost:8180/",
                "127.0.0.1:1",
                "http://127.0.0.1:1/realms/a%20b",
            ),
            (
                "https://iam.test/auth/",
                "iam.test",
                "https://iam.test/auth/realms/a%20b",
            ),
        ] {
            let server = Url::parse(server).expect("an address");
            assert_eq!(below(&server, host, &["realms", "a b"]), issuer);
        }
    }
}
