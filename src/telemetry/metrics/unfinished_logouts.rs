//! The metrics of logouts that failed at the IAM. They are set at each scrape.

use std::sync::atomic::Ordering;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Labels;
use crate::gateway::upstream_logouts::{Outcome, UpstreamLogouts};

pub(super) struct UnfinishedLogoutMetrics {
    unfinished: Gauge,
    ended: Family<Labels<1>, Counter>,
}

impl UnfinishedLogoutMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            unfinished: Gauge::default(),
            ended: Family::default(),
        };
        let help = "Logouts that failed at the IAM and are not finished yet";
        registry.register("unfinished_logouts", help, metrics.unfinished.clone());
        let help = "Logouts that failed at the IAM and are no longer repeated, by outcome";
        registry.register("unfinished_logouts_ended", help, metrics.ended.clone());
        for outcome in Outcome::ALL {
            let _ = metrics.of(outcome);
        }
        metrics
    }

    pub(super) fn take(&self, logouts: &UpstreamLogouts) {
        let unfinished = logouts.unfinished_count();
        let unfinished = i64::try_from(unfinished).unwrap_or(i64::MAX);
        self.unfinished.set(unfinished);
        let outcomes = logouts.outcomes();
        for outcome in Outcome::ALL {
            let counter = self.of(outcome);
            counter
                .inner()
                .store(outcomes.of(outcome), Ordering::Relaxed);
        }
    }

    fn of(&self, outcome: Outcome) -> Counter {
        self.ended
            .get_or_create_owned(&[("outcome", outcome.name())])
    }
}
