//! What a gateway counts of itself.

use std::fmt::Display;

use crate::keycloak::{address, http};

/// How often the gateway with this management listener has asked the IAM for this.
pub(crate) async fn iam_calls(management: impl Display, operation: &str) -> u64 {
    let label = format!("operation=\"{operation}\"");
    count(management, "auth_gateway_iam_calls_total", &label).await
}

/// How many logout tokens came to this end.
pub(crate) async fn logout_tokens(management: impl Display, outcome: &str) -> u64 {
    let label = format!("outcome=\"{outcome}\"");
    count(management, "auth_gateway_logout_tokens_total", &label).await
}

async fn count(management: impl Display, name: &str, wanted: &str) -> u64 {
    let metrics = address(&format!("http://{management}"), &["metrics"]);
    let answer = http().get(metrics).send().await.expect("an answer");
    let text = answer.text().await.expect("text");
    let counts: Vec<u64> = text
        .lines()
        .filter_map(|line| {
            let series = line.strip_prefix(name)?.strip_prefix('{')?;
            let (labels, count) = series.split_once("} ")?;
            let count = count.parse().expect("a count");
            labels.contains(wanted).then_some(count)
        })
        .collect();
    assert!(!counts.is_empty(), "{text}");
    counts.iter().sum()
}
