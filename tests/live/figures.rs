//! What a gateway counts of itself.

use std::fmt::Display;

use test_support::metrics;

/// How often the gateway with this management listener has asked the IAM for this.
pub(crate) async fn iam_calls(management: impl Display, operation: &str) -> u64 {
    let label = format!("operation=\"{operation}\"");
    metrics::sum(management, "iam_calls_total", &label).await
}

/// How many logout tokens came to this end.
pub(crate) async fn logout_tokens(management: impl Display, outcome: &str) -> u64 {
    let label = format!("outcome=\"{outcome}\"");
    metrics::sum(management, "logout_tokens_total", &label).await
}
