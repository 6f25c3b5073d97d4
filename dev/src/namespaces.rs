//! Namespaces: isolated IAMs, each with its own clock and its own gateway or, in `mock-iam`, its own realm.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use auth_gateway::health::Lifecycle;
use auth_gateway::http::AppState;
use auth_gateway_core::request::RequestContext;
use iam_adapters::Subject;
use mock_iam::journal::Journal;
use mock_iam::wire::Realm;
use mock_iam::{Mock, ShiftedClock};
use parking_lot::RwLock;
use thiserror::Error;
use tokio::task::JoinSet;

use crate::snapshots::{Snapshot, Snapshots};

const NAME_BYTES_MAX: usize = 64;

/// The name of a namespace: 1 to 64 ASCII letters, digits, `.`, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespaceName(String);

/// The text is not a namespace name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a namespace's name has 1 to 64 of A-Z a-z 0-9 . _ -")]
pub struct InvalidNamespaceName;

impl NamespaceName {
    /// The name of the namespace of requests that name none.
    #[must_use]
    pub fn default_name() -> Self {
        Self("default".to_owned())
    }

    /// Parses a name.
    ///
    /// # Errors
    ///
    /// [`InvalidNamespaceName`].
    pub fn parse(text: &str) -> Result<Self, InvalidNamespaceName> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let bounded = (1..=NAME_BYTES_MAX).contains(&text.len());
        // `.` and `..` have another meaning in a path.
        if bounded && text.bytes().all(allowed) && text.bytes().any(|byte| byte != b'.') {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidNamespaceName)
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NamespaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A namespace: an IAM, its clock, and what serves it.
#[derive(Debug)]
pub struct Namespace {
    /// Its name.
    pub name: NamespaceName,
    /// The IAM.
    pub mock: Arc<Mock>,
    /// The clock of the IAM and of the gateway.
    pub clock: Arc<ShiftedClock>,
    /// What serves the IAM.
    pub front: Front,
    /// Whether its gateway has the permissions of users from elsewhere (`permissions.source`), not from the IAM.
    pub has_permission_source: bool,
    /// The tasks of its gateway, which end with the namespace; none in `mock-iam`.
    pub background: JoinSet<()>,
    /// Its snapshots.
    pub snapshots: Arc<Snapshots>,
}

/// What serves the IAM of a namespace.
#[derive(Debug)]
pub enum Front {
    /// A gateway in the same process: the shared state of its request handlers.
    Gateway(Arc<AppState>),
    /// Keycloak's protocol, in `mock-iam`.
    Realm(Arc<Realm>),
}

impl Namespace {
    /// One of `mock-iam`, without a gateway.
    #[must_use]
    pub fn of_realm(
        name: NamespaceName,
        mock: Arc<Mock>,
        clock: Arc<ShiftedClock>,
        realm: Realm,
    ) -> Self {
        Self {
            name,
            mock,
            clock,
            front: Front::Realm(Arc::new(realm)),
            has_permission_source: false,
            background: JoinSet::new(),
            snapshots: Arc::default(),
        }
    }

    /// Its gateway; none in `mock-iam`.
    #[must_use]
    pub const fn gateway(&self) -> Option<&Arc<AppState>> {
        match &self.front {
            Front::Gateway(app_state) => Some(app_state),
            Front::Realm(_) => None,
        }
    }

    /// Its realm in `mock-iam`.
    #[must_use]
    pub const fn realm(&self) -> Option<&Arc<Realm>> {
        match &self.front {
            Front::Gateway(_) => None,
            Front::Realm(realm) => Some(realm),
        }
    }

    /// Sends the logout token of a session, with `sub` and `sid`, as Keycloak does (OpenID Connect
    /// Back-Channel Logout 1.0 section 2.5). Returns whether the gateway accepted it.
    pub async fn notify_logout(&self, subject: &Subject, session_id: &str) -> bool {
        let app_state = match &self.front {
            Front::Gateway(app_state) => app_state,
            Front::Realm(realm) => return realm.notify_logout(subject, session_id).await,
        };
        let directory = self.mock.directory();
        let Some(token) = directory.logout_token(Some(subject), Some(session_id)) else {
            return false;
        };
        let request = RequestContext::default();
        let received = app_state.gateway.receive_logout_token(&request, &token);
        let received = received.await.inspect_err(
            |error| tracing::warn!(%error, "the gateway refused a logout token of the mock"),
        );
        received.is_ok()
    }
}

/// Creates a namespace in its initial state: the configured users, no session, no fault, real time. The calls to its IAM
/// are recorded in the journal.
pub type NamespaceFactory = Box<dyn Fn(&NamespaceName, Arc<Journal>) -> Namespace + Send + Sync>;

/// The limit of namespaces is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there are {0} namespaces already; delete those that are no longer needed")]
pub struct TooManyNamespaces(pub usize);

/// Why a namespace was not deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DeleteError {
    /// There is no namespace with this name.
    #[error("there is no such namespace")]
    Unknown,
    /// The default namespace always exists.
    #[error("the default namespace cannot be deleted")]
    Default,
}

