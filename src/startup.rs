//! Connects everyone: settings into keys, adapter, gateway and two listeners; and runs them.

mod keys;
pub mod mock_iam;
mod namespaces;
mod parts;
mod probe;
mod revocations;
mod tls;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::App;
use actix_web::dev::{Server, ServerHandle};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, ServiceConfig};
use anyhow::Context as _;
use iam_adapters::Guarded;
use iam_adapters::guarded::Observer;

use crate::config::Settings;
use crate::gateway::knowledge::Freshness;
use crate::gateway::mint::TokenPolicy;
use crate::gateway::{Gateway, Policy};
use crate::health::Health;
use crate::http::{self, Front, LogoutTokenRateLimiter};
use crate::mock::Namespaces;
use crate::replicas::Bus;
use crate::server::{self, Hooks, Listener};
use crate::telemetry::metrics::Metrics;

pub use namespaces::Mocks;
pub use parts::Parts;
use probe::Probed;

/// Orchestrators and a few who look at figures.
const MANAGEMENT_CONNECTIONS: usize = 256;

fn policy(settings: &Settings) -> Policy {
    Policy {
        freshness: Freshness {
            liveness: settings.session.freshness,
            permissions: settings.permissions.ttl,
            stale_if_error: settings.stale_if_error,
            max_bytes: settings.cache.max_bytes as u64,
        },
        login_limits: settings.login_limits.before(&settings.iam),
        session_max_lifetime: settings.session.max_lifetime,
        token: TokenPolicy {
            issuer: settings.http.public_url.issuer().to_owned(),
            audience: settings.token.audience.clone(),
            client_id: settings.token.client_id.clone(),
            lifetime: settings.token.lifetime,
        },
        default_scope: settings.token.default_scope.clone(),
        refuse_empty_scope: settings.token.refuse_empty_scope,
    }
}

/// The gateway over guarded parts, without a network: what `check` walks through.
#[must_use]
pub fn connect(settings: &Settings, parts: Parts) -> (Arc<Gateway>, Arc<Guarded>, Arc<Health>) {
    let Parts {
        iam,
        keys,
        clock,
        random,
        metrics,
        ..
    } = parts;
    let health = Arc::new(Health::new(Arc::clone(&clock), metrics));
    let observer: Arc<dyn Observer> = Arc::<Health>::clone(&health);
    let guarded = Guarded::new(iam, settings.upstream.limits(), &clock, &observer);
    let guarded = Arc::new(guarded);
    let iam = Arc::<Guarded>::clone(&guarded);
    let gateway = Gateway::new(iam, keys, policy(settings), clock, random);
    (Arc::new(gateway), guarded, health)
}

/// What the handlers of a gateway's requests share.
pub(crate) fn front(
    settings: &Settings,
    gateway: Arc<Gateway>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    adapter: &'static str,
) -> Front {
    Front {
        gateway,
        metrics,
        health,
        adapter,
        jwks_max_age: settings.keys.jwks_max_age,
        precise_backend_status: settings.http.precise_backend_status,
        http: settings.http.clone(),
        logout_token_limiter: LogoutTokenRateLimiter::default(),
        operator_token: None,
    }
}

/// How long the management listener may take to answer those whom it lets wait.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Where the two listeners are.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// The API.
    pub public: SocketAddr,
    /// Health and metrics.
    pub management: SocketAddr,
}

/// The whole service, bound to its ports and not yet running.
pub struct Application {
    public: Server,
    management: Server,
    addresses: Addresses,
    probed: Probed,
    health: Arc<Health>,
    namespaces: Option<Arc<Namespaces>>,
    bus: Option<Bus>,
    probe_interval: Duration,
    keys: keys::Watch,
    shutdown_delay: Duration,
}

