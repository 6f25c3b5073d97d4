//! The suite that judges any adapter by the promises of [`IamAdapter`].
//!
//! Whoever writes an adapter writes a [`Fixture`] for it, which is the administrator of its IAM,
//! and one test that calls [`all`]. The IAM may be a real one with other users in it: the suite
//! makes its own, under addresses that nobody has, leaves them behind, and cannot turn the clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use iam_adapters::adapter::IamAdapter;
use iam_adapters::scope::Permissions;
use iam_adapters::types::{Subject, UpstreamSession};
use secrecy::SecretString;
use thiserror::Error;

pub mod administration;
mod expect;
pub mod identity;
pub mod logins;
pub mod logout_tokens;
pub mod sessions;

/// The state of an account at the IAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountState {
    /// May log in.
    Active,
    /// Switched off by an administrator.
    Disabled,
    /// Locked, such as after too many wrong passwords.
    Locked,
    /// Something is left to do before the first login, such as to confirm the address.
    Incomplete,
}

/// An adapter to be judged, and the administrator of the IAM behind it.
///
/// A fixture that cannot do what it is asked panics: then nothing has been judged. What it has
/// done is in effect when it returns.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// The adapter, always the same one.
    fn adapter(&self) -> Arc<dyn IamAdapter>;

    /// The states beside [`AccountState::Active`] that accounts of this IAM can be given. What is
    /// not named is not judged.
    fn account_states(&self) -> &[AccountState];

    /// Creates an active user and tells the id that the IAM gave them. Permissions that the IAM
    /// does not know yet are to be made known to it.
    async fn create_user(
        &self,
        email: &str,
        password: &SecretString,
        permissions: &Permissions,
    ) -> Subject;

    /// Removes a user.
    async fn delete_user(&self, user: &Account);

    /// Gives a user another password, as one to be used from now on, not once.
    async fn set_password(&self, user: &Account, password: &SecretString);

    /// Makes these the permissions of a user, and no others.
    async fn set_permissions(&self, user: &Account, permissions: &Permissions);

    /// Brings an account into one of [`Fixture::account_states`], or back.
    async fn set_state(&self, user: &Account, state: AccountState);

    /// Ends one session of a user, and gives the logout tokens that the IAM sends about it (OpenID
    /// Connect Back-Channel Logout 1.0): none where it sends none, or nobody here receives them.
    async fn end_session(&self, user: &Account, session: &UpstreamSession) -> Vec<String>;

    /// Ends all sessions of a user, and gives the logout tokens as [`Fixture::end_session`] does.
    async fn end_sessions_of(&self, user: &Account) -> Vec<String>;
}

/// A user whom the suite made.
#[derive(Debug, Clone)]
pub struct Account {
    /// The address, new at this IAM.
    pub email: String,
    /// The password given at creation.
    pub password: SecretString,
    /// The id that the IAM gave.
    pub subject: Subject,
}

/// How an adapter breaks a promise. Holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Breach(String);

/// One promise and how it is tried.
#[derive(Debug)]
pub struct Promise {
    /// The promise as a sentence: the name of the function that tries it.
    pub name: &'static str,
    /// Tries it.
    pub hold: for<'a> fn(&'a dyn Fixture) -> Trial<'a>,
}

/// A promise being tried.
pub type Trial<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// Whether a promise is kept.
pub type Verdict = Result<(), Breach>;

macro_rules! promises {
    ($($room:ident::$promise:ident,)*) => {
        &[$(Promise {
            name: stringify!($promise),
            hold: |fixture| Box::pin($room::$promise(fixture)),
        }),*]
    };
}

/// Every promise.
pub const PROMISES: &[Promise] = promises![
    logins::a_session_is_active_after_login,
    logins::a_wrong_password_is_refused,
    logins::unknown_and_wrong_are_the_same_refusal,
    logins::passwords_are_taken_byte_for_byte,
    logins::every_login_is_a_new_session,
    logins::an_account_kept_out_is_refused_until_it_is_let_in,
    sessions::introspection_changes_nothing,
    sessions::an_ended_session_is_inactive,
    sessions::ending_twice_is_a_success,
    sessions::ending_one_session_leaves_the_others,
    sessions::a_tampered_secret_is_never_active,
    sessions::a_tampered_secret_ends_nothing,
    sessions::concurrent_logins_and_introspections_agree,
    administration::permissions_are_those_of_now,
    administration::an_ended_session_is_inactive_even_when_the_administrator_did_it,
    administration::all_sessions_of_a_user_end_when_the_administrator_says_so,
    administration::a_disabled_user_is_refused_and_their_session_inactive,
    administration::a_deleted_user_is_refused_and_their_session_inactive,
    administration::a_password_change_refuses_the_old_one,
    logout_tokens::a_logout_token_names_the_session_that_ended_and_no_other,
    logout_tokens::logout_tokens_name_every_session_of_a_user_logged_out_everywhere,
    logout_tokens::an_altered_logout_token_is_refused,
    identity::probe_succeeds,
    identity::names_do_not_change,
    identity::capabilities_agree_with_the_logout_audience,
    identity::debug_shows_no_secret,
];

/// Tries every promise, one after the other, and gives those broken, each with its name.
pub async fn judge(fixture: &dyn Fixture) -> Vec<(&'static str, Breach)> {
    let mut broken = Vec::new();
    for promise in PROMISES {
        if let Err(breach) = (promise.hold)(fixture).await {
            broken.push((promise.name, breach));
        }
    }
    broken
}

/// Tries every promise.
///
/// # Panics
///
/// Where one is broken, with all that are; also where the fixture does.
pub async fn all(fixture: &dyn Fixture) {
    let broken: Vec<_> = judge(fixture)
        .await
        .into_iter()
        .map(|(promise, breach)| format!("\n  {promise}: {breach}"))
        .collect();
    assert!(
        broken.is_empty(),
        "the adapter {:?} breaks {} of {} promises:{}",
        fixture.adapter().name(),
        broken.len(),
        PROMISES.len(),
        broken.concat()
    );
}
