//! The suite of the API through the real adapter, with the shared Keycloak.

use test_support::suite;

use crate::fixture::LiveFixture;

macro_rules! over_keycloak {
    ($($module:ident::$test:ident,)*) => {$(
        #[tokio::test]
        #[ignore = "needs a real Keycloak: tests/run starts one"]
        async fn $test() {
            suite::$module::$test(&LiveFixture::new().await.iam).await;
        }
    )*};
}

suite::for_each_test!(over_keycloak);
