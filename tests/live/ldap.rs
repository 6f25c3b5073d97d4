//! The gateway with a real OpenLDAP, 389 Directory Server and Samba. Each test starts its own server.

mod directory;
mod logins;
mod secrecy;
mod sessions;

use std::sync::Arc;

use test_support::suite::IamFixture;

use directory::{Directory, Kind};

/// Makes a test of each function over the server `KIND` of the module in which it is called.
macro_rules! over_this_server {
    ($($module:ident::$test:ident,)*) => {$(
        #[tokio::test]
        #[ignore = "needs a real directory: tests/run installs it"]
        async fn $test() {
            super::$module::$test(&super::Directory::start(KIND).await).await;
        }
    )*};
}

/// An IAM for the suite of the API.
async fn iam(kind: Kind) -> IamFixture {
    let directory = Arc::new(Directory::start(kind).await);
    IamFixture::new(|_| directory)
}

/// Calls a macro with every test that all servers pass.
macro_rules! for_each_test {
    ($macro:ident) => {
        $macro! {
            sessions::adapter_passes_the_conformance_suite,
            sessions::temporary_lock_ends_no_session_and_what_an_administrator_does_ends_it,
            sessions::groups_within_groups_are_found_and_long_answers_are_read_in_pages_at_the_same_time,
            sessions::lost_rights_of_the_service_account_end_no_session_and_refuse_no_login,
            sessions::groups_that_cannot_be_read_are_a_fault,
            sessions::connection_keeps_nothing_of_searches_that_have_ended,
            logins::refusal_of_each_state_has_its_own_reason,
            logins::address_is_never_a_pattern,
            logins::address_of_two_entries_is_a_fault_and_no_login,
            logins::each_wrong_setting_is_named,
            secrecy::no_credential_is_written,
        }
    };
}

mod openldap {
    use super::Kind;

    const KIND: Kind = Kind::OpenLdap;

    for_each_test!(over_this_server);
    over_this_server! {
        logins::every_kind_of_connection_works,
        logins::first_server_that_responds_is_used,
        sessions::connection_is_made_again_after_a_restart,
        sessions::logout_has_an_effect_at_every_replica,
        sessions::groups_can_be_ten_deep_within_each_other_and_no_deeper,
        sessions::size_limit_that_is_too_small_is_named,
        sessions::server_that_lags_behind_ends_no_session,
        sessions::server_that_lags_behind_a_new_password_ends_no_session,
        logins::server_that_responds_to_nothing_is_left,
        logins::login_binds_at_the_server_of_the_entry_or_fails,
        secrecy::late_response_is_not_written,
    }
    test_support::suite::for_each_test!(
        api_suite,
        "needs a real directory: tests/run installs it",
        { crate::ldap::iam(super::KIND).await }
    );
}

mod ds389 {
    use super::Kind;

    const KIND: Kind = Kind::DirectoryServer389;

    for_each_test!(over_this_server);
    over_this_server! {
        sessions::groups_can_be_ten_deep_within_each_other_and_no_deeper,
        logins::locked_service_account_is_named,
        logins::service_account_that_must_change_its_password_is_named,
    }
    test_support::suite::for_each_test!(
        api_suite,
        "needs a real directory: tests/run installs it",
        { crate::ldap::iam(super::KIND).await }
    );
}

mod samba {
    use super::Kind;

    const KIND: Kind = Kind::Samba;

    for_each_test!(over_this_server);
    test_support::suite::for_each_test!(
        api_suite,
        "needs a real directory: tests/run installs it",
        { crate::ldap::iam(super::KIND).await }
    );
}
