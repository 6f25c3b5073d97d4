//! The gateway with a real Glewlwyd and a real django-oauth-toolkit. Each test starts its own server.

mod client_authentication;
mod examples;
mod outage;
mod random_scopes;
mod secrecy;
mod server;
mod sessions;

use server::OAuth2Fixture;

/// Makes a test of each function over the server `KIND` of the module in which it is called.
macro_rules! over_this_server {
    ($($module:ident::$test:ident,)*) => {$(
        #[tokio::test]
        #[ignore = "needs a real server: tests/run installs it"]
        async fn $test() {
            super::$module::$test(&super::OAuth2Fixture::start(KIND).await).await;
        }
    )*};
}

/// Calls a macro with every test that both servers pass.
macro_rules! for_each_test {
    ($macro:ident) => {
        $macro! {
            sessions::adapter_passes_the_conformance_suite,
            sessions::logout_ends_both_tokens_at_the_server,
            sessions::session_of_a_login_that_cannot_be_used_is_ended_at_the_server,
            client_authentication::every_method_of_the_server_works,
            client_authentication::rejected_client_is_a_misconfiguration_and_refuses_no_login,
            examples::settings_of_init_work_with_the_server,
            examples::settings_in_the_documentation_work_with_the_server,
            outage::outage_is_reported_as_such_and_ends_without_a_restart,
            secrecy::no_token_of_the_server_and_no_credential_is_written,
            random_scopes::granted_scope_equals_that_of_the_server_in_a_thousand_random_cases,
        }
    };
}

mod django_oauth {
    use super::server::Kind;

    const KIND: Kind = Kind::DjangoOAuth;

    for_each_test!(over_this_server);
    test_support::suite::for_each_test!(api_suite, "needs a real server: tests/run installs it", {
        crate::oauth2::OAuth2Fixture::start(super::KIND).await.iam
    });
}

mod glewlwyd {
    use super::server::Kind;

    const KIND: Kind = Kind::Glewlwyd;

    for_each_test!(over_this_server);
    test_support::suite::for_each_test!(api_suite, "needs a real server: tests/run installs it", {
        crate::oauth2::OAuth2Fixture::start(super::KIND).await.iam
    });
}
