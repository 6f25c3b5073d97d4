//! Builds the service from the settings (keys, adapter, gateway and two listeners), and runs it.

mod dependencies;
mod keys;
mod reload;
mod replication;
mod tls;
mod traces;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Server;
use actix_web::rt::spawn;
use actix_web::web::Data;
use anyhow::Context as _;
use futures_util::future::join_all;
use iam_adapters::permission_source::WithPermissionSource;
use iam_adapters::{IamAdapter, ResilientAdapter};
use tokio::time::{sleep, timeout};

use crate::audit::AuditLog;
use crate::config::{ConfigErrors, InvalidSettings, Settings, check_reach};
use crate::health::Health;
use crate::http::{self, ApiListenerEvents, AppState, RequestLog};
use crate::telemetry::json_lines::Flusher;
use crate::telemetry::metrics::Metrics;
use auth_gateway_core::TokenPolicy;
use auth_gateway_core::event::{Event, Subscriber, Subscribers};
use auth_gateway_core::iams::IamParts;
use auth_gateway_core::replica_state::ReplicaState;
use auth_gateway_core::upstream_logouts::UpstreamLogouts;
use auth_gateway_core::{Gateway, Policy};
use auth_gateway_replication::ReplicationStream;
use auth_gateway_server::Listener;

pub use auth_gateway_server::{PassedSocketError, PassedSockets};
pub use dependencies::ServiceDependencies;
pub(crate) use dependencies::check_clock;
pub use tls::ServerCertificate;

use reload::FilePoller;

/// For orchestrators, Prometheus and operators.
const MANAGEMENT_CONNECTIONS: usize = 256;

fn policy(settings: &Settings) -> Policy {
    Policy {
        cache_bytes: settings.cache.max_bytes as u64,
        login_limits: settings.login_limits.limits(),
        token: TokenPolicy {
            issuer: settings.http.public_url.issuer().to_owned(),
            audience: settings.token.audience.clone(),
            audiences: settings.token.scope_audiences(),
            client_id: settings.token.client_id.clone(),
            lifetime: settings.token.lifetime,
            token_type: settings.token.token_type,
        },
        default_scope: settings.token.default_scope.clone(),
        refuse_empty_scope: settings.token.refuse_empty_scope,
    }
}

/// Builds a gateway over its guarded adapters from its parts, with the state that the handlers of its requests share.
/// Makes no connection.
#[must_use]
pub fn connect(settings: &Settings, parts: &ServiceDependencies) -> AppState {
    let clock = &parts.clock;
    let lifecycle = parts.lifecycle.clone();
    let health = Health::new(Arc::clone(clock), &settings.iam_names(), lifecycle);
    let health = Arc::new(health);
    let subscribers: [Arc<dyn Subscriber>; 4] = [
        Arc::<Metrics>::clone(&parts.metrics),
        Arc::<Health>::clone(&health),
        Arc::<AuditLog>::clone(&parts.audit),
        Arc::new(RequestLog),
    ];
    let subscribers = Subscribers::new(subscribers);
    let iams = settings.iams.iter().zip(&parts.iams).map(|(iam, adapter)| {
        let name: Arc<str> = iam.name.as_str().into();
        let observer = subscribers.of_iam(Arc::clone(&name));
        let limits = iam.upstream.limits();
        let adapter = Arc::clone(adapter);
        let resilient = ResilientAdapter::new(&name, adapter, limits, clock, &observer);
        let mut adapter: Arc<dyn IamAdapter> = Arc::new(resilient);
        if let Some(source) = &parts.permission_source {
            let source = Arc::clone(source);
            let wrapped = WithPermissionSource::new(&name, adapter, source, clock, &observer);
            adapter = Arc::new(wrapped);
        }
        IamParts {
            name,
            adapter,
            policy: iam.policy(settings),
        }
    });
    let iams = iams.collect();
    let policy = policy(settings);
    let replica = ReplicaState::new(
        Arc::clone(clock),
        Arc::clone(&parts.random),
        Arc::clone(&parts.keys),
        subscribers,
        policy.login_limits,
        parts.replicas.clone(),
    );
    let gateway = Gateway::new(iams, policy, replica);
    AppState {
        gateway: Arc::new(gateway),
        metrics: Arc::clone(&parts.metrics),
        health,
        jwks_max_age: settings.keys.jwks_max_age,
        precise_backend_status: settings.http.precise_backend_status,
        started: clock.now(),
        lifecycle: parts.lifecycle.clone(),
        trusted_proxies: settings.http.trusted_networks(),
        allowed_origins: settings.http.cors.allowed_origins.clone(),
        traces: parts.traces.as_ref().map(|(traces, _)| Arc::clone(traces)),
        operator_token: parts.operator_token.clone(),
        audit: Arc::clone(&parts.audit),
    }
}

