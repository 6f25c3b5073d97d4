//! Metrics of a gateway.

use std::fmt::Display;

use test_support::metrics;

/// The number of calls of this operation to the IAM.
pub(crate) async fn iam_calls(management: impl Display, operation: &str) -> u64 {
    let label = format!("operation=\"{operation}\"");
    metrics::sum(management, "iam_calls_total", &label).await
}

/// The number of logout tokens with this outcome.
pub(crate) async fn logout_tokens(management: impl Display, outcome: &str) -> u64 {
    let label = format!("outcome=\"{outcome}\"");
    metrics::sum(management, "logout_tokens_total", &label).await
}
