//! Logins, sessions and their ends.

use iam_adapters::{IamError, Introspection};
use iam_conformance::Fixture as _;
use test_support::suite::{READ, WRITE};
use test_support::wait::until;

use super::server::{OAuth2Fixture, SessionTokens, adapter};
use crate::fixture::log_in;

pub(super) async fn adapter_passes_the_conformance_suite(fixture: &OAuth2Fixture) {
    iam_conformance::all(&*fixture.server).await;
}

/// The server, not the adapter, is asked whether the tokens are accepted.
pub(super) async fn logout_ends_both_tokens_at_the_server(fixture: &OAuth2Fixture) {
    let (server, adapter) = (&fixture.server, fixture.server.adapter());
    let user = fixture.iam.user(&[READ, WRITE]).await;
    let new_session = async || {
        let login = log_in(&*adapter, &user.email, user.password.clone()).await;
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
    let login = log_in(&*adapter(&settings), &user.email, user.password.clone()).await;
    let is_unreadable = matches!(login, Err(IamError::Unreadable(_)));
    assert!(is_unreadable, "{login:?}");
    until("the end of the session at the server", async || {
        server.active_sessions(&user).await == 0
    })
    .await;
    let sessions = server.sessions_of(&user).await;
    assert!(!sessions.is_empty(), "the login began a session");
}
