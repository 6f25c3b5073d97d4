//! Builds `auth-gateway-dev`: a gateway, an IAM and a clock for each namespace.

use std::sync::Arc;
use std::time::Duration;

use actix_web::middleware::from_fn;
use actix_web::web::Data;
use anyhow::Context as _;
use arc_swap::ArcSwap;
use auth_gateway::config::Settings;
use auth_gateway::http::{self, AppState};
use auth_gateway::startup::{self, Application, ServiceDependencies};
use auth_gateway::telemetry::metrics::Metrics;
use auth_gateway_core::replica_state::Replicas;
use futures_util::future::FutureExt as _;
use iam_adapters::{ClaimSources, Clock, IamAdapter};
use mock_iam::journal::Journal;
use mock_iam::{Directory, HostName, Identity, Mock, MockSettings, ShiftedClock, Users};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::{Front, Namespace, NamespaceName, Namespaces, fixed_key, routing};

/// The service: with namespaces if the mock is the only IAM of the settings, otherwise as the production program
/// builds it.
///
/// # Errors
///
/// If a port cannot be bound, the users file is invalid, or the published key cannot be used.
pub fn build(settings: &Settings, parts: ServiceDependencies) -> anyhow::Result<Application> {
    let Some(mock) = crate::only_mock(settings) else {
        return Application::build(settings, parts);
    };
    let parts = with_signing_key(mock, parts)?;
    let users = mock_iam::load(mock.users_file.as_deref()).context("iam.mock.users_file")?;
    let factory = GatewayNamespaces {
        users,
        session_lifetime: mock.session_lifetime,
        claims: mock.claims.clone(),
        settings: settings.clone(),
        parts: parts.clone(),
    };
    let namespaces = Namespaces::new(
        factory.create(&NamespaceName::default_name(), Arc::default()),
        Box::new(move |name, journal| factory.create(name, journal)),
        parts.lifecycle.clone(),
    );
    serve(
        settings,
        parts,
        &Arc::new(namespaces),
        mock.allowed_hosts.clone(),
    )
}

/// The parts, with the published key if the settings select it.
pub(crate) fn with_signing_key(
    mock: &MockSettings,
    parts: ServiceDependencies,
) -> anyhow::Result<ServiceDependencies> {
    if !mock.fixed_signing_key {
        return Ok(parts);
    }
    let keys = Arc::into_inner(parts.keys).context("the keys are in use already")?;
    Ok(ServiceDependencies {
        keys: Arc::new(fixed_key::sign_with_it(keys)?),
        ..parts
    })
}

fn serve(
    settings: &Settings,
    parts: ServiceDependencies,
    namespaces: &Arc<Namespaces>,
    allowed_hosts: Vec<HostName>,
) -> anyhow::Result<Application> {
    let namespace = namespaces.default_namespace();
    let app_state = namespace.gateway().context("a mock without a gateway")?;
    let app_state = Data::from(Arc::clone(app_state));
    let app = {
        let (data, namespaces) = (app_state.clone(), Arc::clone(namespaces));
        move || {
            let namespaces = Arc::clone(&namespaces);
            http::app(data.clone()).wrap(from_fn(move |request, next| {
                routing::choose_gateway(Arc::clone(&namespaces), request, next)
            }))
        }
    };
    let public = {
        let app = app.clone();
        move || app().configure(routing::public)
    };
    let management = {
        let (namespaces, hosts) = (Arc::clone(namespaces), allowed_hosts);
        move || {
            let hosts = hosts.iter().cloned().collect();
            app().configure(|routes| {
                routing::management(routes, Arc::clone(&namespaces), hosts);
            })
        }
    };
    let [public_listener, management_listener] = startup::listeners(settings, &parts)?;
    let events = app_state.clone().into_inner();
    let bound = [
        public_listener.bind(Arc::<AppState>::clone(&events), public)?,
        management_listener.bind(events, management)?,
    ];
    // Each namespace has its own.
    let background = async {};
    Application::new(settings, parts, &app_state, bound, background)
}

/// Creates namespaces with a gateway.
struct GatewayNamespaces {
    users: Users,
    session_lifetime: Duration,
    claims: ClaimSources,
    settings: Settings,
    parts: ServiceDependencies,
}

impl GatewayNamespaces {
    /// Creates a namespace. Only the default one uses the metrics of the process. Call it in a running tokio runtime.
    fn create(&self, name: &NamespaceName, journal: Arc<Journal>) -> Namespace {
        let (settings, parts) = (&self.settings, &self.parts);
        let is_default = *name == NamespaceName::default_name();
        let clock = Arc::new(ShiftedClock::new(Arc::clone(&parts.clock)));
        let time: Arc<dyn Clock> = Arc::<ShiftedClock>::clone(&clock);
        let identity = if is_default {
            Identity::default()
        } else {
            Identity::of_namespace(name.as_str())
        };
        let users = self.users.clone();
        let directory = Directory::new(identity, users, self.session_lifetime, Arc::clone(&time));
        let directory = Arc::new(directory);
        let mock = Mock::new(Arc::clone(&directory))
            .with_limits(settings.upstream.limits())
            .with_claims(self.claims.clone())
            .with_journal(journal);
        let mock = Arc::new(mock);
        // For the first probe, which the journal of the namespace does not have.
        let iam: Arc<dyn IamAdapter> = Arc::new(Mock::new(directory));
        let iam = Arc::new(ArcSwap::from_pointee(iam));
        let parts = ServiceDependencies {
            iams: vec![Arc::clone(&iam)],
            clock: time,
            metrics: if is_default {
                Arc::clone(&parts.metrics)
            } else {
                Arc::new(Metrics::new(&settings.iam_names()))
            },
            tls: None,
            replication: None,
            replicas: if is_default {
                parts.replicas.clone()
            } else {
                Replicas::default()
            },
            ..parts.clone()
        };
        let app_state = startup::connect(settings, &parts);
        // Tasks of its own, so that an IAM that does not respond delays no other namespace.
        let mut background = JoinSet::new();
        background.spawn(Arc::clone(&app_state.gateway).finish_logouts());
        for iam in app_state.gateway.iams.iter() {
            let (adapter, interval) = (Arc::clone(&iam.adapter), settings.upstream.probe_interval);
            // The mock responds at once.
            let _ = adapter.probe().now_or_never();
            background.spawn(async move {
                loop {
                    sleep(interval).await;
                    let _ = adapter.probe().await;
                }
            });
        }
        iam.store(Arc::new(Arc::<Mock>::clone(&mock)));
        Namespace {
            name: name.clone(),
            mock,
            clock,
            front: Front::Gateway(Arc::new(app_state)),
            has_permission_source: parts.permission_source.is_some(),
            background,
            snapshots: Arc::default(),
        }
    }
}
