//! The mock beyond the conformance suite.

use crate::ManualClock;
use iam_adapters::error::Refusal;
use iam_adapters::scope::{Permission, Permissions};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::*;

mod administration;
mod lockouts;
mod one_time_passwords;

const ALICE: &str = "alice@example.test";
const BOB: &str = "bob@example.test";
const LIFETIME: Duration = Duration::from_secs(60);

struct Fixture {
    clock: Arc<ManualClock>,
    mock: Mock,
}

impl Fixture {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
        let settings = MockSettings {
            session_lifetime: LIFETIME,
            ..MockSettings::default()
        };
        let mock = Mock::connect(&settings, clock.clone()).expect("demo users");
        Self { clock, mock }
    }

    fn iam(&self) -> &Directory {
        self.mock.directory()
    }

    async fn log_in(&self, email: &str, password: &str) -> Result<Authenticated, IamError> {
        let credentials = Credentials::new(email.to_owned(), password.into()).expect("shape");
        self.mock
            .authenticate(&credentials, &ClientContext::default())
            .await
    }

    async fn alice(&self) -> UpstreamSession {
        let begun = self.log_in(ALICE, "alice-pass").await;
        begun.expect("alice logs in").session
    }

    async fn is_active(&self, session: &UpstreamSession) -> bool {
        let answer = self.mock.introspect(session).await.expect("no faults here");
        answer != Introspection::Inactive
    }
}

fn refused(login: &Result<Authenticated, IamError>) -> Option<Refusal> {
    match login {
        Err(IamError::Refused(refusal)) => Some(*refusal),
        _ => None,
    }
}

#[tokio::test]
async fn a_session_expires_when_its_lifetime_has_passed_and_not_before() {
    let fixture = Fixture::new();
    let begun = fixture.log_in(ALICE, "alice-pass").await.expect("login");
    assert_eq!(begun.expires_in, Some(LIFETIME));

    fixture.clock.advance(Duration::from_millis(59_999));
    assert!(fixture.is_active(&begun.session).await);
    fixture.clock.advance(Duration::from_millis(1));
    assert!(!fixture.is_active(&begun.session).await);
}

#[tokio::test]
async fn locked_account_is_reported_with_any_password() {
    let fixture = Fixture::new();
    let locked = AccountState::Locked;
    fixture.iam().set_state(ALICE, locked).expect("alice");
    for password in ["alice-pass", "wrong"] {
        let login = fixture.log_in(ALICE, password).await;
        assert_eq!(refused(&login), Some(Refusal::Locked));
    }
}

#[tokio::test]
async fn disabled_or_incomplete_account_is_reported_with_the_right_password_only() {
    let fixture = Fixture::new();
    for (state, refusal) in [
        (AccountState::Disabled, Refusal::Disabled),
        (AccountState::Incomplete, Refusal::Incomplete),
    ] {
        fixture.iam().set_state(ALICE, state).expect("alice");
        let right = fixture.log_in(ALICE, "alice-pass").await;
        assert_eq!(refused(&right), Some(refusal));
        let wrong = fixture.log_in(ALICE, "wrong").await;
        assert_eq!(refused(&wrong), Some(Refusal::InvalidCredentials));
    }
}

#[tokio::test]
async fn only_disabling_makes_sessions_inactive_and_enabling_makes_them_active_again() {
    let fixture = Fixture::new();
    let session = fixture.alice().await;
    for (state, active) in [
        (AccountState::Locked, true),
        (AccountState::Incomplete, true),
        (AccountState::Disabled, false),
        (AccountState::Active, true),
    ] {
        fixture.iam().set_state(ALICE, state).expect("alice");
        assert_eq!(fixture.is_active(&session).await, active, "{state:?}");
    }
}

#[tokio::test]
async fn addresses_are_case_insensitive() {
    let fixture = Fixture::new();
    let begun = fixture.log_in("Alice@EXAMPLE.test", "alice-pass").await;
    let begun = begun.expect("login");
    assert_eq!(begun.session.subject, fixture.alice().await.subject);
    fixture
        .iam()
        .set_permissions("ALICE@example.test", Permissions::default())
        .expect("alice");
    let answer = fixture.mock.introspect(&begun.session).await;
    let Ok(Introspection::Active { permissions, .. }) = answer else {
        panic!("{answer:?}")
    };
    assert!(permissions.is_empty());
}

