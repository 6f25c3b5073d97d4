//! A real OpenTelemetry Collector receives the spans of a gateway.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;
use test_support::ManualClock;
use test_support::gateway::{TestGateway, manual_clock, scripted_keycloak_settings};
use test_support::scripted_upstream::ScriptedUpstream;
use test_support::scripted_upstream::keycloak::{INTROSPECTION, inactive};
use test_support::spans::{self, ExportedSpan, tree};
use test_support::wait::until_ok;

use crate::launched::Launched;

#[derive(Deserialize)]
struct Facts {
    endpoint: String,
    spans: PathBuf,
}

impl Facts {
    /// The spans that the Collector has written: messages, each after its length in four bytes.
    fn spans(&self) -> Vec<ExportedSpan> {
        let written = fs::read(&self.spans).unwrap_or_default();
        let mut rest = written.as_slice();
        let mut found = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk() {
            let length = u32::from_be_bytes(*length) as usize;
            let Some((message, after)) = after.split_at_checked(length) else {
                break;
            };
            found.extend(spans::decode(message));
            rest = after;
        }
        found
    }

    /// The trees of all traces, once the Collector has written this number of spans.
    async fn traces(&self, count: usize) -> Vec<Vec<ExportedSpan>> {
        let all = until_ok("the spans", async || {
            let all = self.spans();
            if all.len() == count {
                Ok(all)
            } else {
                Err(all.len())
            }
        });
        let all = all.await;
        let mut ids: Vec<_> = all.iter().map(|span| span.trace_id.clone()).collect();
        ids.sort();
        ids.dedup();
        let of = |id: &String| {
            let spans = all.iter().filter(|span| span.trace_id == *id);
            spans.cloned().collect()
        };
        ids.iter().map(of).collect()
    }
}

/// A gateway in front of a Keycloak, which exports to a Collector.
async fn gateway(
    collector: &Facts,
    settings: &[(&str, &str)],
) -> (ScriptedUpstream, TestGateway, Arc<ManualClock>) {
    let keycloak = ScriptedUpstream::keycloak().await;
    // The first probe introspects an invalid token.
    keycloak.once(INTROSPECTION, inactive());
    let url = keycloak.url();
    let traces = [
        ("traces.endpoint", collector.endpoint.as_str()),
        ("upstream.probe_interval", "1h"),
    ];
    let all = [&scripted_keycloak_settings(&url)[..], &traces, settings].concat();
    let clock = manual_clock();
    let gateway = TestGateway::start_with_clock(Arc::<ManualClock>::clone(&clock), &all);
    // The probe has fetched the discovery document, which a login would fetch otherwise.
    gateway.wait_for_readiness("ready", &[]).await;
    (keycloak, gateway, clock)
}

#[tokio::test]
#[ignore = "needs an OpenTelemetry Collector: tests/run builds it"]
async fn collector_receives_the_spans_of_requests_below_their_parents() {
    let (_process, collector) = Launched::start::<Facts>("COLLECTOR_LAUNCHER", Vec::new()).await;
    let ratio = [("traces.sample_ratio", "1")];
    let (_keycloak, gateway, clock) = gateway(&collector, &ratio).await;
    let password = SecretString::from("alice-pass");
    let session = gateway
        .log_in("alice@example.test", &password)
        .await
        .session();
    clock.advance(Duration::from_secs(120));
    assert_eq!(gateway.exchange(&session, "").await.status, 200);
    assert_eq!(gateway.log_out(&session).await.status, 200);
    let traces = collector.traces(11).await;
    let mut trees: Vec<_> = traces.iter().map(|spans| tree(spans)).collect();
    trees.sort();
    let expected: [&[&str]; 3] = [
        &[
            "0 POST /api/v1/auth/login Server",
            "1 iam login Internal",
            "2 POST Client",
            "2 POST Client",
        ],
        &[
            "0 POST /api/v1/auth/logout Server",
            "1 iam logout Internal",
            "2 POST Client",
        ],
        &[
            "0 POST /api/v1/auth/token Server",
            "1 introspection Internal",
            "2 iam introspection Internal",
            "3 POST Client",
        ],
    ];
    assert_eq!(trees, expected);
    let resource = &traces[0][0].resource;
    assert_eq!(resource["service.name"], "auth-gateway");
}
