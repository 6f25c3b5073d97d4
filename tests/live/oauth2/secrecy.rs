//! No secret is written at any log level, with real tokens of an OAuth 2 server.

use test_support::suite::READ;

use super::server::{Kind, OAuth2Fixture, SessionTokens};
use crate::outage::RestartableIam as _;
use crate::process::borrowed;
use crate::secrecy::no_secret_is_written;

pub(super) async fn no_token_of_the_server_and_no_credential_is_written(fixture: &OAuth2Fixture) {
    let user = fixture.iam.user(&[READ]).await;
    let mut secrets = vec![(
        "the client secret",
        fixture.server.secret("basic").to_owned(),
    )];
    // With django-oauth-toolkit the user name, which is the address, is the subject, which the log has.
    if fixture.server.kind != Kind::DjangoOAuth {
        secrets.push(("the e-mail address", user.email.clone()));
    }
    let settings = fixture.settings();
    no_secret_is_written(&borrowed(&settings), &user, &secrets, |session| {
        let SessionTokens {
            access_token,
            refresh_token,
        } = SessionTokens::of(session);
        vec![access_token, refresh_token]
    })
    .await;
}
