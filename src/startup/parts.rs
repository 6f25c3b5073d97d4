//! Settings into parts: every file read, every part made, nobody spoken to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use iam_adapters::{Clock, IamAdapter};
use secrecy::SecretString;

use super::{keys, revocations, tls};
use crate::config::{self, InvalidSettings, Problems, Registry, Settings};
use crate::gateway::Random;
use crate::gateway::keys::Keys;
use crate::health::Lifecycle;
use crate::replication::Redis;
use crate::server::ConnectionTimeouts;
use crate::telemetry::metrics::Metrics;

/// 2026-11-01T00:00:00Z, before which this program was not written. A machine that says otherwise
/// has a clock that nobody has set, and everything here that expires would expire by it.
pub(super) const EARLIEST: Duration = Duration::from_secs(1_793_491_200);

/// What the settings lead to, before anything is listened to or asked.
#[derive(Debug, Clone)]
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
    /// How near the process is to its end.
    pub lifecycle: Lifecycle,
    /// How long clients may take.
    pub timeouts: ConnectionTimeouts,
    /// The Redis between the replicas, where one is set.
    pub redis: Option<Redis>,
    /// The bearer token of operators, where one is set.
    pub operator_token: Option<SecretString>,
}

impl Parts {
    /// Reads the settings, and every file that they name. Connects to nothing.
    ///
    /// # Errors
    ///
    /// [`InvalidSettings`], with all that is wrong with the settings, the files, the keys, the
    /// certificates and the adapter.
    pub fn load(
        file: Option<&Path>,
        environment: &BTreeMap<String, String>,
        registry: &Registry,
        clock: Arc<dyn Clock>,
    ) -> Result<(Settings, Self), InvalidSettings> {
        config::load_with(file, environment, registry, |settings, problems| {
            Self::assemble(settings, clock, problems)
        })
    }

    /// Reads every file that the settings name and makes the adapter. Connects to nothing.
    ///
    /// # Errors
    ///
    /// [`InvalidSettings`], with all that is wrong with the files and the adapter.
    pub fn prepare(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self, InvalidSettings> {
        let mut problems = Problems::default();
        match Self::assemble(settings, clock, &mut problems) {
            Some(parts) if problems.is_empty() => Ok(parts),
            _ => Err(problems.into_invalid_settings()),
        }
    }

    /// The parts, where nothing keeps them from being made; every problem is noted.
    fn assemble(
        settings: &Settings,
        clock: Arc<dyn Clock>,
        problems: &mut Problems,
    ) -> Option<Self> {
        if clock.now().unix < EARLIEST {
            problems.add(
                "clock",
                "the machine's time is before this program was written",
            );
        }
        let keys = keys::load(settings, clock.now(), problems);
        let deadline = settings.upstream.connect_deadline;
        let iam = match settings.iam.connect(Arc::clone(&clock), deadline) {
            Ok(iam) => Some(iam),
            Err(error) => {
                problems.add_lines(&error.to_string());
                None
            }
        };
        let tls = tls::configured(settings, problems);
        let redis = revocations::redis(settings, problems);
        Some(Self {
            iam: iam?,
            keys: Arc::new(keys?),
            tls,
            clock,
            random: Arc::new(SystemRandom::new()),
            metrics: Arc::default(),
            timeouts: ConnectionTimeouts::default(),
            lifecycle: Lifecycle::default(),
            redis,
            operator_token: settings.management.token.clone(),
        })
    }
}
