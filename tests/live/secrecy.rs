//! No secret is written at any log level, with real tokens of a real IAM.

use iam_adapters::UpstreamSession;
use iam_conformance::Account;
use secrecy::{ExposeSecret as _, SecretString};
use test_support::canary::Canary;
use test_support::keys::TestKeys;
use test_support::suite::{READ, session_of};
use test_support::wire::{fetch, get};

use crate::fixture::LiveFixture;
use crate::process::Process;

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn no_token_of_keycloak_and_no_credential_is_written() {
    let fixture = LiveFixture::new().await;
    let user = fixture.user(&[READ]).await;
    let secrets = [
        (
            "the client secret",
            fixture.keycloak.client_secret.expose_secret().to_owned(),
        ),
        ("the e-mail address", user.email.clone()),
    ];
    let tokens = |session: &UpstreamSession| vec![session.secret.expose_secret().to_owned()];
    no_secret_is_written(&fixture.keycloak.settings(), &user, &secrets, tokens).await;
}

/// Searches the output of two gateways with the most verbose log for the secrets, and for the tokens of
/// the IAM's session.
pub(crate) async fn no_secret_is_written(
    settings: &[(&str, &str)],
    user: &Account,
    secrets: &[(&'static str, String)],
    tokens: impl FnOnce(&UpstreamSession) -> Vec<String>,
) {
    let keys = TestKeys::new();
    let verbose = [("log.filter", "trace")];
    let settings = [settings, &keys.settings(), &verbose].concat();
    let replicas = [
        Process::start_and_probe(&settings).await,
        Process::start_and_probe(&settings).await,
    ];
    let [client, other] = [&replicas[0].client, &replicas[1].client];
    let wrong = SecretString::from("Aa1!not-the-password");
    let refused_login = client.log_in(&user.email, &wrong).await;
    refused_login.is_error(401, "invalid_grant");
    let session = session_of(client, user).await;
    let token = client.exchange(&session, READ).await.token();
    // By an introspection.
    assert_eq!(other.exchange(&session, READ).await.status, 200);
    assert_eq!(client.log_out(&session).await.status, 200);
    let refused = client.exchange(&session, READ).await;
    refused.is_error(401, "invalid_grant");
    let mut output = vec![refused_login.text(), refused.text()];
    for Process {
        program,
        management,
        ..
    } in replicas
    {
        for path in ["/", "/health/ready", "/metrics"] {
            output.push(fetch(management, get(path)).body);
        }
        let ended = program.stop();
        output.push(ended.everything());
    }

    let mut canaries: Vec<_> = secrets
        .iter()
        .map(|(what, secret)| Canary::new(what, secret))
        .collect();
    canaries.push(Canary::new("the password", user.password.expose_secret()));
    canaries.push(Canary::new("a wrong password", wrong.expose_secret()));
    canaries.push(Canary::new("the session token", &session.session_token));
    canaries.push(Canary::new("the access token", &token.access_token));
    for token in tokens(&keys.unsealed(&session)) {
        canaries.push(Canary::new("a token of the IAM", &token));
    }
    for canary in &canaries {
        let lines = output.iter().flat_map(|text| text.lines());
        for line in lines {
            assert!(!canary.is_in(line), "{}: {line}", canary.what);
        }
    }
    // The control: the same search finds the user's id.
    let subject = Canary::new("the control", user.subject.as_str());
    assert!(output.iter().any(|text| subject.is_in(text)));
}
