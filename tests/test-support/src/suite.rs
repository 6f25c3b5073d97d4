//! The suite of the API, for any IAM: each test is an async function over an [`IamFixture`], in one of two
//! tables. A test panics where the gateway breaks its contract.

#![expect(missing_docs, reason = "the name of a test is its documentation")]

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::{Clock, Permission, Permissions};
use iam_conformance::{Account, Fixture};
use mock_iam::ManualClock;
use secrecy::SecretString;

use crate::client::{Client, Session};
use crate::gateway::{TestGateway, manual_clock};
use crate::keys::TestKeys;
use crate::mock_fixture::MockFixture;

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

/// Calls a macro with these tokens, and then with every test that depends on the IAM, as a list of `module::test,`.
#[macro_export]
macro_rules! for_each_test {
    ($macro:ident $(, $more:tt)*) => {
        $macro! {
            $($more)*
            login::login_returns_a_session_and_nothing_else,
            login::every_refused_login_has_the_same_response,
            login::one_time_password_is_required_of_users_who_have_one_if_the_iam_takes_it,
            exchange::exchange_returns_a_token_and_nothing_else,
            exchange::token_contains_user_session_and_times,
            scopes::granted_scope_is_the_intersection_of_requested_and_held,
            logout::logout_returns_ok_and_nothing_else,
            bad_sessions::every_invalid_session_has_the_same_response,
            bad_sessions::logout_of_an_invalid_session_ends_nothing,
            requests::too_long_value_is_refused_and_never_truncated,
            administration::changed_permission_takes_effect_within_its_ttl_or_at_the_next_login,
            administration::session_ended_by_the_administrator_is_refused_within_the_freshness,
            administration::disabled_user_is_refused_within_the_freshness_if_the_iam_reports_it,
            administration::deleted_user_is_refused_within_the_freshness_if_the_iam_reports_it,
            administration::changed_password_replaces_the_old_one,
            replicas::session_of_one_replica_is_valid_at_another,
            replicas::replica_accepts_liveness_from_the_iam_only,
        }
    };
}
pub use crate::for_each_test;

/// Calls a macro with every other test, for which all IAMs are the same, as a list of `module::test,`.
#[macro_export]
macro_rules! for_each_test_of_any_iam {
    ($macro:ident) => {
        $macro! {
            login::invalid_one_time_password_is_described,
            exchange::several_audiences_keep_their_order,
            scopes::missing_scope_means_the_default_scope,
            scopes::empty_scope_is_refused_if_configured,
            lifetimes::token_lifetime_follows_the_setting,
            requests::missing_or_mistyped_member_is_refused,
            requests::body_that_is_not_a_json_object_is_refused,
            requests::unknown_members_are_ignored,
            requests::query_is_refused,
            requests::other_grant_type_is_refused,
            replicas::replicas_publish_the_same_keys,
            discovery::token_can_be_verified_from_discovery,
            discovery::metadata_lists_the_endpoints,
            discovery::published_documents_can_be_cached,
        }
    };
}
pub use crate::for_each_test_of_any_iam;

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
        Self::new(|clock| Arc::new(MockFixture::new(clock, |mock| Arc::new(mock))))
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

    /// A gateway with these keys.
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
