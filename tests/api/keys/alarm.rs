//! A broken key folder, and where it is reported.

use std::fs;

use iam_adapters::Clock as _;
use serde_json::json;
use test_support::client::Response;
use test_support::files::write_private;
use test_support::suite::READ;

use super::{Folder, KeyRotationFixture, MAX_AGE, Replica};
use crate::metrics::exposition;

impl Replica {
    /// Adds an incomplete file to its keys.
    fn breaks(&self, fixture: &KeyRotationFixture, folder: Folder) {
        let path = self.place.join(folder.name()).join("broken.jwk");
        let draft = path.with_extension("draft");
        write_private(&draft, "{\"kty\":\"oct\",\"k\":\"canary");
        fs::rename(draft, path).expect("renamed");
        self.keys.reload(fixture.iam.clock.now()).for_each(drop);
    }

    fn metric(&self, name: &str, labels: &str) -> u64 {
        exposition(&self.app).count(&format!("auth_gateway_{name}{{{labels}}}"))
    }
}

fn reasons(report: &Response) -> Vec<String> {
    let report = report.json();
    let reasons = report["reasons"].as_array().expect("reasons").iter();
    reasons
        .filter(|reason| reason["code"] == json!("keys_unreadable"))
        .map(|reason| reason["message"].as_str().expect("text").to_owned())
        .collect()
}

#[tokio::test]
async fn broken_key_folder_is_reported_and_refuses_no_session() {
    for folder in Folder::BOTH {
        let fixture = KeyRotationFixture::new(1).await;
        let replica = &fixture.replicas[0];
        let purpose = format!("purpose=\"{}\"", folder.name());
        let refused = format!("{purpose},outcome=\"refused\"");
        let session = fixture.log_in(0).await;
        assert_eq!(replica.metric("keys_unreadable", &purpose), 0);

        replica.breaks(&fixture, folder);
        let report = replica.app.ready().await;
        assert_eq!(report.status, 200);
        assert_eq!(report.json()["status"], json!("degraded"));
        let reasons_of_folder = reasons(&report);
        assert_eq!(reasons_of_folder.len(), 1, "{reasons_of_folder:?}");
        assert!(
            reasons_of_folder[0].contains("broken.jwk")
                && reasons_of_folder[0].contains(folder.name())
        );
        assert!(!report.text().contains("canary"));
        assert_eq!(replica.metric("keys_unreadable", &purpose), 1);
        assert_eq!(replica.metric("key_reloads_total", &refused), 1);
        fixture.token(0, &session).await;
        fixture.log_in(0).await;

        fixture.deliver(0);
        let report = replica.app.ready().await;
        assert_eq!(reasons(&report), [""; 0], "{}", report.text());
        assert_eq!(replica.metric("keys_unreadable", &purpose), 0);
        assert_eq!(replica.metric("key_reloads_total", &refused), 1);
        fixture.token(0, &session).await;
    }
}

#[tokio::test]
async fn session_sealed_with_an_unreadable_key_is_a_fault_and_no_refusal() {
    let fixture = KeyRotationFixture::new(2).await;
    fixture.make(Folder::Sealing, fixture.now() + 2 * MAX_AGE);
    fixture.deliver(0);
    fixture.replicas[1].breaks(&fixture, Folder::Sealing);
    fixture.iam.advance(2 * MAX_AGE.as_secs());
    let session = fixture.log_in(0).await;
    let behind = &fixture.replicas[1].app;
    behind
        .exchange(&session, READ)
        .await
        .is_error(500, "server_error");
    behind.log_out(&session).await.is_error(500, "server_error");
    let mut garbage = session.clone();
    garbage.session_token.replace_range(..3, "abc");
    behind
        .exchange(&garbage, READ)
        .await
        .is_error(401, "invalid_grant");
    fixture.deliver(1);
    fixture.token(1, &session).await;
}

#[tokio::test]
async fn age_and_id_of_the_key_in_use_are_reported_across_a_rotation() {
    let fixture = KeyRotationFixture::new(1).await;
    let series = |purpose: &str| {
        let exposition = exposition(&fixture.replicas[0].app);
        let label = format!("purpose=\"{purpose}\"");
        let series = exposition.only("auth_gateway_key_age_seconds", &label);
        (series.to_owned(), exposition.count(series))
    };
    for folder in Folder::BOTH {
        let next = fixture.make(folder, fixture.now() + 2 * MAX_AGE);
        fixture.deliver(0);
        let kid = format!("kid=\"{next}\"");
        let (before, _) = series(folder.name());
        assert!(!before.contains(&kid), "{before}");
        fixture.iam.advance(2 * MAX_AGE.as_secs() + 7);
        let (after, age) = series(folder.name());
        assert!(after.contains(&kid), "{after}");
        assert_eq!(age, 7);
        let report = fixture.replicas[0].app.ready().await.json();
        let member = format!("{}_kid", folder.name());
        assert_eq!(report["keys"][member], json!(next));
    }
}

#[tokio::test]
async fn sealing_key_is_reported_as_old_until_it_is_rotated() {
    let fixture = KeyRotationFixture::new(1).await;
    let codes = async || {
        let report = fixture.replicas[0].app.ready().await.json();
        let reasons = report["reasons"].as_array().expect("reasons").clone();
        let codes = reasons.into_iter().map(|reason| reason["code"].clone());
        (report["status"].clone(), codes.collect::<Vec<_>>())
    };
    let degraded = (json!("degraded"), vec![json!("sealing_key_old")]);
    fixture.replicas[0]
        .app
        .wait_for_readiness("degraded", &["sealing_key_old"])
        .await;
    fixture.make(Folder::Sealing, fixture.now() + 2 * MAX_AGE);
    fixture.deliver(0);
    fixture.iam.advance(2 * MAX_AGE.as_secs() - 1);
    assert_eq!(codes().await, degraded);
    fixture.iam.advance(1);
    assert_eq!(codes().await, (json!("ready"), vec![]));
    let month = 32 * 24 * 3600;
    fixture.iam.advance(month);
    assert_eq!(codes().await, (json!("ready"), vec![]));
    fixture.iam.advance(1);
    assert_eq!(codes().await, degraded);
}
