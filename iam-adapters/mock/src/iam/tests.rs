//! What the mock does beyond the promises that every adapter makes.

use iam_adapters::clock::ManualClock;
use iam_adapters::error::Refusal;
use iam_adapters::scope::{Permission, Permissions};
use secrecy::SecretString;

use super::*;

mod administration;

const ALICE: &str = "alice@example.test";
const BOB: &str = "bob@example.test";
const LIFETIME: Duration = Duration::from_secs(60);

struct House {
    clock: Arc<ManualClock>,
    mock: Mock,
}

impl House {
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
    let house = House::new();
    let begun = house.log_in(ALICE, "alice-pass").await.expect("login");
    assert_eq!(begun.expires_in, Some(LIFETIME));

    house.clock.advance(Duration::from_millis(59_999));
    assert!(house.is_active(&begun.session).await);
    house.clock.advance(Duration::from_millis(1));
    assert!(!house.is_active(&begun.session).await);
}

#[tokio::test]
async fn a_lock_is_told_whatever_the_password() {
    let house = House::new();
    let locked = AccountState::Locked;
    house.iam().set_state(ALICE, locked).expect("alice");
    for password in ["alice-pass", "wrong"] {
        let login = house.log_in(ALICE, password).await;
        assert_eq!(refused(&login), Some(Refusal::Locked));
    }
}

#[tokio::test]
async fn a_disabled_or_incomplete_account_is_told_those_alone_who_know_the_password() {
    let house = House::new();
    for (state, refusal) in [
        (AccountState::Disabled, Refusal::Disabled),
        (AccountState::Incomplete, Refusal::Incomplete),
    ] {
        house.iam().set_state(ALICE, state).expect("alice");
        let right = house.log_in(ALICE, "alice-pass").await;
        assert_eq!(refused(&right), Some(refusal));
        let wrong = house.log_in(ALICE, "wrong").await;
        assert_eq!(refused(&wrong), Some(Refusal::InvalidCredentials));
    }
}

#[tokio::test]
async fn only_disabling_silences_living_sessions_and_enabling_wakes_them() {
    let house = House::new();
    let session = house.alice().await;
    for (state, active) in [
        (AccountState::Locked, true),
        (AccountState::Incomplete, true),
        (AccountState::Disabled, false),
        (AccountState::Active, true),
    ] {
        house.iam().set_state(ALICE, state).expect("alice");
        assert_eq!(house.is_active(&session).await, active, "{state:?}");
    }
}

#[tokio::test]
async fn addresses_are_the_same_in_upper_and_lower_case() {
    let house = House::new();
    let begun = house.log_in("Alice@EXAMPLE.test", "alice-pass").await;
    let begun = begun.expect("login");
    assert_eq!(begun.session.subject, house.alice().await.subject);
    house
        .iam()
        .set_permissions("ALICE@example.test", Permissions::default())
        .expect("alice");
    let answer = house.mock.introspect(&begun.session).await;
    let Ok(Introspection::Active { permissions, .. }) = answer else {
        panic!("{answer:?}")
    };
    assert!(permissions.is_empty());
}

#[tokio::test]
async fn a_user_created_again_under_an_old_address_has_none_of_the_old_sessions() {
    let house = House::new();
    let old = house.alice().await;
    house.iam().delete_user(ALICE).expect("alice");
    assert_eq!(house.iam().session_count(), 0);
    let bobs = house.log_in(BOB, "bob-pass").await.expect("login").session;
    let user = User::new(ALICE, "alice-pass".into(), Permissions::default()).expect("user");
    house.iam().create_user(user).expect("free again");
    assert!(!house.is_active(&old).await);
    assert!(house.is_active(&house.alice().await).await);
    let Ok(Introspection::Active { subject, .. }) = house.mock.introspect(&bobs).await else {
        panic!("bob is there")
    };
    assert_eq!(subject, bobs.subject);
}

#[tokio::test]
async fn ending_all_sessions_of_a_user_leaves_those_of_others() {
    let house = House::new();
    let alices = [house.alice().await, house.alice().await];
    let bobs = house.log_in(BOB, "bob-pass").await.expect("login").session;
    assert_eq!(house.iam().end_sessions_of(ALICE), Ok(2));
    assert!(!house.is_active(&alices[0]).await && !house.is_active(&alices[1]).await);
    assert!(house.is_active(&bobs).await);
}

#[tokio::test]
async fn a_session_is_not_ended_with_the_secret_of_another() {
    let house = House::new();
    let (one, other) = (house.alice().await, house.alice().await);
    let mixed = UpstreamSession {
        secret: other.secret.clone(),
        ..one.clone()
    };
    house.mock.end_session(&mixed).await.expect("no fault");
    assert!(house.is_active(&one).await && house.is_active(&other).await);
}

#[test]
fn an_administrator_is_told_what_cannot_be() {
    let house = House::new();
    let iam = house.iam();
    let nobody = "nobody@example.test";
    let read = || Permission::parse("a").into_iter().collect::<Permissions>();
    assert_eq!(iam.delete_user(nobody), Err(UsersError::Unknown));
    assert_eq!(
        iam.set_permissions(nobody, read()),
        Err(UsersError::Unknown)
    );
    assert_eq!(
        iam.set_state(nobody, AccountState::Locked),
        Err(UsersError::Unknown)
    );
    assert_eq!(iam.end_sessions_of(nobody), Err(UsersError::Unknown));
    assert!(!iam.end_session_by_id("AAAAAAAAAAAAAAAAAAAAAA"));
    assert!(matches!(
        iam.set_password(ALICE, SecretString::default()),
        Err(UsersError::Invalid(_))
    ));
    let twin = User::new("ALICE@example.test", "x".into(), read()).expect("user");
    assert_eq!(iam.create_user(twin), Err(UsersError::Taken));
}

#[tokio::test]
async fn debug_shows_how_much_there_is_and_of_whom_nothing() {
    let house = House::new();
    house.alice().await;
    let shown = format!("{:?}", house.mock);
    assert!(
        shown.contains("users: 2") && !shown.contains("alice"),
        "{shown}"
    );
}

#[test]
fn settings_are_read_with_their_defaults_and_nothing_unknown() {
    let read = toml::from_str::<MockSettings>;
    let settings = read("").expect("defaults");
    assert_eq!(settings, MockSettings::default());
    let settings = read("users_file = 'users.toml'\nsession_lifetime = '90m'").expect("settings");
    assert_eq!(settings.session_lifetime, Duration::from_secs(90 * 60));
    assert!(read("user_file = 'users.toml'").is_err());
}

#[test]
fn production_is_a_problem_and_so_are_an_instant_session_and_a_missing_file() {
    let settings = MockSettings::default();
    assert!(settings.problems(false).is_empty());
    assert!(settings.problems(true).concat().contains("for development"));
    let settings = MockSettings {
        users_file: Some("no/such/users.toml".into()),
        session_lifetime: Duration::ZERO,
        ..MockSettings::default()
    };
    let told = settings.problems(false);
    let [lifetime, users] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert!(lifetime.starts_with("iam.mock.session_lifetime: "));
    assert!(users.starts_with("iam.mock.users_file: no/such/users.toml: "));
}
