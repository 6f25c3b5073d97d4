//! The mock over the wire, with the Keycloak adapter.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use auth_gateway_dev::{MockIam, MockIamSettings, Namespace, Namespaces};
use iam_adapters::keycloak::KeycloakSettings;
use iam_adapters::settings::AdapterSettings as _;
use iam_adapters::{Clock, IamAdapter, OAuth2ClientSettings};
use mock_iam::Users;
use mock_iam::wire::{RealmKeys, ServerSettings};
use test_support::gateway::Running;

mod administrator;
mod conformance;
mod faults;
mod hosts;
mod journal;
mod promises;
mod realms;

const REALM: &str = "shop";
const CLIENT: &str = "auth-gateway";
const SECRET: &str = "a client secret: of the mock's";
const PERMISSIONS_CLIENT: &str = "shop-api";
const SESSION_LIFETIME: Duration = Duration::from_secs(8 * 3600);

/// Shared, because generating an RSA key takes longer than a test.
static KEYS: LazyLock<Arc<RealmKeys>> = LazyLock::new(Arc::default);

/// A running mock without users. Dropping it stops it.
struct RunningMock {
    url: String,
    namespaces: Arc<Namespaces>,
    permissions_client: Option<String>,
    _running: Running,
}

impl RunningMock {
    /// Permissions are the roles of a client.
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with(clock, Some(PERMISSIONS_CLIENT.to_owned()), None)
    }

    fn with(
        clock: Arc<dyn Clock>,
        permissions_client: Option<String>,
        message: Option<String>,
    ) -> Self {
        let settings = MockIamSettings {
            listen: "127.0.0.1:0".parse().expect("an address"),
            server_settings: ServerSettings {
                url: "http://127.0.0.1".parse().expect("an address"),
                realm: REALM.to_owned(),
                client_id: CLIENT.to_owned(),
                client_secret: SECRET.into(),
                permissions_client: permissions_client.clone(),
                issuer: None,
            },
            address_is_url: true,
            users: Users::default(),
            session_lifetime: SESSION_LIFETIME,
            backchannel_logout_url: message.map(|url| url.parse().expect("an address")),
            allowed_hosts: vec!["mock-iam".try_into().expect("a name")],
            clock,
            keys: Arc::clone(&KEYS),
        };
        let ((address, namespaces), running) = Running::start(move |stopped| {
            let mock = MockIam::build(settings).expect("a free port");
            let needed = (mock.address(), Arc::clone(mock.namespaces()));
            let stopped = async move { drop(stopped.await) };
            (needed, mock.run_until_stopped(stopped))
        });
        Self {
            url: format!("http://{address}"),
            namespaces,
            permissions_client,
            _running: running,
        }
    }

    /// The namespace of its realm.
    fn namespace(&self) -> Arc<Namespace> {
        self.namespaces.default_namespace()
    }

    fn settings(&self) -> KeycloakSettings {
        KeycloakSettings {
            url: self.url.parse().expect("an address"),
            realm: REALM.to_owned(),
            client: client_auth(CLIENT, SECRET),
            permissions_client: self.permissions_client.clone(),
            issuer: None,
        }
    }

    /// The Keycloak adapter for it.
    fn adapter(&self) -> Arc<dyn IamAdapter> {
        adapter(&self.settings())
    }
}

fn client_auth(client_id: &str, secret: &str) -> OAuth2ClientSettings {
    OAuth2ClientSettings {
        client_id: client_id.to_owned(),
        client_secret: Some(secret.into()),
        ..OAuth2ClientSettings::default()
    }
}

fn adapter(settings: &KeycloakSettings) -> Arc<dyn IamAdapter> {
    let clock = Arc::new(iam_adapters::clock::SystemClock::default());
    let adapter = settings.connect("iam.keycloak", clock, Duration::from_secs(5), None);
    adapter.expect("usable settings")
}
