//! Connects everyone: settings into keys, adapter, gateway and two listeners; and runs them.

mod files;
mod keys;
mod listener;
mod revocations;
mod tls;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::{Server, ServerHandle};
use actix_web::web::Data;
use anyhow::Context as _;
use aws_lc_rs::rand::SystemRandom;
use iam_adapters::guarded::Observer;
use iam_adapters::{Clock, Guarded, IamAdapter};

use crate::config::{InvalidSettings, Settings};
use crate::gateway::keys::Keys;
use crate::gateway::knowledge::Freshness;
use crate::gateway::mint::TokenPolicy;
use crate::gateway::random::Random;
use crate::gateway::{Gateway, Policy};
use crate::health::Health;
use crate::http::{self, Forgeries, Front, Patience};
use crate::replicas::{Bus, Redis};
use crate::telemetry::metrics::Metrics;

use listener::Listener;

/// Orchestrators and a few who look at figures.
const MANAGEMENT_CONNECTIONS: usize = 256;

/// 2026-11-01T00:00:00Z, before which this program was not written. A machine that says otherwise
/// has a clock that nobody has set, and everything here that expires would expire by it.
const EARLIEST: Duration = Duration::from_secs(1_793_491_200);

/// What the settings lead to, before anything is listened to or asked.
#[derive(Debug)]
pub struct Parts {
    /// The adapter, not yet guarded.
    pub iam: Arc<dyn IamAdapter>,
    /// The keys.
    pub keys: Arc<Keys>,
    /// The certificate, where the public listener speaks TLS.
    pub tls: Option<rustls::ServerConfig>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where identifiers and nonces come from.
    pub random: Arc<dyn Random>,
    /// The figures.
    pub metrics: Arc<Metrics>,
    /// How long clients may take.
    pub patience: Patience,
    /// The Redis between the replicas, where one is set.
    pub redis: Option<Redis>,
}

impl Parts {
    /// Reads every file that the settings name and makes the adapter. Speaks to nobody.
    ///
    /// # Errors
    ///
    /// [`InvalidSettings`], with all that is wrong with the files and the adapter.
    pub fn prepare(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self, InvalidSettings> {
        let mut problems = Vec::new();
        if clock.now().unix < EARLIEST {
            problems.push("the machine's clock stands before this program was written".to_owned());
        }
        let keys = keys::load(settings, clock.now(), &mut problems);
        let deadline = settings.upstream.connect_deadline;
        let iam = match settings.iam.connect(Arc::clone(&clock), deadline) {
            Ok(iam) => Some(iam),
            Err(error) => {
                problems.push(error.to_string());
                None
            }
        };
        let tls = tls::configured(settings, &mut problems);
        let redis = revocations::redis(settings, &mut problems);
        match (iam, keys) {
            (Some(iam), Some(keys)) if problems.is_empty() => Ok(Self {
                iam,
                keys: Arc::new(keys),
                tls,
                clock,
                random: Arc::new(SystemRandom::new()),
                metrics: Arc::default(),
                patience: Patience::default(),
                redis,
            }),
            _ => Err(InvalidSettings { problems }),
        }
    }
}

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
    let health = Arc::new(Health::new(Arc::clone(&parts.clock), parts.metrics));
    let observer: Arc<dyn Observer> = Arc::<Health>::clone(&health);
    let guarded = Arc::new(Guarded::new(
        parts.iam,
        settings.upstream.limits(),
        &parts.clock,
        &observer,
    ));
    let gateway = Gateway::new(
        Arc::<Guarded>::clone(&guarded),
        parts.keys,
        policy(settings),
        parts.clock,
        parts.random,
    );
    (Arc::new(gateway), guarded, health)
}

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
    iam: Arc<Guarded>,
    health: Arc<Health>,
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
        let adapter = parts.iam.name();
        let metrics = Arc::clone(&parts.metrics);
        let patience = parts.patience;
        let (redis, clock) = (parts.redis.take(), Arc::clone(&parts.clock));
        let keys = keys::Watch::new(settings, Arc::clone(&parts.keys), Arc::clone(&parts.clock));
        let (gateway, iam, health) = connect(settings, parts);
        let bus = revocations::bus(redis, &gateway, &health, &clock, &metrics);
        let front = Data::new(Front {
            gateway,
            metrics,
            health: Arc::clone(&health),
            adapter,
            jwks_max_age: settings.keys.jwks_max_age,
            precise_backend_status: settings.http.precise_backend_status,
            http: settings.http.clone(),
            patience,
            forgeries: Forgeries::default(),
        });

        let workers = settings.http.workers.unwrap_or_else(listener::cores);
        let public = Listener {
            setting: "http.listen",
            listen: settings.http.listen,
            routes: http::public,
            tls,
            workers,
            max_connections: files::connections(settings.http.max_connections, workers),
            shutdown_deadline: settings.http.shutdown_deadline,
        };
        let management = Listener {
            setting: "management.listen",
            listen: settings.management.listen,
            routes: http::management,
            tls: None,
            workers: 1,
            max_connections: MANAGEMENT_CONNECTIONS,
            shutdown_deadline: Duration::ZERO,
        };
        let (public, public_address) = public.bind(&front)?;
        let (management, management_address) = management.bind(&front)?;
        Ok(Self {
            public,
            management,
            addresses: Addresses {
                public: public_address,
                management: management_address,
            },
            iam,
            health,
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
        let probing = actix_web::rt::spawn(probe(self.iam, self.probe_interval));
        let telling = revocations::run(self.bus);
        let watching = actix_web::rt::spawn(self.keys.run());
        tracing::info!(
            http.address = %self.addresses.public,
            management.address = %self.addresses.management,
            "listening"
        );
        let stopped = leave(stop, &self.health, self.shutdown_delay, &public);
        let served = tokio::select! {
            served = serving => served,
            served = beside => served,
            () = stopped => Ok(Ok(())),
        };
        probing.abort();
        revocations::end(telling).await;
        watching.abort();
        management.stop(false).await;
        tracing::info!("stopped");
        served?.context("a listener broke")
    }
}

async fn leave(
    stop: impl Future<Output = ()>,
    health: &Health,
    delay: Duration,
    public: &ServerHandle,
) {
    stop.await;
    tracing::info!("stopping");
    health.leave();
    tokio::time::sleep(delay).await;
    health.drain();
    public.stop(true).await;
}

/// Asks the IAM from time to time, so that readiness does not wait for a user to find out. What
/// comes of it the guard's observer hears.
async fn probe(iam: Arc<Guarded>, interval: Duration) {
    loop {
        let _ = iam.probe().await;
        tokio::time::sleep(interval).await;
    }
}

#[cfg(test)]
mod tests;