impl Application {
    /// Binds both listeners. Needs a running actix system around it.
    ///
    /// # Errors
    ///
    /// Where a port cannot be bound.
    pub fn build(settings: &Settings, mut parts: Parts) -> anyhow::Result<Self> {
        let tls = parts.tls.take();
        let timeouts = parts.timeouts;
        let (redis, clock) = (parts.redis.take(), Arc::clone(&parts.clock));
        let metrics = Arc::clone(&parts.metrics);
        let keys = keys::Watch::new(settings, Arc::clone(&parts.keys), Arc::clone(&parts.clock));
        let (front, probed, namespaces) = if let Some(mocks) = parts.mocks.take() {
            let namespaces = Arc::new(mocks.settle(settings, parts));
            let world = namespaces.default_world();
            let house = world.house.as_ref().context("a mock without a gateway")?;
            let front = Arc::clone(&house.front);
            let probed = Probed::Each(Arc::clone(&namespaces));
            (front, probed, Some(namespaces))
        } else {
            let adapter = parts.iam.name();
            let operator_token = parts.operator_token.take();
            let (gateway, iam, health) = connect(settings, parts);
            let front = Front {
                operator_token,
                ..front(settings, gateway, health, Arc::clone(&metrics), adapter)
            };
            (Arc::new(front), Probed::One(iam), None)
        };
        let health = Arc::clone(&front.health);
        let bus = revocations::bus(settings, redis, &front.gateway, &health, &clock, &metrics);
        let front = Data::from(front);

        let workers = settings.http.workers;
        let workers = workers.unwrap_or_else(server::available_cores);
        let public = Listener {
            address: settings.http.listen,
            tls,
            workers,
            max_connections: max_connections(settings.http.max_connections, workers),
            timeouts,
            shutdown_timeout: settings.http.shutdown_deadline,
        };
        let management = Listener {
            address: settings.management.listen,
            tls: None,
            workers: 1,
            max_connections: MANAGEMENT_CONNECTIONS,
            timeouts,
            shutdown_timeout: LAST_WORDS,
        };
        let management_routes: Routes = match &namespaces {
            None => Arc::new(http::management),
            Some(namespaces) => namespaces::routes(namespaces, &settings.management.allowed_hosts),
        };
        let (public, public_address) = bind(
            "http.listen",
            public,
            &front,
            namespaces.clone(),
            Arc::new(http::public),
        )?;
        let (management, management_address) = bind(
            "management.listen",
            management,
            &front,
            namespaces.clone(),
            management_routes,
        )?;
        Ok(Self {
            public,
            management,
            addresses: Addresses {
                public: public_address,
                management: management_address,
            },
            probed,
            health,
            namespaces,
            bus,
            probe_interval: settings.upstream.probe_interval,
            keys,
            shutdown_delay: settings.http.shutdown_delay,
        })
    }

    /// Where the listeners are, also where a port was left to the system.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Serves until `stop` comes, then lets readiness fall, goes on for the configured delay, and
    /// lets the requests under way finish within their deadline.
    ///
    /// # Errors
    ///
    /// Where a listener breaks.
    pub async fn run_until_stopped(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let (public, management) = (self.public.handle(), self.management.handle());
        let serving = actix_web::rt::spawn(self.public);
        let beside = actix_web::rt::spawn(self.management);
        let probing = actix_web::rt::spawn(self.probed.run(self.probe_interval));
        let telling = revocations::run(self.bus);
        let watching = actix_web::rt::spawn(self.keys.run());
        tracing::info!(
            http.address = %self.addresses.public,
            management.address = %self.addresses.management,
            "listening"
        );
        let (health, delay) = (&self.health, self.shutdown_delay);
        let stopped = leave(stop, health, self.namespaces.as_deref(), delay, &public);
        let served = tokio::select! {
            served = serving => served,
            served = beside => served,
            () = stopped => Ok(Ok(())),
        };
        probing.abort();
        revocations::end(telling).await;
        watching.abort();
        // Whoever waits at the mock is answered; nobody else is owed anything here.
        management.stop(self.namespaces.is_some()).await;
        tracing::info!("stopped");
        served?.context("a listener broke")
    }
}

/// Routes of a listener.
type Routes = Arc<dyn Fn(&mut ServiceConfig) + Send + Sync>;

/// Binds a listener to the gateway's application. `setting` names its address.
fn bind(
    setting: &str,
    listener: Listener,
    front: &Data<Front>,
    namespaces: Option<Arc<Namespaces>>,
    routes: Routes,
) -> anyhow::Result<(Server, SocketAddr)> {
    let (front, address) = (front.clone(), listener.address);
    let hooks: Arc<dyn Hooks> = front.clone().into_inner();
    let app = move || {
        let namespaces = namespaces.clone();
        App::new()
            .app_data(front.clone())
            .wrap(from_fn(move |front, request, next| {
                http::around(namespaces.clone(), front, request, next)
            }))
            .configure(&*routes)
    };
    listener
        .bind(hooks, app)
        .with_context(|| format!("cannot listen on {address} ({setting})"))
}

/// The connections that each worker can have. Fewer than configured where the limit of open files
/// is small.
fn max_connections(wanted: usize, workers: usize) -> usize {
    let files = server::raise_open_file_limit();
    let max_connections = files.connections_per_worker(wanted, workers);
    if max_connections < wanted {
        tracing::info!(
            wanted,
            max_connections,
            files = files.0,
            "http.max_connections lowered: open-file limit is too small"
        );
    }
    max_connections
}

async fn leave(
    stop: impl Future<Output = ()>,
    health: &Health,
    namespaces: Option<&Namespaces>,
    delay: Duration,
    public: &ServerHandle,
) {
    stop.await;
    tracing::info!("stopping");
    health.leave();
    if let Some(namespaces) = namespaces {
        namespaces.leave();
    }
    tokio::time::sleep(delay).await;
    health.drain();
    if let Some(namespaces) = namespaces {
        namespaces.drain();
    }
    public.stop(true).await;
}

#[cfg(test)]
mod tests;
