//! Several gateways before one Keycloak, each with an adapter of its own, and many clients at once.

use auth_gateway::gateway::keys::Algorithm;
use futures_util::future::join_all;
use test_support::app::TestApp;
use test_support::endpoints::JWKS;
use test_support::suite::{KeyFolder, READ, session_of};

use crate::figures::iam_calls;
use crate::scene::Scene;

const CROWD: usize = 200;

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn two_gateways_share_sessions_and_the_end_of_them() {
    let scene = Scene::new().await;
    let keys = KeyFolder::new(Algorithm::Es256);
    let (one, other) = (
        scene.gateway(&keys.settings()),
        scene.gateway(&keys.settings()),
    );
    let user = scene.user(&[READ]).await;
    for (here, there) in [(&one, &other), (&other, &one)] {
        let session = session_of(here, &user).await;
        assert_eq!(there.exchange(&session, READ).await.token().scope, READ);
        assert_eq!(here.log_out(&session).await.status, 200);
        let upstream = keys.unsealed(&session);
        let told = scene.keycloak.introspect(&upstream.secret).await;
        assert_eq!(told["active"], false);
        scene.outlive_freshness();
        let answer = there.exchange(&session, READ).await;
        answer.is_error(401, "invalid_grant");
        assert_eq!(there.log_out(&session).await.status, 200);
    }
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn a_crowd_with_one_session_asks_keycloak_once() {
    let scene = Scene::new().await;
    let keys = KeyFolder::new(Algorithm::Es256);
    let first = scene.gateway(&keys.settings());
    let session = session_of(&first, &scene.user(&[READ]).await).await;
    // It has never seen the session.
    let cold = scene.gateway(&keys.settings());
    // Connections first, so that the exchanges themselves come all at once.
    join_all((0..CROWD).map(|_| cold.get(JWKS, &[]))).await;
    let crowd = (0..CROWD).map(|_| cold.exchange(&session, READ));
    for answer in join_all(crowd).await {
        assert_eq!(answer.token().scope, READ);
    }
    assert_eq!(introspections(&cold).await, 1);
    scene.outlive_freshness();
    assert_eq!(cold.exchange(&session, READ).await.token().scope, READ);
    assert_eq!(introspections(&cold).await, 2);
}

async fn introspections(gateway: &TestApp) -> u64 {
    iam_calls(gateway.addresses().management, "introspection").await
}