/// All namespaces. A namespace is created when a request first names it.
pub struct Namespaces {
    factory: NamespaceFactory,
    /// Separate from `named`, because most requests use it.
    default: ArcSwap<Namespace>,
    /// A second name of the default namespace.
    alias: Option<NamespaceName>,
    named: RwLock<HashMap<NamespaceName, Arc<Namespace>>>,
    lifecycle: Lifecycle,
}

impl Namespaces {
    /// The limit, including the default namespace.
    pub const MAX: usize = 4096;

    /// The default namespace and the factory of others; `lifecycle` is that of the process.
    #[must_use]
    pub fn new(default: Namespace, factory: NamespaceFactory, lifecycle: Lifecycle) -> Self {
        Self {
            factory,
            default: ArcSwap::from_pointee(default),
            alias: None,
            named: RwLock::default(),
            lifecycle,
        }
    }

    /// Sets a second name of the default namespace: that of its realm.
    #[must_use]
    pub fn also_called(self, alias: Option<NamespaceName>) -> Self {
        Self { alias, ..self }
    }

    /// The lifecycle of the process.
    #[must_use]
    pub const fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    fn is_default(&self, name: &NamespaceName) -> bool {
        self.default.load().name == *name || self.alias.as_ref() == Some(name)
    }

    /// The namespace of requests that name none.
    #[must_use]
    pub fn default_namespace(&self) -> Arc<Namespace> {
        self.default.load_full()
    }

    /// The namespace with this name. Creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// [`TooManyNamespaces`].
    pub fn get_or_create(&self, name: &NamespaceName) -> Result<Arc<Namespace>, TooManyNamespaces> {
        if let Some(namespace) = self.find(name) {
            return Ok(namespace);
        }
        let mut named = self.named.write();
        if let Some(namespace) = named.get(name) {
            return Ok(Arc::clone(namespace));
        }
        if named.len() + 1 >= Self::MAX {
            return Err(TooManyNamespaces(Self::MAX));
        }
        let namespace = Arc::new((self.factory)(name, Arc::default()));
        named.insert(name.clone(), Arc::clone(&namespace));
        Ok(namespace)
    }

    /// The namespace with this name, if it exists.
    #[must_use]
    pub fn find(&self, name: &NamespaceName) -> Option<Arc<Namespace>> {
        if self.is_default(name) {
            return Some(self.default_namespace());
        }
        self.named.read().get(name).cloned()
    }

    /// Every namespace: the default one first, then by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Namespace>> {
        let mut named: Vec<_> = self.named.read().values().cloned().collect();
        named.sort_by(|one, other| one.name.cmp(&other.name));
        named.insert(0, self.default_namespace());
        named
    }

    /// The number of namespaces.
    #[must_use]
    pub fn count(&self) -> usize {
        self.named.read().len() + 1
    }

    /// Replaces a namespace by one in its initial state, with a new gateway.
    ///
    /// # Errors
    ///
    /// [`TooManyNamespaces`] if it does not exist and the limit is reached.
    pub fn reset(&self, name: &NamespaceName) -> Result<Arc<Namespace>, TooManyNamespaces> {
        self.get_or_create(name)?;
        let namespace = Arc::new((self.factory)(name, Arc::default()));
        self.replace(Arc::clone(&namespace));
        Ok(namespace)
    }

    /// Deletes every namespace and resets the default one.
    pub fn reset_all(&self) {
        self.named.write().clear();
        let name = self.default.load().name.clone();
        self.replace(Arc::new((self.factory)(&name, Arc::default())));
    }

    /// Restores a snapshot of a namespace, with a new gateway. The journal, the snapshots and the settings of the realm stay
    /// as they are.
    pub fn restore(&self, namespace: &Namespace, snapshot: &Snapshot) {
        let mock = &namespace.mock;
        let mut restored = (self.factory)(&namespace.name, Arc::clone(mock.journal()));
        snapshot.restore_into(&restored);
        restored.mock.directory().take_over_from(mock.directory());
        restored.mock.faults().take_over_from(mock.faults());
        if let (Some(before), Some(realm)) = (namespace.realm(), restored.realm()) {
            realm.take_over_from(before);
        }
        restored.snapshots = Arc::clone(&namespace.snapshots);
        self.replace(Arc::new(restored));
    }

    /// Deletes a namespace.
    ///
    /// # Errors
    ///
    /// [`DeleteError`].
    pub fn delete(&self, name: &NamespaceName) -> Result<(), DeleteError> {
        if self.is_default(name) {
            return Err(DeleteError::Default);
        }
        let deleted = self.named.write().remove(name);
        deleted.map(|_| ()).ok_or(DeleteError::Unknown)
    }

    /// Replaces the namespace with the same name. Requests in progress keep the old one.
    fn replace(&self, namespace: Arc<Namespace>) {
        if self.default.load().name == namespace.name {
            self.default.store(namespace);
        } else {
            self.named.write().insert(namespace.name.clone(), namespace);
        }
    }
}

