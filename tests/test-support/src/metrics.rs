//! Reading the metrics of a gateway.

use std::fmt::Display;

use crate::client::http_client;

/// The sum of all series of a metric whose labels contain this text. The name has no
/// `auth_gateway_`. Panics if there is no such series.
pub async fn sum(management: impl Display, name: &str, label: &str) -> u64 {
    let request = http_client().get(format!("http://{management}/metrics"));
    let response = request.send().await.expect("a response");
    let text = response.text().await.expect("text");
    let values: Vec<u64> = text
        .lines()
        .filter_map(|line| {
            let series = line.strip_prefix("auth_gateway_")?.strip_prefix(name)?;
            let (labels, value) = series.rsplit_once(' ')?;
            let of_name = labels.is_empty() || labels.starts_with('{');
            (of_name && labels.contains(label)).then(|| value.parse().expect("a count"))
        })
        .collect();
    assert!(!values.is_empty(), "no {name} with {label}: {text}");
    values.iter().sum()
}
