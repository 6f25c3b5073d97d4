//! Users replaced, sessions listed, and all of it put back.

use iam_adapters::types::Subject;
use secrecy::ExposeSecret;

use super::*;

const CAROL: &str = "carol@example.test";

fn user(email: &str, password: &str) -> User {
    User::new(email, password.into(), Permissions::default()).expect("a fair user")
}

fn users(all: impl IntoIterator<Item = User>) -> Users {
    let mut users = Users::default();
    for user in all {
        users.add(user).expect("another one");
    }
    users
}

impl House {
    async fn bob(&self) -> UpstreamSession {
        let begun = self.log_in(BOB, "bob-pass").await;
        begun.expect("bob logs in").session
    }

    fn ids(&self) -> Vec<String> {
        let sessions = self.iam().sessions();
        sessions.into_iter().map(|session| session.id).collect()
    }
}

#[tokio::test]
async fn living_sessions_are_told_with_their_user_and_times_the_newest_first() {
    let house = House::new();
    let start = house.clock.now().unix;
    let first = house.alice().await;
    house.clock.advance(Duration::from_secs(20));
    let second = house.bob().await;
    house.clock.advance(Duration::from_secs(20));
    let third = house.alice().await;
    assert_eq!(house.ids(), [&*third.id, &second.id, &first.id]);
    let told = &house.iam().sessions()[1];
    assert_eq!((told.user.as_str(), &told.subject), (BOB, &second.subject));
    assert_eq!(told.began_at, start + Duration::from_secs(20));
    assert_eq!(told.expires_at, told.began_at + LIFETIME);

    house.clock.advance(Duration::from_secs(20));
    assert_eq!(house.ids(), [&*third.id, &second.id]);
    assert_eq!(house.iam().living_session_count(), 2);
    assert_eq!(house.iam().session_count(), 3, "the first is still held");
    assert!(!house.iam().end_session_by_id(&first.id), "it has expired");
    assert!(house.iam().end_session_by_id(&second.id));
    assert_eq!(house.ids(), [&*third.id]);
}

#[tokio::test]
async fn every_user_is_told_with_the_number_of_their_living_sessions() {
    let house = House::new();
    house.alice().await;
    house.clock.advance(LIFETIME);
    house.alice().await;
    house.alice().await;
    let mut told: Vec<_> = house
        .iam()
        .users_with_sessions()
        .into_iter()
        .map(|(user, sessions)| (user.email().to_owned(), sessions))
        .collect();
    told.sort_unstable();
    assert_eq!(told, [(ALICE.to_owned(), 2), (BOB.to_owned(), 0)]);
    let alice = house.iam().user_with_sessions("ALICE@example.test");
    let (alice, sessions) = alice.expect("alice");
    assert_eq!((alice.email(), sessions), (ALICE, 2));
    let nobody = house.iam().user_with_sessions(CAROL);
    assert_eq!(nobody.map(|_| ()), Err(UsersError::Unknown));
}