impl fmt::Debug for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Namespaces({})", self.count())
    }
}

#[cfg(test)]
mod tests {
    use actix_web::App;
    use actix_web::http::StatusCode;
    use actix_web::middleware::from_fn;
    use actix_web::test::{TestRequest, call_service, init_service, read_body_json};
    use actix_web::web::Data;
    use iam_adapters::clock::SystemClock;
    use mock_iam::MockSettings;
    use mock_iam::wire::{RealmServer, ServerSettings};
    use serde_json::Value;

    use super::*;
    use crate::routing;

    #[test]
    fn namespace_name_has_1_to_64_characters_that_are_safe_in_a_path() {
        for name in ["a", "checkout-42", "Test_Suite.3", &"x".repeat(64)] {
            assert_eq!(
                NamespaceName::parse(name)
                    .map(|name| name.to_string())
                    .as_deref(),
                Ok(name)
            );
        }
        for invalid in ["", ".", "..", "a b", "a/b", "ä", "a\n", &"x".repeat(65)] {
            assert_eq!(
                NamespaceName::parse(invalid),
                Err(InvalidNamespaceName),
                "{invalid:?}"
            );
        }
    }

    /// The default namespace alone.
    fn namespaces() -> Namespaces {
        let settings = ServerSettings {
            url: "http://127.0.0.1".parse().expect("an address"),
            realm: "shop".to_owned(),
            client_id: "auth-gateway".to_owned(),
            client_secret: "a secret".into(),
            permissions_client: None,
            issuer: None,
        };
        let server = RealmServer::new(settings, Arc::default(), None);
        let server = Arc::new(server.expect("random numbers"));
        let create = move |name: &NamespaceName, journal: Arc<Journal>| {
            let clock = Arc::new(ShiftedClock::new(Arc::new(SystemClock::default())));
            let mock = Mock::connect(&MockSettings::default(), Arc::<ShiftedClock>::clone(&clock));
            let mock = Arc::new(mock.expect("the demo users").with_journal(journal));
            let realm = Realm::new(Arc::clone(&server), name.as_str(), Arc::clone(&mock));
            Namespace::of_realm(name.clone(), mock, clock, realm)
        };
        let default = create(&NamespaceName::default_name(), Arc::default());
        Namespaces::new(default, Box::new(create), Lifecycle::default())
    }

    #[actix_web::test]
    async fn there_are_4096_namespaces_at_most() {
        let namespaces = Arc::new(namespaces());
        let name = |text: &str| NamespaceName::parse(text).expect("a name");
        // One namespace under all names: only their number counts.
        let default = namespaces.default_namespace();
        for number in 1..4096 {
            let name = name(&format!("n{number}"));
            namespaces.named.write().insert(name, Arc::clone(&default));
        }
        let chosen = Arc::clone(&namespaces);
        let app = App::new()
            .wrap(from_fn(move |request, next| {
                routing::choose_gateway(Arc::clone(&chosen), request, next)
            }))
            .app_data(Data::from(Arc::clone(&namespaces)))
            .configure(routing::controls)
            .configure(routing::public);
        let app = init_service(app).await;
        for (request, error) in [
            (
                TestRequest::get().uri("/mock/v1/status"),
                "too_many_namespaces",
            ),
            (
                TestRequest::post().uri("/api/v1/auth/login"),
                "temporarily_unavailable",
            ),
        ] {
            let request = request.insert_header((routing::NAMESPACE, "one-more"));
            let response = call_service(&app, request.to_request()).await;
            assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS, "{error}");
            let body: Value = read_body_json(response).await;
            assert_eq!(body["error"], error);
        }
        let more = name("one-more");
        let refused = namespaces.get_or_create(&more).err();
        assert_eq!(refused, Some(TooManyNamespaces(4096)));
        // Existing namespaces still work.
        namespaces.get_or_create(&name("n4095")).expect("it exists");
        namespaces.delete(&name("n1")).expect("it exists");
        namespaces.get_or_create(&more).expect("room");
        namespaces.reset_all();
        assert_eq!(namespaces.count(), 1);
    }
}
