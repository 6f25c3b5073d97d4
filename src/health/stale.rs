//! Whether access tokens are issued with stale data. Logged once at the beginning and once at the
//! end, not for each token.

use std::time::Duration;

use iam_adapters::Moment;

/// How long after the last such token the period ends. Longer than the time between two calls to the
/// IAM, so that an IAM that fails now and then is logged once.
const QUIET: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Period {
    began: Moment,
    last: Moment,
    tokens: u64,
}

/// The current period in which access tokens are issued with stale data, if any.
#[derive(Debug, Default)]
pub(super) struct Stale(Option<Period>);

impl Stale {
    /// Records an access token that was issued with stale data.
    pub(super) fn served(&mut self, iam: &str, now: Moment) {
        self.update(iam, now);
        let period = self.0.get_or_insert_with(|| {
            tracing::warn!(
                iam.name = iam,
                "the IAM does not respond: access tokens are issued with stale data"
            );
            Period {
                began: now,
                last: now,
                tokens: 0,
            }
        });
        period.last = now;
        period.tokens += 1;
    }

    /// Ends the period if it is over.
    pub(super) fn update(&mut self, iam: &str, now: Moment) {
        let is_over = |period: &mut Period| now.since(period.last) >= QUIET;
        if let Some(period) = self.0.take_if(is_over) {
            tracing::info!(
                iam.name = iam,
                tokens = period.tokens,
                duration_s = period.last.since(period.began).as_secs(),
                "no access tokens are issued with stale data any more"
            );
        }
    }

    /// Whether the period is not over.
    pub(super) fn is_active(&self, now: Moment) -> bool {
        self.0
            .as_ref()
            .is_some_and(|period| now.since(period.last) < QUIET)
    }
}
