//! The metrics of logouts that failed at the IAM. They are set at each scrape.

use std::sync::atomic::Ordering;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::gateway::upstream_logouts::{Outcome, UpstreamLogouts};

pub(super) struct UnfinishedLogoutMetrics {
    unfinished: Family<[(&'static str, String); 1], Gauge>,
    ended: Family<[(&'static str, String); 2], Counter>,
}

impl UnfinishedLogoutMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            unfinished: Family::default(),
            ended: Family::default(),
        };
        let help = "Logouts that failed at the IAM and are not finished yet";
        registry.register("unfinished_logouts", help, metrics.unfinished.clone());
        let help = "Logouts that failed at the IAM and are no longer repeated";
        registry.register("unfinished_logouts_ended", help, metrics.ended.clone());
        metrics
    }

    pub(super) fn take(&self, iam: &str, logouts: &UpstreamLogouts) {
        let unfinished = logouts.unfinished_count();
        let unfinished = i64::try_from(unfinished).unwrap_or(i64::MAX);
        let labels = [("iam", iam.to_owned())];
        self.unfinished.get_or_create_owned(&labels).set(unfinished);
        let outcomes = logouts.outcomes();
        for outcome in Outcome::ALL {
            let labels = [
                ("outcome", outcome.name().to_owned()),
                ("iam", iam.to_owned()),
            ];
            let counter = self.ended.get_or_create_owned(&labels);
            counter
                .inner()
                .store(outcomes.of(outcome), Ordering::Relaxed);
        }
    }
}
