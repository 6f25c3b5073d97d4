//! Logins, sessions and their ends.

use iam_adapters::{
    Authenticated, ClientContext, Credentials, IamAdapter, IamError, Introspection, Refusal,
};
use iam_conformance::{Account, AccountState, Fixture as _};
use secrecy::SecretString;
use test_support::suite::{READ, WRITE, unique_name};
use test_support::wait::until;

use super::server::{OAuth2Fixture, SessionTokens, adapter};

pub(super) async fn adapter_passes_the_conformance_suite(fixture: &OAuth2Fixture) {
    iam_conformance::all(&*fixture.server).await;
}

pub(super) async fn log_in(
    adapter: &dyn IamAdapter,
    email: &str,
    password: &SecretString,
) -> Result<Authenticated, IamError> {
    let credentials = Credentials::new(email.to_owned(), password.clone());
    let credentials = credentials.expect("credentials");
    let client = ClientContext::default();
    adapter.authenticate(&credentials, &client).await
}

pub(super) async fn wrong_password_unknown_user_and_disabled_user_have_the_same_refusal(
    fixture: &OAuth2Fixture,
) {
    let adapter = fixture.server.adapter();
    let (user, disabled) = (fixture.iam.user(&[READ]).await, fixture.iam.user(&[]).await);
    let off = AccountState::Disabled;
    fixture.server.set_state(&disabled, off).await;
    let unknown = format!("{}@example.test", unique_name());
    let Account {
        email, password, ..
    } = &user;
    for (email, password) in [
        (email, &"Aa1!not-the-password".into()),
        (&unknown, password),
        (&disabled.email, &disabled.password),
    ] {
        let login = log_in(&*adapter, email, password).await.map(drop);
        let refused = IamError::Refused(Refusal::InvalidCredentials);
        assert_eq!(login, Err(refused));
    }
}

/// The server, not the adapter, is asked whether the tokens are accepted.
pub(super) async fn logout_ends_both_tokens_at_the_server(fixture: &OAuth2Fixture) {
    let (server, adapter) = (&fixture.server, fixture.server.adapter());
    let user = fixture.iam.user(&[READ, WRITE]).await;
    let new_session = async || {
        let login = log_in(&*adapter, &user.email, &user.password).await;
        login.expect("a login").session
    };
    let (ended, kept) = (new_session().await, new_session().await);
    let (tokens, kept_tokens) = (SessionTokens::of(&ended), SessionTokens::of(&kept));
    for tokens in [&tokens, &kept_tokens] {
        assert!(server.is_active(&tokens.access_token).await);
    }
    // Repeated, as after a lost response.
    for _ in 0..2 {
        assert_eq!(adapter.end_session(&ended).await, Ok(()));
        let introspected = adapter.introspect(&ended).await;
        assert_eq!(introspected, Ok(Introspection::Inactive));
    }
    assert!(!server.is_active(&tokens.access_token).await);
    assert!(!server.refreshes(&tokens.refresh_token).await);
    assert!(server.is_active(&kept_tokens.access_token).await);
    assert!(server.refreshes(&kept_tokens.refresh_token).await);
}

pub(super) async fn session_of_a_login_that_cannot_be_used_is_ended_at_the_server(
    fixture: &OAuth2Fixture,
) {
    let server = &fixture.server;
    let user = fixture.iam.user(&[READ]).await;
    server.end_sessions_of(&user).await;
    let mut settings = server.settings("basic");
    settings.insert("subject_claim", "missing".to_owned());
    let login = log_in(&*adapter(&settings), &user.email, &user.password).await;
    let is_unreadable = matches!(login, Err(IamError::Unreadable(_)));
    assert!(is_unreadable, "{login:?}");
    until("the end of the session at the server", async || {
        server.active_sessions(&user).await == 0
    })
    .await;
    let sessions = server.sessions_of(&user).await;
    assert!(!sessions.is_empty(), "the login began a session");
}
