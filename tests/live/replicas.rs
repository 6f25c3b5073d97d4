//! Several gateways with one Keycloak, and many concurrent clients.

use futures_util::future::join_all;
use test_support::endpoints::JWKS;
use test_support::gateway::TestGateway;
use test_support::keys::TestKeys;
use test_support::suite::{READ, session_of};

use crate::fixture::LiveFixture;
use crate::metrics::iam_calls;

const CONCURRENT: usize = 200;

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn two_gateways_share_sessions_and_their_end() {
    let fixture = LiveFixture::new().await;
    let keys = TestKeys::new();
    let (one, other) = (
        fixture.gateway(&keys.settings()),
        fixture.gateway(&keys.settings()),
    );
    let user = fixture.user(&[READ]).await;
    for (here, there) in [(&one, &other), (&other, &one)] {
        let session = session_of(here, &user).await;
        assert_eq!(there.exchange(&session, READ).await.token().scope, READ);
        assert_eq!(here.log_out(&session).await.status, 200);
        let upstream = keys.unsealed(&session);
        let introspection = fixture.keycloak.introspect(&upstream.secret).await;
        assert_eq!(introspection["active"], false);
        fixture.outlive_freshness();
        let answer = there.exchange(&session, READ).await;
        answer.is_error(401, "invalid_grant");
        assert_eq!(there.log_out(&session).await.status, 200);
    }
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn concurrent_exchanges_of_one_session_make_one_introspection() {
    let fixture = LiveFixture::new().await;
    let keys = TestKeys::new();
    let first = fixture.gateway(&keys.settings());
    let session = session_of(&first, &fixture.user(&[READ]).await).await;
    // It has not seen the session.
    let cold = fixture.gateway(&keys.settings());
    // Connections are opened first, so that the exchanges are concurrent.
    join_all((0..CONCURRENT).map(|_| cold.get(JWKS, &[]))).await;
    let concurrent = (0..CONCURRENT).map(|_| cold.exchange(&session, READ));
    for answer in join_all(concurrent).await {
        assert_eq!(answer.token().scope, READ);
    }
    assert_eq!(introspections(&cold).await, 1);
    fixture.outlive_freshness();
    assert_eq!(cold.exchange(&session, READ).await.token().scope, READ);
    assert_eq!(introspections(&cold).await, 2);
}

async fn introspections(gateway: &TestGateway) -> u64 {
    iam_calls(gateway.addresses().management, "introspection").await
}