/// The names of the passed sockets of the two listeners.
const PUBLIC_SOCKET: &str = "http";
const MANAGEMENT_SOCKET: &str = "management";

/// Takes the sockets that the service manager passes to this process, as [`PassedSockets::take`] does.
///
/// # Errors
///
/// A socket is for none of the two listeners.
pub fn passed_sockets(names: Option<&str>) -> Result<PassedSockets, PassedSocketError> {
    PassedSockets::take(&[PUBLIC_SOCKET, MANAGEMENT_SOCKET], names)
}

/// The addresses of the public and the management listener. Each has the name of the setting, or of the passed socket
/// that replaces it.
#[must_use]
pub fn listen_addresses(settings: &Settings, sockets: &PassedSockets) -> [(String, SocketAddr); 2] {
    [
        ("http.listen", PUBLIC_SOCKET, settings.http.listen),
        (
            "management.listen",
            MANAGEMENT_SOCKET,
            settings.management.listen,
        ),
    ]
    .map(|(setting, name, listen)| match sockets.address(name) {
        Some(address) => (format!("the passed socket {name:?}"), address),
        None => (setting.to_owned(), listen),
    })
}

/// Checks the address of the public listener, which a passed socket can have replaced.
///
/// # Errors
///
/// Other machines can reach it, and the settings are for this machine alone.
pub(crate) fn check_sockets(
    settings: &Settings,
    sockets: &PassedSockets,
) -> Result<(), InvalidSettings> {
    let [(key, listen), _] = listen_addresses(settings, sockets);
    let mut problems = ConfigErrors::default();
    check_reach(settings, &key, listen, &mut problems);
    problems.into_result(Some(()), |_| None)
}

/// How long connections that were accepted last may take to send their requests. Only where the service
/// manager keeps the socket open: no load balancer has removed the replica then.
const LAST_ACCEPTED_DELAY: Duration = Duration::from_millis(500);

/// How long a gateway that stops finishes failed and aborted logouts.
const FINAL_LOGOUTS_DEADLINE: Duration = Duration::from_secs(1);

/// How long requests in progress on the management listener may take at the end.
const MANAGEMENT_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The addresses of the two listeners.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// The API.
    pub public: SocketAddr,
    /// Health and metrics.
    pub management: SocketAddr,
}

/// A listener of an [`Application`] that is bound, and its address.
pub type BoundServer = (Server, SocketAddr);

/// The service, bound to its ports and not yet running.
pub struct Application {
    public: BoundServer,
    management: BoundServer,
    background: Pin<Box<dyn Future<Output = ()>>>,
    gateway: Arc<Gateway>,
    parts: ServiceDependencies,
    replication: Option<ReplicationStream>,
    files: FilePoller,
    shutdown_delay: Duration,
    /// Whether the service manager keeps the public socket open after the end.
    socket_stays_open: bool,
    /// Last, so that it is dropped after everything that writes lines.
    audit_flusher: Option<Flusher>,
}

