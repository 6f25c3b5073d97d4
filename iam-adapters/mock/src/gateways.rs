//! Makes the namespaces of a gateway before the mock: in each an IAM, a clock, and a gateway.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use actix_web::middleware::from_fn;
use actix_web::web::Data;
use anyhow::Context as _;
use auth_gateway::config::Settings;
use auth_gateway::gateway::Gateway;
use auth_gateway::http;
use auth_gateway::startup::{self, Application, Parts, Served};
use auth_gateway::telemetry::metrics::Metrics;
use futures_util::future::join_all;
use iam_adapters::clock::ShiftedClock;
use iam_adapters::{Clock, IamAdapter as _};

use crate::iam::{Directory, Identity, Mock, MockSettings, Users};
use crate::{House, LogoutReceiver, Name, Namespaces, World, fixed_key, iam, routing};

/// The whole service: with namespaces where the settings name the mock, otherwise as the production
/// program builds it.
///
/// # Errors
///
/// Where a port cannot be bound, the users file changed since it was checked, or the published key
/// cannot be used.
pub fn build(settings: &Settings, parts: Parts) -> anyhow::Result<Application> {
    let Some(mock) = settings.iam.downcast_ref::<MockSettings>() else {
        return Application::build(settings, parts);
    };
    let parts = with_signing_key(mock, parts)?;
    let users = iam::load(mock.users_file.as_deref()).context("iam.mock.users_file")?;
    let founder = Founder {
        users,
        session_lifetime: mock.session_lifetime,
        settings: settings.clone(),
        parts: parts.clone(),
    };
    let namespaces = Namespaces::new(
        founder.world(&Name::unnamed()),
        Box::new(move |name| founder.world(name)),
        parts.lifecycle.clone(),
    );
    serve(settings, parts, Arc::new(namespaces))
}

/// The parts, with the published key where the settings ask for it.
pub(crate) fn with_signing_key(mock: &MockSettings, parts: Parts) -> anyhow::Result<Parts> {
    if !mock.fixed_signing_key {
        return Ok(parts);
    }
    let keys = Arc::into_inner(parts.keys).context("the keys are in use already")?;
    Ok(Parts {
        keys: Arc::new(fixed_key::sign_with_it(keys)?),
        ..parts
    })
}

fn serve(
    settings: &Settings,
    parts: Parts,
    namespaces: Arc<Namespaces>,
) -> anyhow::Result<Application> {
    let world = namespaces.default_world();
    let house = world.house.as_ref().context("a mock without a gateway")?;
    let front = Arc::clone(&house.front);
    let data = Data::from(Arc::clone(&front));
    let app = {
        let namespaces = Arc::clone(&namespaces);
        move || {
            let namespaces = Arc::clone(&namespaces);
            http::app(data.clone()).wrap(from_fn(move |request, next| {
                routing::choose_gateway(Arc::clone(&namespaces), request, next)
            }))
        }
    };
    let served = Served {
        front,
        probing: probe(Arc::clone(&namespaces), settings.upstream.probe_interval),
        public: {
            let app = app.clone();
            move || app().configure(routing::public)
        },
        management: {
            let hosts = settings.management.allowed_hosts.clone();
            move || {
                let hosts = hosts.iter().cloned().collect();
                app().configure(|routes| {
                    routing::management(routes, Arc::clone(&namespaces), hosts);
                })
            }
        },
    };
    Application::serve(settings, parts, served)
}

/// Probes the IAM of each namespace from time to time, without end.
fn probe(namespaces: Arc<Namespaces>, interval: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(async move {
        loop {
            let worlds = namespaces.all();
            let houses = worlds.iter().filter_map(|world| world.house.as_ref());
            join_all(houses.map(|house| house.iam.probe())).await;
            tokio::time::sleep(interval).await;
        }
    })
}

/// What every namespace begins with.
struct Founder {
    users: Users,
    session_lifetime: Duration,
    settings: Settings,
    parts: Parts,
}

impl Founder {
    /// A new namespace. Only the metrics of the default one are those of the process.
    fn world(&self, name: &Name) -> World {
        let (settings, parts) = (&self.settings, &self.parts);
        let is_default = *name == Name::unnamed();
        let clock = Arc::new(ShiftedClock::new(Arc::clone(&parts.clock)));
        let time: Arc<dyn Clock> = Arc::<ShiftedClock>::clone(&clock);
        let identity = if is_default {
            Identity::default()
        } else {
            Identity::of_namespace(name.as_str())
        };
        let users = self.users.clone();
        let directory = Directory::new(identity, users, self.session_lifetime, Arc::clone(&time));
        let mock = Mock::new(Arc::new(directory)).within(settings.upstream.limits());
        let mock = Arc::new(mock);
        let parts = Parts {
            iam: Arc::<Mock>::clone(&mock),
            clock: time,
            metrics: if is_default {
                Arc::clone(&parts.metrics)
            } else {
                Arc::<Metrics>::default()
            },
            tls: None,
            redis: None,
            ..parts.clone()
        };
        let connected = startup::connect(settings, &parts);
        connected.health.needs_no_probe();
        let front = connected.front(settings, &parts);
        let receiver: Arc<dyn LogoutReceiver> = Arc::<Gateway>::clone(&connected.gateway);
        World {
            name: name.clone(),
            mock,
            clock,
            receiver,
            house: Some(House {
                front: Arc::new(front),
                iam: connected.iam,
            }),
            snapshots: Arc::default(),
        }
    }
}