#[tokio::test]
async fn user_created_again_with_the_same_address_has_no_old_sessions() {
    let fixture = Fixture::new();
    let old = fixture.alice().await;
    fixture.iam().delete_user(ALICE).expect("alice");
    assert_eq!(fixture.iam().session_count(), 0);
    let bobs = fixture
        .log_in(BOB, "bob-pass")
        .await
        .expect("login")
        .session;
    let user = User::new(ALICE, "alice-pass".into(), Permissions::default()).expect("user");
    fixture.iam().create_user(user).expect("free again");
    assert!(!fixture.is_active(&old).await);
    assert!(fixture.is_active(&fixture.alice().await).await);
    let Ok(Introspection::Active { subject, .. }) = fixture.mock.introspect(&bobs).await else {
        panic!("bob is there")
    };
    assert_eq!(subject, bobs.subject);
}

#[test]
fn invalid_administration_is_an_error() {
    let fixture = Fixture::new();
    let iam = fixture.iam();
    let unknown = "unknown@example.test";
    let read = || Permission::parse("a").into_iter().collect::<Permissions>();
    assert_eq!(iam.delete_user(unknown), Err(UsersError::Unknown));
    assert_eq!(
        iam.set_permissions(unknown, read()),
        Err(UsersError::Unknown)
    );
    assert_eq!(
        iam.set_state(unknown, AccountState::Locked),
        Err(UsersError::Unknown)
    );
    assert_eq!(iam.end_sessions_of(unknown), Err(UsersError::Unknown));
    assert!(!iam.end_session_by_id("AAAAAAAAAAAAAAAAAAAAAA"));
    assert!(matches!(
        iam.set_password(ALICE, SecretString::default()),
        Err(UsersError::Invalid(_))
    ));
    let twin = User::new("ALICE@example.test", "x".into(), read()).expect("user");
    assert_eq!(iam.create_user(twin), Err(UsersError::Taken));
}

#[tokio::test]
async fn debug_shows_counts_and_no_addresses() {
    let fixture = Fixture::new();
    fixture.alice().await;
    let shown = format!("{:?}", fixture.mock);
    assert!(
        shown.contains("users: 2") && !shown.contains("alice"),
        "{shown}"
    );
}

#[test]
fn settings_have_defaults_and_unknown_keys_are_refused() {
    let read = toml::from_str::<MockSettings>;
    let settings = read("").expect("defaults");
    assert_eq!(settings, MockSettings::default());
    let settings = read("users_file = 'users.toml'\nsession_lifetime = '90m'").expect("settings");
    assert_eq!(settings.session_lifetime, Duration::from_secs(90 * 60));
    assert!(read("user_file = 'users.toml'").is_err());
}

#[test]
fn production_a_lifetime_of_zero_a_missing_users_file_and_a_reserved_claim_are_problems() {
    let settings = MockSettings::default();
    assert!(settings.problems("iam.mock", false).is_empty());
    let in_production = settings.problems("iam.mock", true).concat();
    assert!(in_production.contains("for development"));
    let settings = MockSettings {
        users_file: Some("no/such/users.toml".into()),
        session_lifetime: Duration::ZERO,
        claims: serde_json::from_value(json!({"sub": {"member": "m"}})).unwrap(),
        ..MockSettings::default()
    };
    let found = settings.problems("iam.mock", false);
    let [lifetime, users, claims] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert!(lifetime.starts_with("iam.mock.session_lifetime: "));
    assert!(users.starts_with("iam.mock.users_file: no/such/users.toml: "));
    assert_eq!(claims, "iam.mock.claims: `sub` is a claim of the gateway");
}

#[tokio::test]
async fn email_address_can_be_a_claim() {
    let claims = serde_json::from_value(json!({"mail": {"member": "email"}})).unwrap();
    let fixture = Fixture::new();
    let fixture = Fixture {
        mock: fixture.mock.with_claims(claims),
        ..fixture
    };
    let login = fixture.log_in(ALICE, "alice-pass").await.expect("login");
    assert_eq!(Value::from(login.claims.to_json()), json!({"mail": ALICE}));
}
