//! Builds the parts of the service from the settings and the files that they name, without a
//! connection.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::rand::SystemRandom;
use iam_adapters::permission_source::PermissionSource;
use iam_adapters::{Clock, IamAdapter, Moment, SetupError};
use secrecy::SecretString;
use thiserror::Error;

use super::tls::ServerCertificate;
use super::{keys, replication, tls, traces};
use crate::audit::{self, AuditLog};
use crate::config::{
    AuditDestination, ConfigErrors, InvalidSettings, Registry, Settings, SettingsSource,
};
use crate::health::Lifecycle;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::{Collector, SpanExporter, Traces};
use auth_gateway_core::replica_state::Replicas;
use auth_gateway_core::{Keys, Random};
use auth_gateway_replication::{Outboxes, Redis};
use auth_gateway_server::{ConnectionTimeouts, PassedSockets};

/// 2026-11-01T00:00:00Z, before this program was written. A machine with an earlier time has a wrong
/// clock, and expiry depends on the clock.
pub(super) const EARLIEST: Duration = Duration::from_secs(1_793_491_200);

/// The machine's time is before [`EARLIEST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the machine's time is before this program was written")]
pub(crate) struct ClockNotSet;

/// Checks the machine's time at the start.
///
/// # Errors
///
/// It is wrong. At boot it can become right by itself.
pub(crate) fn check_clock(now: Moment) -> Result<(), ClockNotSet> {
    if now.unix < EARLIEST {
        return Err(ClockNotSet);
    }
    Ok(())
}

/// What is built from the files that the settings name, and built again when one of them changes.
#[derive(Debug)]
pub(super) struct Reloadable {
    pub(super) iams: Vec<Arc<dyn IamAdapter>>,
    pub(super) permission_source: Option<Arc<PermissionSource>>,
    pub(super) tls: Option<Arc<ServerCertificate>>,
    pub(super) redis: Option<Redis>,
    pub(super) operator_token: Option<Arc<SecretString>>,
    pub(super) collector: Option<Collector>,
}

impl Reloadable {
    /// Unless a problem prevents it. Adds every problem to `problems`. `before` are the adapters that the new ones
    /// replace, in the order of `Settings::iams`; none at the start.
    pub(super) fn build(
        settings: &Settings,
        clock: &Arc<dyn Clock>,
        before: &[Arc<ArcSwap<Arc<dyn IamAdapter>>>],
        problems: &mut ConfigErrors,
    ) -> Option<Self> {
        let iams = settings.iams.iter().enumerate().map(|(position, iam)| {
            let deadline = iam.upstream.connect_deadline;
            let before = before.get(position).map(|iam| Arc::clone(&**iam.load()));
            let (key, clock) = (iam.key(), Arc::clone(clock));
            let adapter = (iam.adapter).connect(&key, clock, deadline, before.as_ref());
            let refused = |error: &SetupError| {
                for line in &error.0 {
                    problems.add_lines(line);
                }
            };
            adapter.inspect_err(refused).ok()
        });
        // All of them, so that the problems of all are found.
        let iams: Vec<_> = iams.collect();
        let iams: Option<Vec<_>> = iams.into_iter().collect();
        if let Some(iams) = &iams {
            let issuers: Vec<_> = iams.iter().map(|iam| iam.issuer()).collect();
            settings.check_issuers(&issuers, problems);
        }
        let permission_source =
            (settings.permissions).source(settings.upstream.connect_deadline, clock, problems);
        let tls = tls::configured(settings, problems);
        let redis = replication::redis(settings, problems);
        Some(Self {
            iams: iams?,
            permission_source: permission_source.map(Arc::new),
            tls,
            redis,
            operator_token: settings.management.token.clone().map(Arc::new),
            collector: Collector::new(&settings.traces, Arc::clone(clock), problems),
        })
    }
}

