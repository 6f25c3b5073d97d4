//! A realm: one in-memory IAM, and the face of a Keycloak before it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use iam_adapters::Clock;
use iam_adapters::mock::Mock;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;
use url::Url;

use super::backchannel::Backchannel;
use super::refresh_token::RefreshKey;
use super::signing::RealmKeys;
use super::switches::Switches;

/// Which Keycloak this stands for: what the settings of the gateway say of theirs.
#[derive(Debug)]
pub struct Portrait {
    /// The address under which `/realms/…` is found.
    pub url: Url,
    /// The realm of the settings, which is the default namespace.
    pub realm: String,
    /// The gateway's client.
    pub client_id: String,
    /// Its secret.
    pub client_secret: SecretString,
    /// The client whose roles the permissions are; none: they are the realm's roles.
    pub permissions_client: Option<String>,
    /// What the realm calls itself, whatever name it is called by; none: it follows the `Host`.
    pub issuer: Option<String>,
}

/// Every realm there is.
#[derive(Debug)]
pub struct Realms {
    pub(super) portrait: Portrait,
    pub(super) keys: Arc<RealmKeys>,
    pub(super) backchannel: Option<Backchannel>,
    realms: RwLock<HashMap<String, Arc<Realm>>>,
}

impl Realms {
    /// No realm yet.
    #[must_use]
    pub fn new(portrait: Portrait, keys: Arc<RealmKeys>, backchannel: Option<Backchannel>) -> Self {
        Self {
            portrait,
            keys,
            backchannel,
            realms: RwLock::default(),
        }
    }

    /// Adds a realm, or puts it in the place of one of that name. None where the machine has no
    /// randomness for its keys.
    pub fn add(&self, name: &str, mock: Arc<Mock>, clock: Arc<dyn Clock>) -> Option<Arc<Realm>> {
        let realm = Arc::new(Realm {
            name: name.to_owned(),
            mock,
            clock,
            switches: RwLock::default(),
            refresh_key: RefreshKey::generate()?,
        });
        let mut realms = self.realms.write().unwrap_or_else(PoisonError::into_inner);
        realms.insert(name.to_owned(), Arc::clone(&realm));
        Some(realm)
    }

    /// The realm of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<Realm>> {
        let realms = self.realms.read().unwrap_or_else(PoisonError::into_inner);
        realms.get(name).cloned()
    }

    /// What a realm calls itself to whoever calls the server by this name.
    pub(super) fn issuer(&self, realm: &Realm, host: &str) -> String {
        let Portrait { url, issuer, .. } = &self.portrait;
        match issuer {
            Some(issuer) if realm.name == self.portrait.realm => issuer.clone(),
            Some(_) | None => below(url, host, &["realms", &realm.name]),
        }
    }

    /// The name by which the settings call the server.
    pub(super) fn own_host(&self) -> String {
        let url = &self.portrait.url;
        let host = url.host_str().unwrap_or_default();
        url.port()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Which client this is.
    pub(super) fn client(&self, realm: &Realm, id: &str, secret: &str) -> Result<(), NoClient> {
        let same = |known: &SecretString| {
            let known = known.expose_secret().as_bytes();
            bool::from(known.ct_eq(secret.as_bytes()))
        };
        let portrait = &self.portrait;
        let switches = realm.switches();
        let right = if id == portrait.client_id {
            same(&portrait.client_secret)
        } else if let Some(other) = switches.client(id) {
            same(other)
        } else if portrait.permissions_client.as_deref() == Some(id) {
            // It stands for the API, and nobody logs in as it.
            false
        } else {
            return Err(NoClient::Unknown);
        };
        right.then_some(()).ok_or(NoClient::Secret)
    }
}

/// Why a caller is no client of the realm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoClient {
    /// There is none of that id.
    Unknown,
    /// There is one, and the secret is not its own.
    Secret,
}

/// One realm.
pub struct Realm {
    pub(super) name: String,
    pub(super) mock: Arc<Mock>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) switches: RwLock<Switches>,
    pub(super) refresh_key: RefreshKey,
}

impl Realm {
    /// The IAM behind it.
    #[must_use]
    pub fn mock(&self) -> &Mock {
        &self.mock
    }

    /// The time, in whole seconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.clock.now().unix_seconds()
    }

    pub(super) fn switches(&self) -> RwLockReadGuard<'_, Switches> {
        self.switches.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Realm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Realm")
            .field("name", &self.name)
            .field("mock", &self.mock)
            .finish_non_exhaustive()
    }
}

/// An address below the server's, whose host is the one that was called.
pub(super) fn below(server: &Url, host: &str, parts: &[&str]) -> String {
    let path = server.path().trim_end_matches('/');
    let called = format!("{}://{host}{path}", server.scheme());
    let Ok(mut url) = Url::parse(&called) else {
        return called;
    };
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(parts);
    }
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_follows_the_host_by_which_the_server_was_called() {
        for (server, host, issuer) in [
            ("http://localhost:8180", "localhost:8180", "http://localhost:8180/realms/a%20b"),
            ("http://localhost:8180/", "127.0.0.1:1", "http://127.0.0.1:1/realms/a%20b"),
            ("https://iam.test/auth/", "iam.test", "https://iam.test/auth/realms/a%20b"),
        ] {
            let server = Url::parse(server).expect("an address");
            assert_eq!(below(&server, host, &["realms", "a b"]), issuer);
        }
    }
}
