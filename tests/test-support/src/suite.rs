//! The suite of the API, for any IAM: each test is an async function over an [`IamFixture`], all of
//! them in one table. It panics where the gateway breaks its contract.

#![expect(missing_docs, reason = "the name of a test is its documentation")]

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::ManualClock;
use iam_adapters::{Clock, Permission, Permissions};
use iam_conformance::{Account, Fixture};
use mock_iam::MockFixture;
use secrecy::SecretString;

use crate::client::{Client, Session};
use crate::gateway::{TestGateway, manual_clock};
use crate::keys::TestKeys;

pub mod administration;
pub mod bad_sessions;
pub mod discovery;
pub mod exchange;
pub mod lifetimes;
pub mod login;
pub mod logout;
pub mod replicas;
pub mod requests;
pub mod scopes;
pub mod verifier;

/// Calls a macro with every test of the suite, as a list of `module::test,`.
#[macro_export]
macro_rules! for_each_test {
    ($macro:ident) => {
        $macro! {
            login::a_login_returns_a_session_and_nothing_more,
            login::every_login_is_a_session_of_its_own,
            login::every_refused_login_gets_the_same_answer,
            login::an_account_let_in_again_logs_in,
            login::a_password_is_taken_character_for_character,
            login::what_a_client_adds_to_a_login_chooses_nothing,
            exchange::an_exchange_returns_a_token_and_nothing_more,
            exchange::a_session_is_not_used_up_by_an_exchange,
            exchange::a_token_names_its_user_its_session_and_its_time,
            exchange::several_audiences_are_named_in_their_order,
            scopes::granted_is_what_was_asked_for_and_may_be_held,
            scopes::where_nothing_is_granted_the_token_has_no_scope,
            scopes::without_a_scope_the_default_is_asked_for,
            scopes::an_empty_grant_is_refused_where_the_operator_says_so,
            scopes::a_scope_outside_the_grammar_is_refused,
            scopes::the_longest_scope_is_served,
            lifetimes::a_token_lives_as_long_as_the_operator_says,
            lifetimes::no_token_outlives_its_session,
            lifetimes::a_session_ends_at_the_second_it_said,
            logout::a_logout_says_ok_and_nothing_more,
            logout::a_repeated_logout_is_a_success,
            logout::a_logout_ends_the_session_and_no_other,
            logout::a_token_outlives_the_logout_of_its_session,
            bad_sessions::the_id_of_one_session_with_the_token_of_another_does_nothing,
            bad_sessions::every_bad_session_gets_the_same_answer,
            bad_sessions::a_logout_with_what_is_no_session_ends_nothing,
            requests::a_member_that_is_missing_or_of_another_type_is_refused,
            requests::a_body_that_is_no_json_object_is_refused,
            requests::members_that_nobody_knows_are_ignored,
            requests::a_query_is_refused,
            requests::what_is_too_long_is_refused_and_never_cut,
            requests::another_grant_type_is_refused,
            administration::a_permission_given_or_taken_is_felt_within_its_time,
            administration::a_session_ended_by_the_administrator_is_felt_within_its_time,
            administration::a_user_switched_off_is_out_within_the_freshness,
            administration::a_deleted_user_is_out_within_the_freshness,
            administration::a_changed_password_is_the_only_one,
            replicas::replicas_publish_the_same_keys,
            replicas::a_session_of_one_replica_is_good_at_another,
            replicas::a_session_outlives_the_replica_that_made_it,
            replicas::a_replica_takes_nobodys_word_but_the_iams,
            replicas::a_logout_at_one_replica_is_felt_at_another_within_the_freshness,
            replicas::a_gateway_with_other_keys_accepts_nothing,
            discovery::a_token_is_verified_from_discovery_alone,
            discovery::a_token_that_was_altered_is_not_verified,
            discovery::the_metadata_says_what_there_is,
            discovery::the_published_keys_are_public,
            discovery::what_is_published_may_be_cached,
        }
    };
}
pub use crate::for_each_test;

/// The permission to read orders.
pub const READ: &str = "urn:shop:orders:order:read";
/// The permission to change orders.
pub const WRITE: &str = "urn:shop:orders:order:write";
/// The permission to read the catalog.
pub const BROWSE: &str = "urn:shop:catalog:item:read";

/// An IAM with its administrator, and the clock of all gateways in front of it.
pub struct IamFixture {
    /// Changes users and sessions at the IAM, and has the adapter.
    pub administrator: Arc<dyn Fixture>,
    /// The clock of all gateways.
    pub clock: Arc<ManualClock>,
}

impl IamFixture {
    /// Its clock starts at the time of day, because an IAM may have a clock of its own.
    pub fn new(iam: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Fixture>) -> Self {
        let clock = manual_clock();
        let administrator = iam(Arc::<ManualClock>::clone(&clock));
        Self {
            administrator,
            clock,
        }
    }

    /// An empty mock.
    pub fn in_memory() -> Self {
        Self::new(|clock| Arc::new(MockFixture::new(clock, |mock| mock)))
    }

    /// A gateway with keys of its own.
    pub fn gateway(&self) -> TestGateway {
        self.gateway_with(&[])
    }

    /// A gateway with these settings.
    pub fn gateway_with(&self, overrides: &[(&str, &str)]) -> TestGateway {
        let clock = Arc::<ManualClock>::clone(&self.clock);
        TestGateway::with_adapter(self.administrator.adapter(), clock, overrides)
    }

    /// A gateway with the keys in this folder.
    pub fn replica(&self, keys: &TestKeys) -> TestGateway {
        self.gateway_with(&keys.settings())
    }

    /// A new user with these permissions.
    pub async fn user(&self, permissions: &[&str]) -> Account {
        let password = format!("Aa1!{}", unique_name());
        self.user_with_password(&password, permissions).await
    }

    /// A new user with this password and these permissions.
    pub async fn user_with_password(&self, password: &str, names: &[&str]) -> Account {
        let email = format!("{}@example.test", unique_name());
        let password = SecretString::from(password);
        let subject = self
            .administrator
            .create_user(&email, &password, &permissions(names))
            .await;
        Account {
            email,
            password,
            subject,
        }
    }

    /// The time, in whole seconds since 1970.
    pub fn now(&self) -> u64 {
        self.clock.now().unix_seconds()
    }

    /// Advances the gateways' clock.
    pub fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

/// The session of a login that has to succeed.
pub async fn session_of(gateway: &Client, user: &Account) -> Session {
    gateway.log_in(&user.email, &user.password).await.session()
}

/// The permissions with these names.
pub fn permissions(names: &[&str]) -> Permissions {
    names
        .iter()
        .map(|name| Permission::parse(name).expect("a scope name"))
        .collect()
}

/// A random name, short enough for the local part of an address.
pub fn unique_name() -> String {
    let mut bits = [0; 16];
    aws_lc_rs::rand::fill(&mut bits).expect("randomness");
    format!("{:032x}", u128::from_be_bytes(bits))
}
