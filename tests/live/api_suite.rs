//! The API suite through the real adapter, before the shared Keycloak.

use test_support::suite;

use crate::scene::Scene;

macro_rules! hold_over_keycloak {
    ($($room:ident::$promise:ident,)*) => {$(
        #[tokio::test]
        #[ignore = "needs a real Keycloak: tests/run starts one"]
        async fn $promise() {
            suite::$room::$promise(&Scene::new().await.world).await;
        }
    )*};
}

suite::for_every_promise!(hold_over_keycloak);