/// The parts of the service, before it listens or connects.
#[derive(Debug, Clone)]
pub struct ServiceDependencies {
    /// The adapters in the order of `Settings::iams`, without deadlines and limits.
    pub iams: Vec<Arc<ArcSwap<Arc<dyn IamAdapter>>>>,
    /// Where the permissions come from; `None`: each IAM.
    pub permission_source: Option<Arc<ArcSwap<PermissionSource>>>,
    /// The keys.
    pub keys: Arc<Keys>,
    /// The certificate of the public listener; `None`: plain HTTP.
    pub tls: Option<Arc<ServerCertificate>>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of identifiers and nonces.
    pub random: Arc<dyn Random>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The stage of the process: serving, shutting down or draining.
    pub lifecycle: Lifecycle,
    /// The sockets that the service manager passes.
    pub sockets: Arc<PassedSockets>,
    /// How long clients may take.
    pub timeouts: ConnectionTimeouts,
    /// The Redis between the replicas, if one is set, and what this replica sends there.
    pub replication: Option<(Redis, Outboxes)>,
    /// How the gateway reaches the other replicas.
    pub replicas: Replicas,
    /// The bearer token of operators, if one is set.
    pub operator_token: Option<Arc<ArcSwap<SecretString>>>,
    /// The audit log, not yet open.
    pub audit: Arc<AuditLog>,
    /// Decides which requests are traced, and exports their spans; `None`: traces are off.
    pub traces: Option<(Arc<Traces>, SpanExporter)>,
    /// Where the settings come from; `None`: no file is read again.
    pub source: Option<Arc<SettingsSource>>,
}

impl ServiceDependencies {
    /// Reads the settings and every file that they name. Makes no connection.
    ///
    /// # Errors
    ///
    /// [`InvalidSettings`], with every problem of the settings, the files, the keys, the certificates
    /// and the adapter.
    pub fn load(
        file: Option<&Path>,
        environment: &BTreeMap<String, String>,
        registry: &Registry,
        clock: Arc<dyn Clock>,
    ) -> Result<(Settings, Self), InvalidSettings> {
        let source = SettingsSource::new(file, environment, registry);
        let (settings, mut parts) = source.load_with(|settings, _, problems| {
            if settings.iams.is_empty() {
                let kinds = registry.kinds.iter();
                let sections: Vec<_> = kinds.map(|kind| format!("iam.{}", kind.name)).collect();
                let sections = sections.join(", ");
                let problem = format!("no IAM is configured; one section is needed, of {sections}");
                problems.add("iam", problem);
            }
            Self::assemble(settings, clock, problems)
        })?;
        parts.source = Some(Arc::new(source));
        Ok((settings, parts))
    }

    /// The parts, unless a problem prevents it. Adds every problem to `problems`.
    fn assemble(
        settings: &Settings,
        clock: Arc<dyn Clock>,
        problems: &mut ConfigErrors,
    ) -> Option<Self> {
        let metrics = Arc::new(Metrics::new(&settings.iam_names()));
        let random: Arc<dyn Random> = Arc::new(SystemRandom::new());
        if let Err(wrong) = check_clock(clock.now()) {
            problems.add("clock", wrong.to_string());
        }
        let keys = keys::load(settings, clock.now(), problems);
        let built = Reloadable::build(settings, &clock, &[], problems);
        if let (AuditDestination::File, Some(path)) =
            (settings.audit.destination, &settings.audit.file)
        {
            audit::check(path).unwrap_or_else(|problem| problems.add("audit.file", problem));
        }
        let (keys, built) = (keys?, built?);
        let audit = AuditLog::new(
            &settings.audit,
            Arc::clone(&keys.identifiers),
            Arc::clone(&clock),
            Arc::clone(&metrics),
        );
        let traces = (built.collector)
            .map(|collector| traces::traces(&settings.traces, collector, &metrics, &*random));
        let replication = built.redis.zip(settings.redis.as_ref());
        let replication = replication.map(|(redis, section)| {
            let outboxes = Outboxes::new(&redis, &clock, &*random, section.share_knowledge);
            (redis, outboxes)
        });
        Some(Self {
            iams: (built.iams.into_iter())
                .map(|iam| Arc::new(ArcSwap::from_pointee(iam)))
                .collect(),
            permission_source: (built.permission_source)
                .map(|source| Arc::new(ArcSwap::new(source))),
            keys: Arc::new(keys),
            tls: built.tls,
            clock,
            random,
            metrics,
            audit: Arc::new(audit),
            timeouts: ConnectionTimeouts::default(),
            lifecycle: Lifecycle::default(),
            sockets: Arc::default(),
            replicas: (replication.as_ref())
                .map(|(_, outboxes)| outboxes.replicas())
                .unwrap_or_default(),
            replication,
            operator_token: (built.operator_token).map(|token| Arc::new(ArcSwap::new(token))),
            traces,
            source: None,
        })
    }
}
