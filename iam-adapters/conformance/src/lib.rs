//! The conformance suite: checks any adapter for the contract of [`IamAdapter`].
//!
//! An adapter needs a [`Fixture`], which is the administrator of its IAM, and one test that calls
//! [`all`]. The IAM may be a real one with other users: the suite creates its own under unique
//! addresses, does not delete them, and does not change the clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use iam_adapters::adapter::IamAdapter;
use iam_adapters::claims::{ClaimSources, ClaimType};
use iam_adapters::scope::Permissions;
use iam_adapters::types::{Subject, UpstreamSession};
use secrecy::SecretString;
use serde_json::{Map, Value};
use thiserror::Error;

mod adapter_under_test;
pub mod administration;
pub mod claims;
pub mod identity;
pub mod logins;
pub mod logout_tokens;
pub mod sessions;

/// The state of an account at the IAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountState {
    /// May log in.
    Active,
    /// Disabled by an administrator.
    Disabled,
    /// Locked, such as after too many wrong passwords.
    Locked,
    /// Incomplete: the user must complete a step first, such as to confirm the address.
    Incomplete,
}

/// Of which members of introspection responses the suite makes claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMembers {
    /// Attributes of users, of every type, which [`Fixture::set_attributes`] sets.
    Attributes,
    /// These, which the IAM states about every user by itself. Other types and changes of values are not tested.
    Fixed(&'static [(&'static str, ClaimType)]),
}

/// The adapter under test and the administrator of its IAM.
///
/// A method that fails panics, because the test is then not conclusive. Its changes are in effect when
/// it returns.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// The adapter, always the same one.
    fn adapter(&self) -> Arc<dyn IamAdapter>;

    /// The states other than [`AccountState::Active`] that this IAM supports. Others are not tested.
    fn account_states(&self) -> &[AccountState];

    /// Another adapter of the same IAM, whose tokens have these claims.
    fn adapter_with_claims(&self, claims: ClaimSources) -> Arc<dyn IamAdapter>;

    /// The members of which the suite makes claims.
    fn claim_members(&self) -> ClaimMembers;

    /// Sets attributes of a user, which the introspection response then has as members with these names and JSON
    /// types. Only called for [`ClaimMembers::Attributes`].
    async fn set_attributes(&self, _: &Account, _: &Map<String, Value>) {
        unreachable!("the IAM states the members by itself")
    }

    /// What the IAM states about an active session, without the adapter.
    async fn introspection_response(&self, session: &UpstreamSession) -> Value;

    /// Creates an active user and returns its id at the IAM. Creates missing permissions.
    async fn create_user(
        &self,
        email: &str,
        password: &SecretString,
        permissions: &Permissions,
    ) -> Subject;

    /// Creates an active user with this address and password, and without permissions, who needs a one-time password
    /// too. Returns its id at the IAM. Called only if the adapter states that it takes one.
    async fn create_user_with_otp(&self, _: &str, _: &SecretString) -> Subject {
        unreachable!("the adapter takes no one-time password")
    }

    /// The one-time password that such a user has now, by the clock of the IAM.
    fn otp(&self) -> SecretString {
        unreachable!("the adapter takes no one-time password")
    }

    /// Deletes a user.
    async fn delete_user(&self, user: &Account);

    /// Changes the password of a user permanently.
    async fn set_password(&self, user: &Account, password: &SecretString);

    /// Sets the permissions of a user.
    async fn set_permissions(&self, user: &Account, permissions: &Permissions);

    /// Sets the state of an account: active, or one of [`Fixture::account_states`].
    async fn set_state(&self, user: &Account, state: AccountState);

    /// Ends one session of a user and returns the logout tokens that the IAM sends (OpenID Connect
    /// Back-Channel Logout 1.0): none if it sends none or the fixture cannot receive them.
    async fn end_session(&self, user: &Account, session: &UpstreamSession) -> Vec<String>;

    /// Ends all sessions of a user and returns the logout tokens as [`Fixture::end_session`] does.
    async fn end_sessions_of(&self, user: &Account) -> Vec<String>;
}