#[tokio::test]
async fn sessions_of_a_subject_that_stays_live_on_when_users_are_replaced() {
    let house = House::new();
    let (alices, bobs) = (house.alice().await, house.bob().await);
    // The same subject under another address, with another password.
    let renamed = user(CAROL, "carol-pass").with_subject(alices.subject.clone());
    // Alice's old address, which is somebody else's now.
    let stranger = user(ALICE, "alice-pass").with_subject(Subject::new("stranger").expect("an id"));
    house.iam().replace_users(&users([stranger, renamed]));

    assert!(house.is_active(&alices).await);
    assert!(!house.is_active(&bobs).await);
    assert_eq!(house.iam().session_count(), 1);
    assert_eq!(house.iam().sessions()[0].user, CAROL);
    let answer = house.mock.introspect(&alices).await.expect("no faults");
    let Introspection::Active { subject, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(subject, alices.subject);
    let again = house.alice().await;
    assert_eq!(again.subject.as_str(), "stranger");
    assert!(house.log_in(BOB, "bob-pass").await.is_err());
    assert!(house.log_in(CAROL, "carol-pass").await.is_ok());
}

#[tokio::test]
async fn a_user_who_comes_after_a_replacement_gets_nobodys_sessions() {
    let house = House::new();
    let bobs = house.bob().await;
    house.iam().replace_users(&users([]));
    house
        .iam()
        .create_user(user(CAROL, "carol-pass"))
        .expect("new");
    house.iam().create_user(user(BOB, "bob-pass")).expect("new");
    assert!(!house.is_active(&bobs).await);
    let carols = house.log_in(CAROL, "carol-pass").await.expect("login");
    house.bob().await;
    assert!(house.is_active(&carols.session).await);
    assert_eq!(house.iam().end_sessions_of(CAROL), Ok(1));
}

#[tokio::test]
async fn a_snapshot_brings_users_and_sessions_back_as_they_were() {
    let house = House::new();
    let (alices, bobs) = (house.alice().await, house.bob().await);
    let snapshot = house.iam().snapshot();

    house.iam().delete_user(BOB).expect("bob");
    house
        .iam()
        .create_user(user(CAROL, "carol-pass"))
        .expect("new");
    house
        .iam()
        .set_state(ALICE, AccountState::Locked)
        .expect("alice");
    house
        .iam()
        .set_password(ALICE, "other".into())
        .expect("alice");
    assert!(house.iam().end_session_by_id(&alices.id));
    let carols = house.log_in(CAROL, "carol-pass").await.expect("login");
    let later = house.iam().snapshot();

    for _ in 0..2 {
        house.iam().restore(&snapshot);
        assert!(house.is_active(&alices).await && house.is_active(&bobs).await);
        assert!(!house.is_active(&carols.session).await);
        assert!(house.log_in(CAROL, "carol-pass").await.is_err());
        house.alice().await;
        house.bob().await;

        // Who comes after the earlier snapshot is nobody whom the later one knows.
        let user = user("dave@example.test", "dave-pass");
        house.iam().create_user(user).expect("new");
        house.iam().restore(&later);
        assert!(house.is_active(&carols.session).await);
        assert!(!house.is_active(&alices).await && !house.is_active(&bobs).await);
        assert_eq!(house.ids(), [&*carols.session.id]);
    }
}

#[tokio::test]
async fn a_session_of_a_snapshot_expires_when_it_was_to() {
    let house = House::new();
    let alices = house.alice().await;
    let snapshot = house.iam().snapshot();
    house.clock.advance(LIFETIME);
    house.iam().restore(&snapshot);
    assert!(!house.is_active(&alices).await);
    assert_eq!(house.iam().living_session_count(), 0);
}

#[tokio::test]
async fn ending_all_sessions_tells_which_lived() {
    let house = House::new();
    house.alice().await;
    house.clock.advance(LIFETIME);
    let (alices, bobs) = (house.alice().await, house.bob().await);
    let ended = house.iam().end_all_sessions();
    let mut subjects: Vec<_> = ended.iter().map(|session| &session.subject).collect();
    subjects.sort_unstable();
    let mut expected = [&alices.subject, &bobs.subject];
    expected.sort_unstable();
    assert_eq!(subjects, expected);
    assert!(!house.is_active(&alices).await && !house.is_active(&bobs).await);
    assert_eq!(house.iam().session_count(), 0);
}

#[tokio::test]
async fn whose_a_living_session_is_only_its_secret_tells() {
    let house = House::new();
    let (alices, bobs) = (house.alice().await, house.bob().await);
    let told = house.iam().user_of_session(&alices);
    assert_eq!(told, Some((ALICE.to_owned(), alices.subject.clone())));
    let mixed = UpstreamSession {
        secret: bobs.secret.expose_secret().into(),
        ..alices.clone()
    };
    assert_eq!(house.iam().user_of_session(&mixed), None);
    house
        .iam()
        .set_state(ALICE, AccountState::Disabled)
        .expect("alice");
    assert!(house.iam().user_of_session(&alices).is_some());
    assert!(house.iam().end_session_by_id(&alices.id));
    assert_eq!(house.iam().user_of_session(&alices), None);
}

#[test]
fn a_subject_is_one_users_and_is_free_again_with_its_account() {
    let house = House::new();
    let shared = || Subject::new("shared").expect("an id");
    let carol = user(CAROL, "x").with_subject(shared());
    house.iam().create_user(carol).expect("new");
    let dave = || user("dave@example.test", "x").with_subject(shared());
    assert_eq!(
        house.iam().create_user(dave()),
        Err(UsersError::SubjectTaken)
    );
    house.iam().delete_user(CAROL).expect("carol");
    assert_eq!(house.iam().create_user(dave()), Ok(()));
}

#[test]
fn clones_of_users_go_separate_ways() {
    let first = users([user(ALICE, "x"), user(BOB, "x")]);
    let mut second = first.clone();
    second.add(user(CAROL, "x")).expect("new");
    second.remove(ALICE).expect("alice");
    second.change(BOB).expect("bob").state = AccountState::Locked;
    assert_eq!(first.iter().len(), 2);
    assert!(first.find(ALICE).is_some() && first.find(CAROL).is_none());
    let (_, bob) = first.find(BOB).expect("bob");
    assert_eq!(bob.state(), AccountState::Active);
}

#[tokio::test]
async fn a_snapshot_shows_nobody_and_no_password() {
    let house = House::new();
    house.alice().await;
    let shown = format!("{:?}", house.iam().snapshot());
    assert_eq!(
        shown,
        "DirectorySnapshot { users: 2, sessions: Sessions(1) }"
    );
}

#[test]
fn a_namespace_has_an_issuer_of_its_own_and_logout_tokens_say_so() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    for (identity, issuer) in [
        (Identity::default(), "urn:auth-gateway:mock"),
        (Identity::of_namespace("one"), "urn:auth-gateway:mock:one"),
    ] {
        let directory = Directory::new(identity, Users::default(), LIFETIME, clock.clone());
        let token = directory.logout_token(None, Some("sid")).expect("a token");
        let mock = Mock::new(Arc::new(directory));
        assert_eq!(mock.issuer(), issuer);
        assert_eq!(mock.logout_audience(), Some("auth-gateway"));
        let payload = token.split('.').nth(1).expect("claims");
        let claims =
            base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, payload);
        let claims: serde_json::Value =
            serde_json::from_slice(&claims.expect("base64")).expect("JSON");
        assert_eq!(claims["iss"], issuer);
    }
}
