//! Realms: each serves an IAM in Keycloak's protocol, with settings and a key of its own.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::error::Unspecified;
use iam_adapters::Subject;
use parking_lot::{RwLock, RwLockReadGuard};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use url::Url;

use super::backchannel::Backchannel;
use super::refresh_token::RefreshKey;
use super::signing::RealmKeys;
use crate::iam::{Lockout, Mock};

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
}

type FindRealm = dyn Fn(&str) -> Option<Arc<Realm>> + Send + Sync;

/// Finds the realm with a name.
pub struct Realms(Box<FindRealm>);

impl Realms {
    /// Realms that are found by this function.
    pub fn new(find: impl Fn(&str) -> Option<Arc<Realm>> + Send + Sync + 'static) -> Self {
        Self(Box::new(find))
    }

    /// The realm with this name.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Realm>> {
        (self.0)(name)
    }
}

impl fmt::Debug for Realms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Realms").finish_non_exhaustive()
    }
}

/// What the realms of a server share.
#[derive(Debug)]
pub struct RealmServer {
    pub(super) settings: ServerSettings,
    pub(super) keys: Arc<RealmKeys>,
    backchannel: Option<Backchannel>,
    /// The keys of the realms are derived from it, so that a realm that is created again has the same.
    refresh_key: RefreshKey,
}

impl RealmServer {
    /// A server without realms. Without a `backchannel` it sends no logout tokens.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub fn new(
        settings: ServerSettings,
        keys: Arc<RealmKeys>,
        backchannel: Option<Backchannel>,
    ) -> Result<Self, Unspecified> {
        Ok(Self {
            settings,
            keys,
            backchannel,
            refresh_key: RefreshKey::generate()?,
        })
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &ServerSettings {
        &self.settings
    }
}

/// One realm.
pub struct Realm {
    pub(super) name: String,
    pub(super) server: Arc<RealmServer>,
    pub(super) mock: Arc<Mock>,
    /// The key of its refresh tokens.
    pub(super) refresh_key: RefreshKey,
    settings: RwLock<RealmSettings>,
}

impl Realm {
    /// A realm with the initial settings, for this IAM.
    #[must_use]
    pub fn new(server: Arc<RealmServer>, name: &str, mock: Arc<Mock>) -> Self {
        Self {
            name: name.to_owned(),
            refresh_key: server.refresh_key.of_realm(name),
            server,
            mock,
            settings: RwLock::default(),
        }
    }

    /// Its settings.
    pub(super) fn settings(&self) -> RwLockReadGuard<'_, RealmSettings> {
        self.settings.read()
    }

    /// The time in whole seconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.mock.directory().now().as_secs()
    }

    /// The issuer in responses to requests with this `Host`.
    pub(super) fn issuer(&self, host: &str) -> String {
        self.server.settings.issuer_of(&self.name, host)
    }

    /// Authenticates a client.
    pub(super) fn client(&self, id: &str, secret: &str) -> Result<(), ClientAuthError> {
        let same = |known: &SecretString| {
            let known = known.expose_secret().as_bytes();
            bool::from(known.ct_eq(secret.as_bytes()))
        };
        let server = &self.server.settings;
        let settings = self.settings();
        let right = if id == server.client_id {
            same(&server.client_secret)
        } else if let Some(other) = settings.client(id) {
            same(other)
        } else if server.permissions_client.as_deref() == Some(id) {
            // This client represents the API and has no secret.
            false
        } else {
            return Err(ClientAuthError::Unknown);
        };
        right.then_some(()).ok_or(ClientAuthError::Secret)
    }

    /// Sends the logout token of a session. Returns whether the gateway accepted it.
    pub async fn notify_logout(&self, subject: &Subject, session_id: &str) -> bool {
        let identity = self.mock.directory().identity();
        let parties = (identity.issuer.as_str(), identity.client.as_str());
        self.send_logout_token(parties, subject, session_id).await
    }

    /// Sends the logout token of a session from an issuer to an audience. Only the gateway's client has an
    /// address for logout tokens.
    pub(super) async fn send_logout_token(
        &self,
        parties: (&str, &str),
        subject: &Subject,
        session_id: &str,
    ) -> bool {
        let is_gateway = parties.1 == self.server.settings.client_id;
        let Some(backchannel) = self.server.backchannel.as_ref().filter(|_| is_gateway) else {
            return false;
        };
        let session = (subject.as_str(), session_id);
        match self.server.keys.logout_token(parties, session, self.now()) {
            Some(token) => backchannel.send(&token).await,
            None => false,
        }
    }
}

impl fmt::Debug for Realm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Realm")
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
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

/// The settings of a realm that can be changed. Shown without secrets.
#[derive(Debug, Clone, Serialize)]
pub(super) struct RealmSettings {
    pub(super) enabled: bool,
    pub(super) direct_grants: bool,
    pub(super) ssl_required: bool,
    other_clients: Vec<OtherClient>,
}

impl Default for RealmSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            direct_grants: true,
            ssl_required: false,
            other_clients: Vec::new(),
        }
    }
}

impl RealmSettings {
    /// The secret of a client other than the gateway's.
    fn client(&self, id: &str) -> Option<&SecretString> {
        let mut others = self.other_clients.iter();
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

/// Shows the id only.
impl Serialize for OtherClient {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.client_id)
    }
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
pub struct RealmSettingsChange {
    #[serde(default)]
    enabled: Option<bool>,
    #[serde(default)]
    direct_grants: Option<bool>,
    #[serde(default)]
    ssl_required: Option<bool>,
    #[serde(default)]
    other_clients: Option<Vec<OtherClient>>,
    /// `null`: accounts are never locked out.
    #[serde(default, deserialize_with = "present")]
    #[expect(
        clippy::option_option,
        reason = "an absent member and null differ, as in RFC 7396"
    )]
    lockout: Option<Option<Lockout>>,
}

/// The value of a member that is present, which may be null.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl Realm {
    /// Its name and settings, without secrets.
    #[must_use]
    pub fn description(&self) -> impl Serialize {
        #[derive(Serialize)]
        struct Description {
            realm: String,
            #[serde(flatten)]
            settings: RealmSettings,
            lockout: Option<Lockout>,
        }

        Description {
            realm: self.name.clone(),
            settings: self.settings().clone(),
            lockout: self.mock.directory().lockout(),
        }
    }

    /// Changes its settings.
    pub fn change(&self, change: &RealmSettingsChange) {
        let mut settings = self.settings.write();
        let set = |setting: &mut bool, to: Option<bool>| *setting = to.unwrap_or(*setting);
        set(&mut settings.enabled, change.enabled);
        set(&mut settings.direct_grants, change.direct_grants);
        set(&mut settings.ssl_required, change.ssl_required);
        if let Some(others) = &change.other_clients {
            settings.other_clients.clone_from(others);
        }
        if let Some(lockout) = change.lockout {
            self.mock.directory().set_lockout(lockout);
        }
    }

    /// Takes the settings of the realm that this one replaces. That of lock-outs is the IAM's.
    pub fn take_over_from(&self, before: &Self) {
        let kept = before.settings().clone();
        *self.settings.write() = kept;
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
