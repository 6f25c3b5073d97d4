//! Settings that do not fit the IAM: each has its reason in readiness, and none is a 401.

use test_support::scripted_upstream::PROTOCOLS;

use super::BROKEN;
use super::wire_fixture::WireFixture;

#[tokio::test]
async fn gateway_misconfigured_from_the_start_is_not_ready_and_reports_the_reason() {
    for protocol in &PROTOCOLS {
        let another_issuer = (protocol.metadata)("http://another.test/realms/shop");
        for (path, answer, status, code) in [
            (protocol.discovery, another_issuer, "not_ready", "issuer"),
            // Only requests show that introspection works again.
            (
                protocol.introspection,
                (protocol.inactive)(),
                "degraded",
                "introspection",
            ),
        ] {
            // It names no issuer.
            if protocol.adapter == "kratos" && code == "issuer" {
                continue;
            }
            let fixture = WireFixture::new(protocol, &[]).await;
            fixture.iam.on(path, answer);
            BROKEN.is_in(&fixture.log_in().await, false, code);
            fixture.is_ready(status, &[code]).await;
            fixture.recovers();
            assert_eq!(fixture.log_in().await.status, 200, "after {code}");
            fixture.is_ready("ready", &[]).await;
        }
    }
}
