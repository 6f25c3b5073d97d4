//! The server of `mock-iam`: Keycloak's protocol, the control API and the console on one listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_http::{HttpService, KeepAlive};
use actix_service::{ServiceFactoryExt as _, fn_service, map_config};
use actix_web::App;
use actix_web::dev::{AppConfig, Server};
use actix_web::middleware::from_fn;
use actix_web::web::{self, Data};
use anyhow::Context as _;
use auth_gateway::config::HttpSettings;
use auth_gateway::health::Lifecycle;
use auth_gateway_server as server;
use iam_adapters::Clock;
use mock_iam::faults::Faults;
use mock_iam::journal::Journal;
use mock_iam::wire::{
    self, Backchannel, Connection, Realm, RealmKeys, RealmServer, Realms, ServerSettings,
};
use mock_iam::{Directory, HostName, Identity, Mock, ShiftedClock, Users};
use tokio::net::TcpStream;
use url::Url;

use crate::hosts::AllowedHosts;
use crate::{Namespace, NamespaceName, Namespaces, routing};

/// Longer than any gateway keeps a connection that it does not use.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// The deadline of requests in progress at shutdown. A timeout fault would hold them for minutes.
const SHUTDOWN_SECONDS: u64 = 1;

/// The largest body: users files are sent to the control API.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The settings of [`MockIam`].
#[derive(Debug)]
pub struct MockIamSettings {
    /// The address; port 0 takes any free one.
    pub listen: SocketAddr,
    /// The Keycloak to emulate.
    pub server_settings: ServerSettings,
    /// Whether the bound address replaces the `url` of `server_settings`.
    pub address_is_url: bool,
    /// The initial users of every realm.
    pub users: Users,
    /// The lifetime of a session.
    pub session_lifetime: Duration,
    /// The endpoint for logout tokens; none: none are sent.
    pub backchannel_logout_url: Option<Url>,
    /// Allowed host names in addition to those of `server_settings`.
    pub allowed_hosts: Vec<HostName>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The signing keys of all realms.
    pub keys: Arc<RealmKeys>,
}

/// The server, bound to its port and not yet running.
pub struct MockIam {
    server: Server,
    address: SocketAddr,
    namespaces: Arc<Namespaces>,
    keys: Arc<RealmKeys>,
}

impl MockIam {
    /// Binds the listener. Needs a running actix system.
    ///
    /// # Errors
    ///
    /// If the port cannot be bound.
    pub fn build(settings: MockIamSettings) -> anyhow::Result<Self> {
        let socket = server::bind(settings.listen)
            .with_context(|| format!("cannot listen on {} (--listen)", settings.listen))?;
        let address = socket.local_addr()?;
        let mut server_settings = settings.server_settings;
        if settings.address_is_url {
            server_settings.url = format!("http://{address}").parse()?;
        }
        let backchannel = settings.backchannel_logout_url;
        let backchannel = backchannel.map(|url| Backchannel::new(url, Arc::clone(&settings.clock)));
        let mut allowed_hosts = settings.allowed_hosts;
        allowed_hosts.extend(host_names(&server_settings));
        let path = server_settings.url.path().to_owned();
        let realm = server_settings.realm.clone();
        let keys = Arc::clone(&settings.keys);
        let server = RealmServer::new(server_settings, settings.keys, backchannel.transpose()?)
            .context("the system has no random numbers")?;
        let factory = RealmNamespaces {
            server: Arc::new(server),
            users: settings.users,
            session_lifetime: settings.session_lifetime,
            clock: settings.clock,
        };
        let default = factory.create(&NamespaceName::default_name(), Arc::default());
        let namespaces = Namespaces::new(
            default,
            Box::new(move |name, journal| factory.create(name, journal)),
            Lifecycle::default(),
        );
        // A realm name that is not a valid namespace name is no alias.
        let alias = NamespaceName::parse(&realm).ok();
        let namespaces = Arc::new(namespaces.also_called(alias));
        let realms = {
            let namespaces = Arc::clone(&namespaces);
            Realms::new(move |name| find_realm(&namespaces, &realm, name))
        };
        let server = serve(socket, address, realms, path, &namespaces, allowed_hosts)?;
        Ok(Self {
            server,
            address,
            namespaces,
            keys,
        })
    }

    /// The bound address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The namespaces, which are its realms.
    #[must_use]
    pub const fn namespaces(&self) -> &Arc<Namespaces> {
        &self.namespaces
    }