impl Application {
    /// One gateway in front of the IAMs of the settings, on both listeners. Call it in a running actix
    /// system.
    ///
    /// # Errors
    ///
    /// A port cannot be bound.
    pub fn build(settings: &Settings, parts: ServiceDependencies) -> anyhow::Result<Self> {
        let app_state = Data::new(connect(settings, &parts));
        let data = app_state.clone();
        let public_app = move || http::app(data.clone()).configure(http::public);
        let data = app_state.clone();
        let management_app = move || http::app(data.clone()).configure(http::management);
        let [public, management] = listeners(settings, &parts)?;
        let events = app_state.clone().into_inner();
        let bound = [
            public.bind(Arc::new(ApiListenerEvents(Arc::clone(&events))), public_app)?,
            management.bind(events, management_app)?,
        ];
        let iams = settings.iams.iter().zip(app_state.gateway.iams.iter());
        let probing = iams.map(|(section, iam)| {
            let (adapter, interval) = (Arc::clone(&iam.adapter), section.upstream.probe_interval);
            async move {
                // Readiness does not depend on requests of users. The observer of the adapter gets the results.
                loop {
                    let _ = adapter.probe().await;
                    sleep(interval).await;
                }
            }
        });
        let probing = join_all(probing);
        let finishing = Arc::clone(&app_state.gateway).finish_logouts();
        let background = async move {
            tokio::join!(probing, finishing);
        };
        Self::new(settings, parts, &app_state, bound, background)
    }

    /// The service with these listeners, the public one first. The gateway of the state receives the
    /// revocations of the other replicas. `background` runs until the service ends. Call it in a running
    /// actix system.
    ///
    /// # Errors
    ///
    /// The audit log cannot be opened.
    pub fn new(
        settings: &Settings,
        parts: ServiceDependencies,
        app_state: &AppState,
        [public, management]: [BoundServer; 2],
        background: impl Future<Output = ()> + 'static,
    ) -> anyhow::Result<Self> {
        let (gateway, health) = (&app_state.gateway, &app_state.health);
        use_certificate(parts.tls.as_deref(), &parts.metrics, health);
        Ok(Self {
            public,
            management,
            background: Box::pin(background),
            gateway: Arc::clone(gateway),
            replication: replication::stream(settings, &parts, gateway),
            files: FilePoller::new(settings, &parts, gateway, health),
            shutdown_delay: settings.http.shutdown_delay,
            socket_stays_open: parts.sockets.get(PUBLIC_SOCKET)?.is_some(),
            audit_flusher: parts.audit.open()?,
            parts,
        })
    }

    /// The addresses of the listeners, with the ports that the system chose for port 0.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses {
            public: self.public.1,
            management: self.management.1,
        }
    }

    /// Serves until `stop` is ready. Then readiness becomes `not_ready`, requests are served for the
    /// configured delay, and requests in progress may finish within their deadline.
    ///
    /// # Errors
    ///
    /// A listener failed.
    pub async fn run_until_stopped(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let addresses = self.addresses();
        let ((public_server, _), (management_server, _)) = (self.public, self.management);
        let (public, management) = (public_server.handle(), management_server.handle());
        // Before the first request, so that its line follows these.
        let version = env!("CARGO_PKG_VERSION");
        self.gateway.emit(&Event::Started { version });
        self.files.report_keys();
        let ServiceDependencies {
            audit,
            lifecycle,
            traces,
            ..
        } = self.parts;
        let exporter = traces.map(|(_, exporter)| exporter);
        let serving = spawn(public_server);
        let serving_management = spawn(management_server);
        let background = spawn(self.background);
        let sums = Arc::clone(&audit);
        let summing = spawn(async move { sums.keep_writing_sums().await });
        let replication = replication::run(self.replication);
        let file_poller = spawn(self.files.run());
        let exporting = exporter.clone();
        let exporting = exporting.map(|exporter| spawn(async move { exporter.run().await }));
        tracing::info!(
            http.address = %addresses.public,
            management.address = %addresses.management,
            "listening"
        );
        let stopped = async {
            stop.await;
            tracing::info!("stopping");
            lifecycle.begin_shutdown();
            sleep(self.shutdown_delay).await;
            if self.socket_stays_open {
                // Further connections wait for the next process.
                public.pause().await;
                sleep(LAST_ACCEPTED_DELAY).await;
            }
            lifecycle.drain();
            public.stop(true).await;
        };
        let served = tokio::select! {
            served = serving => served,
            served = serving_management => served,
            () = stopped => Ok(Ok(())),
        };
        background.abort();
        summing.abort();
        let finish_exports = async {
            if let (Some(exporting), Some(exporter)) = (exporting, exporter) {
                exporter.finish(exporting).await;
            }
        };
        // At the same time, because logouts that no request makes have no spans.
        tokio::join!(finish_logouts(&self.gateway), finish_exports);
        file_poller.abort();
        management.stop(true).await;
        // Last: until then operators revoke sessions on the management listener.
        replication::end(replication).await;
        audit.write_sums();
        self.gateway.emit(&Event::Stopped);
        drop(self.audit_flusher);
        tracing::info!("stopped");
        served?.context("a listener failed")
    }
}

