//! An IAM that does not respond in time.

use test_support::scripted_upstream::Answer;
use test_support::scripted_upstream::keycloak::{
    DISCOVERY, INTROSPECTION, KEYCLOAK, LOGOUT, TOKEN,
};

use super::TOO_SLOW;
use super::wire_fixture::WireFixture;

#[tokio::test]
async fn each_operation_has_the_deadline_of_its_setting() {
    // All other deadlines are long.
    for (path, deadline) in [
        (TOKEN, "upstream.login_deadline"),
        (DISCOVERY, "upstream.login_deadline"),
        (INTROSPECTION, "upstream.introspection_deadline"),
        (LOGOUT, "upstream.logout_deadline"),
    ] {
        let fixture = WireFixture::new(&KEYCLOAK, &[(deadline, "200ms")]).await;
        let response = fixture.call_with_fault(path, &Answer::hanging()).await;
        TOO_SLOW.is_in(&response, false, path);
        fixture.is_ready("degraded", &["timed_out"]).await;
    }
}