/// A user of the suite.
#[derive(Debug, Clone)]
pub struct Account {
    /// The address, unique at this IAM.
    pub email: String,
    /// The password at creation.
    pub password: SecretString,
    /// The id at the IAM.
    pub subject: Subject,
}

/// How an adapter violates a rule. Contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct CheckFailure(String);

/// One check.
#[derive(Debug)]
pub struct Check {
    /// The rule as a sentence: the name of the check's function.
    pub name: &'static str,
    /// Runs the check.
    pub run: for<'a> fn(&'a dyn Fixture) -> CheckFuture<'a>,
}

/// A running check.
pub type CheckFuture<'a> = Pin<Box<dyn Future<Output = CheckResult> + Send + 'a>>;

/// The result of a check.
pub type CheckResult = Result<(), CheckFailure>;

macro_rules! checks {
    ($($module:ident::$check:ident,)*) => {
        &[$(Check {
            name: stringify!($check),
            run: |fixture| Box::pin($module::$check(fixture)),
        }),*]
    };
}

/// Every check.
pub const CHECKS: &[Check] = checks![
    logins::session_is_active_after_login,
    logins::wrong_password_is_refused,
    logins::unknown_user_and_wrong_password_are_the_same_refusal,
    logins::passwords_are_compared_byte_for_byte,
    logins::every_login_is_a_new_session,
    logins::inactive_account_is_refused_until_it_is_active,
    logins::one_time_password_is_required_and_accepted_once,
    logins::one_time_password_of_a_user_without_one_is_ignored,
    sessions::introspection_does_not_change_the_session,
    sessions::ended_session_is_inactive,
    sessions::ending_a_session_twice_succeeds,
    sessions::ending_one_session_keeps_the_others,
    sessions::session_with_a_tampered_secret_is_never_active,
    sessions::session_is_not_ended_with_a_tampered_secret,
    sessions::concurrent_logins_and_introspections_are_not_mixed_up,
    administration::permissions_have_the_stated_age,
    administration::session_ended_by_the_administrator_is_inactive,
    administration::all_sessions_of_a_user_ended_by_the_administrator_are_inactive,
    administration::disabled_user_is_refused_and_the_session_is_inactive,
    administration::deleted_user_is_refused_and_the_session_is_inactive,
    administration::old_password_is_refused_after_a_change,
    claims::claims_have_the_values_and_types_of_the_iam,
    claims::missing_required_claim_is_a_fault_that_names_it,
    claims::claim_of_another_type_is_a_fault_without_its_value,
    claims::claims_have_the_age_of_permissions,
    logout_tokens::logout_token_identifies_the_ended_session_only,
    logout_tokens::logout_tokens_identify_every_ended_session_of_a_user,
    logout_tokens::altered_logout_token_is_refused,
    identity::probe_succeeds,
    identity::name_and_issuer_do_not_change,
    identity::capabilities_agree_with_the_logout_audience,
    identity::debug_shows_no_secret,
];

/// Runs every check in sequence and returns the failures with the names of the checks.
pub async fn run_all(fixture: &dyn Fixture) -> Vec<(&'static str, CheckFailure)> {
    let mut failures = Vec::new();
    for check in CHECKS {
        if let Err(failure) = (check.run)(fixture).await {
            failures.push((check.name, failure));
        }
    }
    failures
}

/// Runs every check.
///
/// # Panics
///
/// If a check fails, with all failures; also if the fixture panics.
pub async fn all(fixture: &dyn Fixture) {
    let failures: Vec<_> = run_all(fixture)
        .await
        .into_iter()
        .map(|(check, failure)| format!("\n  {check}: {failure}"))
        .collect();
    assert!(
        failures.is_empty(),
        "the adapter {:?} fails {} of {} checks:{}",
        fixture.adapter().name(),
        failures.len(),
        CHECKS.len(),
        failures.concat()
    );
}
