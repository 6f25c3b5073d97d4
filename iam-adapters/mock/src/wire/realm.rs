//! A realm: the IAM of one namespace, with the face of a Keycloak.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use auth_gateway::config::HostName;
use iam_adapters::Clock as _;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;
use url::Url;

use super::backchannel::Backchannel;
use super::refresh_token::RefreshKey;
use super::signing::RealmKeys;
use super::switches::Switches;
use crate::iam::Mock;
use crate::{Name, Namespaces, World};

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

impl Portrait {
    /// What a realm calls itself to whoever calls the server by the name of this host.
    #[must_use]
    pub fn issuer_of(&self, realm: &str, host: &str) -> String {
        match &self.issuer {
            Some(issuer) if realm == self.realm => issuer.clone(),
            Some(_) | None => below(&self.url, host, &["realms", realm]),
        }
    }

    /// The name by which the settings call the server, with its port.
    #[must_use]
    pub fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port();
        port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// The names by which clients call the server: those in its address and in the issuer.
    pub fn host_names(&self) -> impl Iterator<Item = HostName> {
        let issuer = self.issuer.as_deref().and_then(|url| Url::parse(url).ok());
        let urls = [Some(self.url.clone()), issuer];
        urls.into_iter()
            .flatten()
            .filter_map(|url| HostName::try_from(url.host_str()?).ok())
    }
}

/// Every realm there is: the one of the settings, which is the default namespace, and those of the
/// other namespaces, which have their names.
#[derive(Debug)]
pub struct Realms {
    pub(super) portrait: Arc<Portrait>,
    pub(super) keys: Arc<RealmKeys>,
    pub(super) backchannel: Option<Arc<Backchannel>>,
    namespaces: Arc<Namespaces>,
    faces: RwLock<HashMap<Name, Face>>,
}

/// What a realm is beside its IAM.
#[derive(Debug)]
struct Face {
    /// The IAM that it was set for: one that began anew has a realm set as at the start.
    mock: Weak<Mock>,
    features: Arc<Features>,
}

impl Face {
    fn is_of(&self, mock: &Arc<Mock>) -> bool {
        std::ptr::eq(self.mock.as_ptr(), Arc::as_ptr(mock))
    }
}

impl Realms {
    /// The realms of these namespaces.
    #[must_use]
    pub fn new(
        portrait: Arc<Portrait>,
        keys: Arc<RealmKeys>,
        backchannel: Option<Arc<Backchannel>>,
        namespaces: Arc<Namespaces>,
    ) -> Self {
        Self {
            portrait,
            keys,
            backchannel,
            namespaces,
            faces: RwLock::default(),
        }
    }

    /// The path below which the realms are, as in the settings.
    #[must_use]
    pub fn path(&self) -> &str {
        self.portrait.url.path()
    }

    /// The realm of that name.
    pub(super) fn find(&self, name: &str) -> Option<Realm> {
        let world = if name == self.portrait.realm {
            self.namespaces.default_world()
        } else {
            let name = Name::parse(name).ok()?;
            let named = self.namespaces.find(&name)?;
            // Of those who name none nobody speaks by name.
            (named.name != Name::unnamed()).then_some(named)?
        };
        self.of(world)
    }

    /// The realm of a namespace. None where the machine has no randomness for its key.
    pub(crate) fn of(&self, world: Arc<World>) -> Option<Realm> {
        let faces = self.faces.read().unwrap_or_else(PoisonError::into_inner);
        let known = faces.get(&world.name);
        let known = known.filter(|face| face.is_of(&world.mock));
        let known = known.map(|face| Arc::clone(&face.features));
        drop(faces);
        let features = known.map_or_else(|| self.make_up(&world), Some)?;
        let name = if world.name == Name::unnamed() {
            self.portrait.realm.clone()
        } else {
            world.name.to_string()
        };
        Some(Realm {
            name,
            world,
            features,
        })
    }

    /// Gives a realm a face. Its key stays, because a session may come back out of a snapshot.
    fn make_up(&self, world: &World) -> Option<Arc<Features>> {
        let mut faces = self.faces.write().unwrap_or_else(PoisonError::into_inner);
        // Those of namespaces that were forgotten.
        faces.retain(|name, _| self.namespaces.find(name).is_some());
        let before = faces.get(&world.name);
        let features = match before {
            Some(face) if face.is_of(&world.mock) => return Some(Arc::clone(&face.features)),
            Some(face) => Features {
                switches: RwLock::default(),
                refresh_key: Arc::clone(&face.features.refresh_key),
            },
            None => Features {
                switches: RwLock::default(),
                refresh_key: Arc::new(RefreshKey::generate()?),
            },
        };
        let features = Arc::new(features);
        let face = Face {
            mock: Arc::downgrade(&world.mock),
            features: Arc::clone(&features),
        };
        faces.insert(world.name.clone(), face);
        Some(features)
    }

    /// What a realm calls itself to whoever calls the server by this name.
    pub(super) fn issuer(&self, realm: &Realm, host: &str) -> String {
        self.portrait.issuer_of(&realm.name, host)
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

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Features")
            .field("switches", &self.switches)
            .finish_non_exhaustive()
    }
}

/// One realm.
pub(crate) struct Realm {
    pub(super) name: String,
    pub(super) world: Arc<World>,
    features: Arc<Features>,
}

struct Features {
    switches: RwLock<Switches>,
    refresh_key: Arc<RefreshKey>,
}

impl Realm {
    /// The IAM behind it.
    pub(super) fn mock(&self) -> &Mock {
        &self.world.mock
    }

    /// The time, in whole seconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.world.clock.now().unix_seconds()
    }

    /// The key of its refresh tokens.
    pub(super) fn refresh_key(&self) -> &RefreshKey {
        &self.features.refresh_key
    }

    /// How it is set.
    pub(super) fn switches(&self) -> RwLockReadGuard<'_, Switches> {
        let switches = self.features.switches.read();
        switches.unwrap_or_else(PoisonError::into_inner)
    }

    /// How it is set, to be set otherwise.
    pub(super) fn switches_mut(&self) -> RwLockWriteGuard<'_, Switches> {
        let switches = self.features.switches.write();
        switches.unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Realm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Realm")
            .field("name", &self.name)
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
