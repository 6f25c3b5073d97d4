//! Administration: replacing users, listing sessions, snapshots.

use iam_adapters::types::Subject;
use secrecy::ExposeSecret;

use super::*;

const CAROL: &str = "carol@example.test";

fn user(email: &str, password: &str) -> User {
    User::new(email, password.into(), Permissions::default()).expect("a valid user")
}

fn users(all: impl IntoIterator<Item = User>) -> Users {
    let mut users = Users::default();
    for user in all {
        users.add(user).expect("another one");
    }
    users
}

impl Fixture {
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
async fn active_sessions_are_listed_newest_first_with_user_and_times() {
    let fixture = Fixture::new();
    let start = fixture.clock.now().unix;
    let first = fixture.alice().await;
    fixture.clock.advance(Duration::from_secs(20));
    let second = fixture.bob().await;
    fixture.clock.advance(Duration::from_secs(20));
    let third = fixture.alice().await;
    assert_eq!(fixture.ids(), [&*third.id, &second.id, &first.id]);
    let found = &fixture.iam().sessions()[1];
    assert_eq!(
        (found.user.as_str(), &found.subject),
        (BOB, &second.subject)
    );
    assert_eq!(found.began_at, start + Duration::from_secs(20));
    assert_eq!(found.expires_at, found.began_at + LIFETIME);

    fixture.clock.advance(Duration::from_secs(20));
    assert_eq!(fixture.ids(), [&*third.id, &second.id]);
    assert_eq!(fixture.iam().active_session_count(), 2);
    assert_eq!(fixture.iam().session_count(), 3, "the first is still held");
    assert!(
        !fixture.iam().end_session_by_id(&first.id),
        "it has expired"
    );
    assert!(fixture.iam().end_session_by_id(&second.id));
    assert_eq!(fixture.ids(), [&*third.id]);
}

#[tokio::test]
async fn every_user_is_listed_with_the_number_of_active_sessions() {
    let fixture = Fixture::new();
    fixture.alice().await;
    fixture.clock.advance(LIFETIME);
    fixture.alice().await;
    fixture.alice().await;
    let mut found: Vec<_> = fixture
        .iam()
        .users_with_sessions()
        .into_iter()
        .map(|(user, sessions)| (user.email().to_owned(), sessions))
        .collect();
    found.sort_unstable();
    assert_eq!(found, [(ALICE.to_owned(), 2), (BOB.to_owned(), 0)]);
    let alice = fixture.iam().user_with_sessions("ALICE@example.test");
    let (alice, sessions) = alice.expect("alice");
    assert_eq!((alice.email(), sessions), (ALICE, 2));
    let unknown = fixture.iam().user_with_sessions(CAROL);
    assert_eq!(unknown.map(|_| ()), Err(UsersError::Unknown));
}

#[tokio::test]
async fn sessions_of_a_kept_subject_stay_active_when_users_are_replaced() {
    let fixture = Fixture::new();
    let (alices, bobs) = (fixture.alice().await, fixture.bob().await);
    // The same subject under another address, with another password.
    let renamed = user(CAROL, "carol-pass").with_subject(alices.subject.clone());
    // Alice's old address, which another user has now.
    let unrelated =
        user(ALICE, "alice-pass").with_subject(Subject::new("unrelated").expect("an id"));
    fixture.iam().replace_users(&users([unrelated, renamed]));

    assert!(fixture.is_active(&alices).await);
    assert!(!fixture.is_active(&bobs).await);
    assert_eq!(fixture.iam().session_count(), 1);
    assert_eq!(fixture.iam().sessions()[0].user, CAROL);
    let answer = fixture.mock.introspect(&alices).await.expect("no faults");
    let Introspection::Active { subject, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(subject, alices.subject);
    let again = fixture.alice().await;
    assert_eq!(again.subject.as_str(), "unrelated");
    assert!(fixture.log_in(BOB, "bob-pass").await.is_err());
    assert!(fixture.log_in(CAROL, "carol-pass").await.is_ok());
}

#[tokio::test]
async fn user_added_after_a_replacement_has_no_sessions() {
    let fixture = Fixture::new();
    let bobs = fixture.bob().await;
    fixture.iam().replace_users(&users([]));
    fixture
        .iam()
        .create_user(user(CAROL, "carol-pass"))
        .expect("new");
    fixture
        .iam()
        .create_user(user(BOB, "bob-pass"))
        .expect("new");
    assert!(!fixture.is_active(&bobs).await);
    let carols = fixture.log_in(CAROL, "carol-pass").await.expect("login");
    fixture.bob().await;
    assert!(fixture.is_active(&carols.session).await);
    assert_eq!(fixture.iam().end_sessions_of(CAROL), Ok(1));
}

#[tokio::test]
async fn snapshot_restores_users_and_sessions() {
    let fixture = Fixture::new();
    let (alices, bobs) = (fixture.alice().await, fixture.bob().await);
    let snapshot = fixture.iam().snapshot();

    fixture.iam().delete_user(BOB).expect("bob");
    fixture
        .iam()
        .create_user(user(CAROL, "carol-pass"))
        .expect("new");
    fixture
        .iam()
        .set_state(ALICE, AccountState::Locked)
        .expect("alice");
    fixture
        .iam()
        .set_password(ALICE, "other".into())
        .expect("alice");
    assert!(fixture.iam().end_session_by_id(&alices.id));
    let carols = fixture.log_in(CAROL, "carol-pass").await.expect("login");
    let later = fixture.iam().snapshot();

    for _ in 0..2 {
        fixture.iam().restore(&snapshot);
        assert!(fixture.is_active(&alices).await && fixture.is_active(&bobs).await);
        assert!(!fixture.is_active(&carols.session).await);
        assert!(fixture.log_in(CAROL, "carol-pass").await.is_err());
        fixture.alice().await;
        fixture.bob().await;

        // A user added after the earlier snapshot gets no number of the later one.
        let user = user("dave@example.test", "dave-pass");
        fixture.iam().create_user(user).expect("new");
        fixture.iam().restore(&later);
        assert!(fixture.is_active(&carols.session).await);
        assert!(!fixture.is_active(&alices).await && !fixture.is_active(&bobs).await);
        assert_eq!(fixture.ids(), [&*carols.session.id]);
    }
}

#[tokio::test]
async fn restored_session_keeps_its_expiry() {
    let fixture = Fixture::new();
    let alices = fixture.alice().await;
    let snapshot = fixture.iam().snapshot();
    fixture.clock.advance(LIFETIME);
    fixture.iam().restore(&snapshot);
    assert!(!fixture.is_active(&alices).await);
    assert_eq!(fixture.iam().active_session_count(), 0);
}

#[tokio::test]
async fn ending_all_sessions_returns_the_active_ones() {
    let fixture = Fixture::new();
    fixture.alice().await;
    fixture.clock.advance(LIFETIME);
    let (alices, bobs) = (fixture.alice().await, fixture.bob().await);
    let ended = fixture.iam().end_all_sessions();
    let mut subjects: Vec<_> = ended.iter().map(|session| &session.subject).collect();
    subjects.sort_unstable();
    let mut expected = [&alices.subject, &bobs.subject];
    expected.sort_unstable();
    assert_eq!(subjects, expected);
    assert!(!fixture.is_active(&alices).await && !fixture.is_active(&bobs).await);
    assert_eq!(fixture.iam().session_count(), 0);
}

#[tokio::test]
async fn user_of_a_session_is_found_with_its_secret_only() {
    let fixture = Fixture::new();
    let (alices, bobs) = (fixture.alice().await, fixture.bob().await);
    let found = fixture.iam().user_of_session(&alices);
    assert_eq!(found, Some((ALICE.to_owned(), alices.subject.clone())));
    let mixed = UpstreamSession {
        secret: bobs.secret.expose_secret().into(),
        ..alices.clone()
    };
    assert_eq!(fixture.iam().user_of_session(&mixed), None);
    fixture
        .iam()
        .set_state(ALICE, AccountState::Disabled)
        .expect("alice");
    assert!(fixture.iam().user_of_session(&alices).is_some());
    assert!(fixture.iam().end_session_by_id(&alices.id));
    assert_eq!(fixture.iam().user_of_session(&alices), None);
}

#[test]
fn subject_is_unique_and_reusable_after_deletion() {
    let fixture = Fixture::new();
    let shared = || Subject::new("shared").expect("an id");
    let carol = user(CAROL, "x").with_subject(shared());
    fixture.iam().create_user(carol).expect("new");
    let dave = || user("dave@example.test", "x").with_subject(shared());
    assert_eq!(
        fixture.iam().create_user(dave()),
        Err(UsersError::SubjectTaken)
    );
    fixture.iam().delete_user(CAROL).expect("carol");
    assert_eq!(fixture.iam().create_user(dave()), Ok(()));
}

#[test]
fn clones_of_users_are_independent() {
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
async fn debug_of_a_snapshot_shows_no_address_and_no_password() {
    let fixture = Fixture::new();
    fixture.alice().await;
    let shown = format!("{:?}", fixture.iam().snapshot());
    assert_eq!(
        shown,
        "DirectorySnapshot { users: 2, sessions: Sessions(1) }"
    );
}

#[test]
fn namespace_has_its_own_issuer_in_logout_tokens() {
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

#[tokio::test]
async fn session_is_found_by_the_id_of_the_gateway_also_after_its_end() {
    const GATEWAY_ID: &str = "Zt0mRk5sQ3u1bYp7cW9xLA";
    let fixture = Fixture::new();
    let (session, begun) = with_begun_session(fixture.alice()).await;
    assert_eq!(begun.as_ref(), Some(&session.id));
    let (_, begun) = with_begun_session(fixture.is_active(&session)).await;
    assert_eq!(begun, None, "an introspection begins no session");
    fixture
        .iam()
        .set_gateway_session_id(&session.id, GATEWAY_ID);
    let listed = &fixture.iam().sessions()[0];
    assert_eq!(listed.gateway_id.as_deref(), Some(GATEWAY_ID));
    assert!(fixture.iam().end_session_by_id(&session.id));
    let found = fixture.iam().id_of_gateway_session(GATEWAY_ID);
    assert_eq!(found.as_ref(), Some(&session.id));
    for unknown in ["", "no id", &session.id] {
        assert_eq!(fixture.iam().id_of_gateway_session(unknown), None);
    }
}