    /// Serves until `stop` completes. Requests in progress then have one second.
    ///
    /// # Errors
    ///
    /// If the listener fails.
    pub async fn run_until_stopped(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        // In the background, so that the first request for the keys does not wait.
        let keys = self.keys;
        std::thread::spawn(move || keys.warm_up());
        let handle = self.server.handle();
        let serving = actix_web::rt::spawn(self.server);
        tracing::info!(http.address = %self.address, "listening");
        tokio::select! {
            served = serving => served?.context("the listener failed")?,
            () = stop => {
                // Ends requests that wait for journal entries.
                self.namespaces.lifecycle().drain();
                handle.stop(true).await;
            }
        }
        tracing::info!("stopped");
        Ok(())
    }
}

/// The host names of the URL and of the issuer.
fn host_names(settings: &ServerSettings) -> impl Iterator<Item = HostName> {
    let issuer = settings.issuer.as_deref();
    let issuer = issuer.and_then(|url| Url::parse(url).ok());
    let urls = [Some(settings.url.clone()), issuer].into_iter().flatten();
    urls.filter_map(|url| HostName::try_from(url.host_str()?).ok())
}

/// The realm with this name: that of the settings, which is the default namespace, or that of another
/// namespace.
fn find_realm(namespaces: &Namespaces, of_default: &str, name: &str) -> Option<Arc<Realm>> {
    let namespace = if name == of_default {
        namespaces.default_namespace()
    } else {
        let named = namespaces.find(&NamespaceName::parse(name).ok()?)?;
        // The default namespace has the realm of the settings only.
        (named.name != NamespaceName::default_name()).then_some(named)?
    };
    namespace.realm().cloned()
}

fn serve(
    socket: std::net::TcpListener,
    address: SocketAddr,
    realms: Realms,
    path: String,
    namespaces: &Arc<Namespaces>,
    allowed_hosts: Vec<HostName>,
) -> anyhow::Result<Server> {
    let (realms, namespaces) = (Data::new(realms), Data::from(Arc::clone(namespaces)));
    let server = Server::build()
        .disable_signals()
        .workers(HttpSettings::default().workers)
        .shutdown_timeout(SHUTDOWN_SECONDS);
    let stopping = server.graceful_shutdown_signal();
    let server = server.listen("mock-iam", socket, move || {
        let hosts: AllowedHosts = allowed_hosts.iter().cloned().collect();
        let app = App::new()
            .wrap(from_fn(move |request, next| {
                hosts.clone().check_host(request, next)
            }))
            .app_data(realms.clone())
            .app_data(namespaces.clone())
            .app_data(web::PayloadConfig::new(BODY_BYTES_MAX))
            .configure(routing::controls)
            .configure(|routes| wire::routes(routes, &path));
        let stopping = stopping.clone();
        let http = HttpService::build()
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .keep_alive(KeepAlive::Timeout(KEEP_ALIVE))
            // A client that closes its half gets no response, and held responses are dropped.
            .h1_allow_half_closed(false)
            .local_addr(address)
            .on_connect_ext(|connection: &Connection, data| {
                data.insert(connection.reset_handle());
            })
            .h1(map_config(app, |()| AppConfig::default()));
        fn_service(async |tcp: TcpStream| {
            let peer = tcp.peer_addr().ok();
            Ok((Connection::new(tcp), peer))
        })
        .and_then(http)
    })?;
    Ok(server.run())
}

/// Creates namespaces without a gateway.
struct RealmNamespaces {
    server: Arc<RealmServer>,
    users: Users,
    session_lifetime: Duration,
    clock: Arc<dyn Clock>,
}

impl RealmNamespaces {
    fn create(&self, name: &NamespaceName, journal: Arc<Journal>) -> Namespace {
        let clock = Arc::new(ShiftedClock::new(Arc::clone(&self.clock)));
        let time: Arc<dyn Clock> = Arc::<ShiftedClock>::clone(&clock);
        let server_settings = self.server.settings();
        let realm = if *name == NamespaceName::default_name() {
            &server_settings.realm
        } else {
            name.as_str()
        };
        let identity = Identity {
            issuer: server_settings.issuer_of(realm, &server_settings.host()),
            client: server_settings.client_id.clone(),
        };
        let users = self.users.clone();
        let directory = Directory::new(identity, users, self.session_lifetime, time);
        let mock = Mock::with(Arc::new(directory), Faults::over_the_wire()).with_journal(journal);
        let mock = Arc::new(mock);
        let realm = Realm::new(Arc::clone(&self.server), realm, Arc::clone(&mock));
        Namespace::of_realm(name.clone(), mock, clock, realm)
    }
}