/// Reports when the certificate in use is valid.
fn use_certificate(certificate: Option<&ServerCertificate>, metrics: &Metrics, health: &Health) {
    let validity = certificate.and_then(ServerCertificate::validity);
    metrics.certificate_expires(validity.map(|validity| validity.not_after));
    health.certificate(validity);
}

/// The listeners of the settings, not yet bound: the public one and the management listener.
///
/// # Errors
///
/// A passed socket cannot be used.
pub fn listeners(
    settings: &Settings,
    parts: &ServiceDependencies,
) -> anyhow::Result<[Listener; 2]> {
    let (timeouts, tls) = (parts.timeouts, parts.tls.clone());
    let public = Listener {
        setting: "http.listen",
        address: settings.http.listen,
        socket: parts.sockets.get(PUBLIC_SOCKET)?,
        tls: tls.map(|certificate| certificate as _),
        workers: settings.http.workers,
        max_connections: max_connections(settings.http.max_connections),
        timeouts,
        shutdown_timeout: settings.http.shutdown_deadline,
    };
    let management = Listener {
        setting: "management.listen",
        address: settings.management.listen,
        socket: parts.sockets.get(MANAGEMENT_SOCKET)?,
        tls: None,
        workers: 1,
        max_connections: MANAGEMENT_CONNECTIONS,
        timeouts,
        shutdown_timeout: MANAGEMENT_SHUTDOWN_TIMEOUT,
    };
    Ok([public, management])
}

/// The connections that clients can have. Fewer than configured if the limit of open files is small.
fn max_connections(wanted: usize) -> usize {
    let files = auth_gateway_server::raise_open_file_limit();
    let max_connections = auth_gateway_server::connections_within(files, wanted);
    if max_connections < wanted {
        tracing::info!(
            wanted,
            max_connections,
            files,
            "http.max_connections lowered: open-file limit is too small"
        );
    }
    max_connections
}

/// Calls each IAM once more for logouts that failed or were aborted, within a deadline.
async fn finish_logouts(gateway: &Gateway) {
    let logouts = || gateway.iams.iter().map(|iam| &iam.upstream_logouts);
    let finished = join_all(logouts().map(UpstreamLogouts::finish_now));
    let _ = timeout(FINAL_LOGOUTS_DEADLINE, finished).await;
    let unfinished: usize = logouts().map(|logouts| logouts.unfinished_count()).sum();
    if unfinished > 0 {
        tracing::warn!(
            unfinished,
            "unfinished logouts are lost: their sessions at the IAM end when they expire"
        );
    }
}

#[cfg(test)]
mod tests;
