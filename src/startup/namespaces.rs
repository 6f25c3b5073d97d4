//! Makes the namespaces of a gateway before the mock: in each an IAM, a clock, and a gateway.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::ShiftedClock;
use iam_adapters::mock::{Directory, Identity, InvalidUsers, Mock, Users};
use iam_adapters::{Clock, IamAdapter};

use super::{Parts, Routes, connect, front};
use crate::config::{HostName, IamSettings, Settings};
use crate::gateway::Gateway;
use crate::http::{self, Front};
use crate::mock::{House, LogoutReceiver, Name, Namespaces, World};
use crate::telemetry::metrics::Metrics;

/// What every mock begins with.
#[derive(Debug, Clone)]
pub struct Mocks {
    users: Users,
    session_lifetime: Duration,
}

impl Mocks {
    /// What the settings say; none where they name another IAM.
    ///
    /// # Errors
    ///
    /// [`InvalidUsers`], where the users file has changed since it was found fair.
    pub(super) fn of(iam: &IamSettings) -> Result<Option<Self>, InvalidUsers> {
        let IamSettings::Mock(mock) = iam else {
            return Ok(None);
        };
        let users = iam_adapters::mock::load(mock.users_file.as_deref())?;
        Ok(Some(Self {
            users,
            session_lifetime: mock.session_lifetime,
        }))
    }

    /// The default namespace, and all that will be asked for. Only the figures of the default one
    /// are those of the process.
    pub(super) fn settle(self, settings: &Settings, parts: Parts) -> Namespaces {
        let settings = settings.clone();
        let found = move |name: &Name| {
            let metrics = if *name == Name::unnamed() {
                Arc::clone(&parts.metrics)
            } else {
                Arc::default()
            };
            self.world(&settings, &parts, metrics, name)
        };
        Namespaces::new(found(&Name::unnamed()), Box::new(found))
    }

    fn world(
        &self,
        settings: &Settings,
        parts: &Parts,
        metrics: Arc<Metrics>,
        name: &Name,
    ) -> World {
        let clock = Arc::new(ShiftedClock::new(Arc::clone(&parts.clock)));
        let time: Arc<dyn Clock> = Arc::<ShiftedClock>::clone(&clock);
        let users = self.users.clone();
        let identity = if *name == Name::unnamed() {
            Identity::default()
        } else {
            Identity::of_namespace(name.as_str())
        };
        let directory = Directory::new(identity, users, self.session_lifetime, Arc::clone(&time));
        let mock = Mock::new(Arc::new(directory)).within(settings.upstream.limits());
        let mock = Arc::new(mock);
        let iam: Arc<dyn IamAdapter> = Arc::<Mock>::clone(&mock);
        let adapter = iam.name();
        let parts = Parts {
            iam,
            mocks: None,
            keys: Arc::clone(&parts.keys),
            tls: None,
            clock: time,
            random: Arc::clone(&parts.random),
            metrics: Arc::clone(&metrics),
            timeouts: parts.timeouts,
            redis: None,
            operator_token: parts.operator_token.clone(),
        };
        let operator_token = parts.operator_token.clone();
        let (gateway, iam, health) = connect(settings, parts);
        health.needs_no_probe();
        let receiver: Arc<dyn LogoutReceiver> = Arc::<Gateway>::clone(&gateway);
        let front = Front {
            operator_token,
            ..front(settings, gateway, health, metrics, adapter)
        };
        World {
            name: name.clone(),
            mock,
            clock,
            receiver,
            house: Some(House {
                front: Arc::new(front),
                iam,
            }),
            snapshots: Arc::default(),
        }
    }
}

/// What the management listener serves: its own, what there is of the mock, and the API, so that
/// a page from there can try it.
pub(super) fn routes(namespaces: &Arc<Namespaces>, allowed_hosts: &[HostName]) -> Routes {
    let namespaces = Arc::clone(namespaces);
    let allowed_hosts = allowed_hosts.to_vec();
    Arc::new(move |config| {
        config.app_data(actix_web::web::Data::from(Arc::clone(&namespaces)));
        http::management_of_a_mock(config, &allowed_hosts.iter().cloned().collect());
    })
}
