//! Redirects, and what must not be sent to their target.

use test_support::scripted_upstream::{Answer, PROTOCOLS, ScriptedUpstream};

use super::BROKEN;
use super::wire_fixture::WireFixture;

#[tokio::test]
async fn no_credential_follows_a_redirect() {
    for protocol in &PROTOCOLS {
        let fixture = WireFixture::new(protocol, &[]).await;
        assert_eq!(fixture.log_in().await.status, 200);
        let elsewhere = ScriptedUpstream::of(protocol).await;
        for status in [301, 302, 303, 307, 308] {
            for path in protocol.endpoints() {
                let there = format!("{}{path}", elsewhere.url());
                let response = fixture
                    .call_with_fault(path, &Answer::redirect(status, &there))
                    .await;
                BROKEN.is_in(&response, false, &format!("{status} from {path}"));
                fixture.is_ready("degraded", &["other"]).await;
            }
        }
        assert!(elsewhere.requests().is_empty());
    }
}

#[tokio::test]
async fn redirected_discovery_receives_no_password() {
    for protocol in &PROTOCOLS {
        let fixture = WireFixture::new(protocol, &[]).await;
        let elsewhere = ScriptedUpstream::of(protocol).await;
        let there = format!("{}{}", elsewhere.url(), protocol.discovery);
        let redirect = Answer::redirect(302, &there);
        fixture.iam.on(protocol.discovery, redirect);
        BROKEN.is_in(&fixture.log_in().await, false, protocol.name);
        assert!(elsewhere.requests().is_empty());
    }
}
