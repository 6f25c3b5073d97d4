//! The gateway with real IAMs. `tests/run` starts a Keycloak and sets its address in the
//! environment, and installs the servers that tests start; without them, every test is ignored.

// Tells clippy that the helpers of tests are test code.
#![cfg(test)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests use the machine's time, own clients and variables that choose what is tested"
)]

/// What of the suite of the API depends on the IAM, as tests that need this, each with a fixture of its own.
macro_rules! api_suite {
    ($needs:tt $fixture:tt $($module:ident::$test:ident,)*) => {
        mod api_suite {
            use test_support::suite;

            $(
                #[tokio::test]
                #[ignore = $needs]
                async fn $test() {
                    suite::$module::$test(&$fixture).await;
                }
            )*
        }
    };
}

mod addresses;
mod admin_api;
mod administrator;
mod another_realm;
mod backchannel_logout;
mod claims;
mod client_authentication;
mod conformance;
mod differential;
mod fixture;
mod keycloak;
mod kratos;
mod launched;
mod ldap;
mod metrics;
mod misconfigured;
mod oauth2;
mod outage;
mod permission_source;
mod process;
mod random_scopes;
mod reload;
mod secrecy;
mod sessions;
mod settings_file;
mod several_iams;
mod traces;
mod version;

test_support::suite::for_each_test!(api_suite, "needs a real Keycloak: tests/run starts one", {
    crate::fixture::LiveFixture::new().await.iam
});
