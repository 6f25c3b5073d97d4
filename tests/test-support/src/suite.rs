//! What the API promises to its clients, whichever IAM is behind it: each promise an async function
//! over a [`World`], all of them in one table. A promise that is broken panics.

#![expect(missing_docs, reason = "the name of a promise says what is promised")]

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use auth_gateway::gateway::keys::{self, Algorithm, KeyPurpose, KeyStore};
use auth_gateway::gateway::session::{self, SealingKey};
use iam_adapters::clock::ManualClock;
use iam_adapters::{Clock, Permission, Permissions, UpstreamSession};
use iam_conformance::{Account, Fixture};
use jiff::Timestamp;
use secrecy::SecretString;
use tempfile::TempDir;
use zeroize::Zeroizing;

use crate::app::TestApp;
use crate::client::{Client, Session};

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

/// Hands every promise to a macro, as a list of `room::promise,`.
#[macro_export]
macro_rules! for_every_promise {
    ($hold:ident) => {
        $hold! {
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
pub use crate::for_every_promise;

/// The permission to read orders.
pub const READ: &str = "urn:shop:orders:order:read";
/// The permission to change orders.
pub const WRITE: &str = "urn:shop:orders:order:write";
/// The permission to read the catalog.
pub const BROWSE: &str = "urn:shop:catalog:item:read";

/// An IAM with its administrator, and the clock of all gateways before it.
pub struct World {
    /// Changes users and sessions at the IAM, and gives the adapter.
    pub administrator: Arc<dyn Fixture>,
    /// The clock of all gateways.
    pub clock: Arc<ManualClock>,
}

impl World {
    /// The world of one promise. Its clock begins at the time of day, because an IAM may have one
    /// of its own, and then moves only when it is moved.
    pub fn new(iam: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Fixture>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let clock = Arc::new(ManualClock::at(now.expect("a time after 1970")));
        let administrator = iam(Arc::<ManualClock>::clone(&clock));
        Self {
            administrator,
            clock,
        }
    }

    /// A gateway with keys of its own.
    pub fn gateway(&self) -> TestApp {
        self.gateway_with(&[])
    }

    /// A gateway with these settings.
    pub fn gateway_with(&self, overrides: &[(&str, &str)]) -> TestApp {
        let clock = Arc::<ManualClock>::clone(&self.clock);
        TestApp::in_front_of(self.administrator.adapter(), clock, overrides)
    }

    /// A gateway with the keys in this folder.
    pub fn replica(&self, keys: &KeyFolder) -> TestApp {
        self.gateway_with(&keys.settings())
    }

    /// A new user with these permissions.
    pub async fn user(&self, permissions: &[&str]) -> Account {
        let password = format!("Aa1!{}", unheard_of());
        self.user_with_password(&password, permissions).await
    }

    /// A new user with this password and these permissions.
    pub async fn user_with_password(&self, password: &str, names: &[&str]) -> Account {
        let email = format!("{}@example.test", unheard_of());
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

    /// Lets the gateways' clock run on.
    pub fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

/// Logs a user in, who has the right to.
pub async fn session_of(gateway: &Client, user: &Account) -> Session {
    gateway.log_in(&user.email, &user.password).await.session()
}

/// The permissions with these names, which have to be well-formed.
pub fn permissions(names: &[&str]) -> Permissions {
    names
        .iter()
        .map(|name| Permission::parse(name).expect("a scope name"))
        .collect()
}

/// Text that nobody has used before, short enough for the local part of an address.
pub fn unheard_of() -> String {
    let mut bits = [0; 16];
    aws_lc_rs::rand::fill(&mut bits).expect("randomness");
    format!("{:032x}", u128::from_be_bytes(bits))
}

/// Signing and sealing keys as an operator keeps them.
pub struct KeyFolder {
    _folder: TempDir,
    signing: String,
    sealing: String,
}

impl KeyFolder {
    /// New keys, in use from the start.
    pub fn new(algorithm: Algorithm) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let keep = |name: &str, purpose| {
            let place = folder.path().join(name);
            let key = keys::generate(purpose, Timestamp::now()).expect("a key");
            keys::write_new(&place, &key).expect("a key file");
            place.to_str().expect("a path of text").to_owned()
        };
        Self {
            signing: keep("signing", KeyPurpose::Signing(algorithm)),
            sealing: keep("sealing", KeyPurpose::Sealing),
            _folder: folder,
        }
    }

    /// The settings of a gateway that uses them.
    pub fn settings(&self) -> [(&str, &str); 2] {
        [
            ("keys.signing_dir", &self.signing),
            ("keys.sealing_dir", &self.sealing),
        ]
    }

    /// What a gateway with these keys seals and opens with.
    pub fn sealing(&self) -> KeyStore<SealingKey> {
        let whenever = ManualClock::at(Duration::ZERO).now();
        let sealing = KeyStore::open((&self.sealing).into(), whenever, Duration::ZERO);
        sealing.expect("sealing keys")
    }

    /// What a gateway with these keys has sealed into a session token.
    pub fn unsealed(&self, session: &Session) -> UpstreamSession {
        let mut buffer = Zeroizing::default();
        let key_set = self.sealing().key_set();
        let opened = session::open(&key_set, &session.session_token, &mut buffer);
        opened.expect("our seal").upstream().expect("a subject")
    }
}
