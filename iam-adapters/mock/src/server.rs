//! The mock IAM over the wire, on a listener of its own.

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
use auth_gateway::config::HostName;
use auth_gateway::health::Lifecycle;
use auth_gateway::server;
use iam_adapters::Clock;
use iam_adapters::clock::ShiftedClock;
use tokio::net::TcpStream;
use url::Url;

use crate::hosts::AllowedHosts;
use crate::iam::faults::Faults;
use crate::iam::{Directory, Identity, Mock, Users};
use crate::wire::{self, Backchannel, Connection, Portrait, RealmKeys, RealmVoice, Realms};
use crate::{LogoutReceiver, Name, Namespaces, World, routing};

/// Longer than any gateway keeps a connection that it does not use.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// How long what is under way may take at the end. Some of it would never end.
const SHUTDOWN_SECONDS: u64 = 1;

/// The largest body: users files are sent to the control API.
const BODY_BYTES_MAX: usize = 1 << 20;

/// What the mock is to be.
#[derive(Debug)]
pub struct Plan {
    /// The address; port 0 takes any free one.
    pub listen: SocketAddr,
    /// The Keycloak that is stood in for.
    pub portrait: Portrait,
    /// Whether that Keycloak is wherever this listens, whatever its `url` says.
    pub address_is_url: bool,
    /// The users that every realm begins with.
    pub users: Users,
    /// How long a session lives.
    pub session_lifetime: Duration,
    /// Who is told of logouts; none: nobody.
    pub backchannel_logout_url: Option<Url>,
    /// The names, besides those in the addresses of `portrait`, by which it may be addressed.
    pub allowed_hosts: Vec<HostName>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The keys of all realms.
    pub keys: Arc<RealmKeys>,
}

/// The mock, bound to its port and not yet running.
pub struct MockIam {
    server: Server,
    address: SocketAddr,
    namespaces: Arc<Namespaces>,
    keys: Arc<RealmKeys>,
}

impl MockIam {
    /// Binds the listener. Needs a running actix system around it.
    ///
    /// # Errors
    ///
    /// Where the port cannot be bound.
    pub fn build(plan: Plan) -> anyhow::Result<Self> {
        let socket = server::bind(plan.listen)
            .with_context(|| format!("cannot listen on {} (--listen)", plan.listen))?;
        let address = socket.local_addr()?;
        let mut portrait = plan.portrait;
        if plan.address_is_url {
            portrait.url = format!("http://{address}").parse()?;
        }
        let backchannel = match plan.backchannel_logout_url {
            None => None,
            Some(url) => Some(Arc::new(Backchannel::to(url, Arc::clone(&plan.clock))?)),
        };
        let mut allowed_hosts = plan.allowed_hosts;
        allowed_hosts.extend(portrait.host_names());
        let portrait = Arc::new(portrait);
        let founder = Founder {
            portrait: Arc::clone(&portrait),
            users: plan.users,
            session_lifetime: plan.session_lifetime,
            backchannel: backchannel.clone(),
            keys: Arc::clone(&plan.keys),
            clock: plan.clock,
        };
        let default = founder.world(&Name::unnamed());
        let namespaces = Namespaces::new(
            default,
            Box::new(move |name| founder.world(name)),
            Lifecycle::default(),
        );
        // The realm's name may be one that no namespace can have; then it has no other.
        let realm = Name::parse(&portrait.realm).ok();
        let namespaces = Arc::new(namespaces.also_called(realm));
        let keys = Arc::clone(&plan.keys);
        let realms = Realms::new(portrait, plan.keys, backchannel, Arc::clone(&namespaces));
        let server = serve(socket, address, realms, &namespaces, allowed_hosts)?;
        Ok(Self {
            server,
            address,
            namespaces,
            keys,
        })
    }

    /// Where it listens, also where the port was left to the system.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is in it.
    #[must_use]
    pub const fn namespaces(&self) -> &Arc<Namespaces> {
        &self.namespaces
    }

    /// Serves until `stop` comes; what is under way then has a second to end.
    ///
    /// # Errors
    ///
    /// Where the listener breaks.
    pub async fn run_until_stopped(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        // Beside, so that the first to ask for the keys need not wait for them.
        let keys = self.keys;
        std::thread::spawn(move || keys.warm_up());
        let handle = self.server.handle();
        let serving = actix_web::rt::spawn(self.server);
        tracing::info!(http.address = %self.address, "listening");
        tokio::select! {
            served = serving => served?.context("the listener broke")?,
            () = stop => {
                // Who waits for calls is told that none will come.
                self.namespaces.lifecycle().drain();
                handle.stop(true).await;
            }
        }
        tracing::info!("stopped");
        Ok(())
    }
}

fn serve(
    socket: std::net::TcpListener,
    address: SocketAddr,
    realms: Realms,
    namespaces: &Arc<Namespaces>,
    allowed_hosts: Vec<HostName>,
) -> anyhow::Result<Server> {
    let path = realms.path().to_owned();
    let (realms, namespaces) = (Data::new(realms), Data::from(Arc::clone(namespaces)));
    let server = Server::build()
        .disable_signals()
        .workers(server::available_cores())
        .shutdown_timeout(SHUTDOWN_SECONDS);
    let stopping = server.graceful_shutdown_signal();
    let server = server.listen("mock-iam", socket, move || {
        let hosts: AllowedHosts = allowed_hosts.iter().cloned().collect();
        let app = App::new()
            .wrap(from_fn(move |request, next| {
                hosts.clone().around(request, next)
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
            // Whoever hangs up is not answered, and what was held for them is let go.
            .h1_allow_half_closed(false)
            .local_addr(address)
            .on_connect_ext(|connection: &Connection, data| {
                data.insert(connection.line());
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

/// Makes realms.
struct Founder {
    portrait: Arc<Portrait>,
    users: Users,
    session_lifetime: Duration,
    backchannel: Option<Arc<Backchannel>>,
    keys: Arc<RealmKeys>,
    clock: Arc<dyn Clock>,
}

impl Founder {
    fn world(&self, name: &Name) -> World {
        let clock = Arc::new(ShiftedClock::new(Arc::clone(&self.clock)));
        let time: Arc<dyn Clock> = Arc::<ShiftedClock>::clone(&clock);
        let portrait = &self.portrait;
        let realm = if *name == Name::unnamed() {
            &portrait.realm
        } else {
            name.as_str()
        };
        let identity = Identity {
            issuer: portrait.issuer_of(realm, &portrait.host()),
            client: portrait.client_id.clone(),
        };
        let voice = RealmVoice {
            backchannel: self.backchannel.clone(),
            keys: Arc::clone(&self.keys),
            issuer: identity.issuer.clone(),
            audience: identity.client.clone(),
            clock: Arc::clone(&time),
        };
        let users = self.users.clone();
        let directory = Directory::new(identity, users, self.session_lifetime, time);
        let receiver: Arc<dyn LogoutReceiver> = Arc::new(voice);
        World {
            name: name.clone(),
            mock: Arc::new(Mock::with(Arc::new(directory), Faults::over_the_wire())),
            clock,
            receiver,
            house: None,
            snapshots: Arc::default(),
        }
    }
}
