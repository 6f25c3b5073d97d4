//! How the gateway's client authenticates, and a server that rejects it.

use iam_adapters::Introspection;
use test_support::suite::READ;

use super::server::{Kind, OAuth2Fixture, adapter};
use crate::fixture::log_in;
use crate::misconfigured::{MisconfigurationCase, each_has_its_reason, each_is_named_by_check};

pub(super) async fn every_method_of_the_server_works(fixture: &OAuth2Fixture) {
    let user = fixture.iam.user(&[READ]).await;
    for client in fixture.server.clients_of_methods() {
        let adapter = adapter(&fixture.server.settings(client));
        assert_eq!(adapter.probe().await, Ok(()), "{client}");
        let login = log_in(&*adapter, &user.email, user.password.clone()).await;
        let session = login.unwrap_or_else(|error| panic!("{client}: {error}"));
        let session = session.session;
        let introspected = adapter.introspect(&session).await;
        let is_active = matches!(introspected, Ok(Introspection::Active { .. }));
        assert!(is_active, "{client}: {introspected:?}");
        let refused = log_in(&*adapter, &user.email, "Aa1!not-the-password").await;
        assert_eq!(refused.expect_err("refused").kind(), "refused", "{client}");
        assert_eq!(adapter.end_session(&session).await, Ok(()), "{client}");
        let introspected = adapter.introspect(&session).await;
        assert_eq!(introspected, Ok(Introspection::Inactive), "{client}");
    }
}

/// Settings of a client that the server rejects.
fn rejected(fixture: &OAuth2Fixture) -> Vec<MisconfigurationCase> {
    let settings = |client, member, value: &str| {
        let mut settings = fixture.server.settings(client);
        settings.insert(member, value.to_owned());
        MisconfigurationCase::oauth2(settings, "client_secret", "wrong client credentials")
    };
    let mut cases = vec![
        settings("basic", "client_secret", "another-secret"),
        settings("post", "client_secret", "another-secret"),
        settings("basic", "client_id", "no-such-client"),
    ];
    if fixture.server.kind == Kind::Glewlwyd {
        cases.push(settings("jwt", "assertion_audience", "issuer"));
        cases.push(settings("jwt", "client_id", "auth-gateway"));
    }
    cases
}

pub(super) async fn rejected_client_is_a_misconfiguration_and_refuses_no_login(
    fixture: &OAuth2Fixture,
) {
    let user = fixture.iam.user(&[READ]).await;
    let cases = rejected(fixture);
    each_has_its_reason(&cases, &user).await;
    each_is_named_by_check(&cases, &user);
}
