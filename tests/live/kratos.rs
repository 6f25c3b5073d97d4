//! The gateway with a real Ory Kratos. Each test starts its own server.

mod server;

use iam_adapters::{Authenticated, IamError, Introspection, Refusal, UpstreamSession};
use iam_conformance::{Account, AccountState, Fixture as _};
use reqwest::StatusCode;
use secrecy::ExposeSecret as _;
use serde_json::json;
use test_support::gateway::TestGateway;
use test_support::suite::{IamFixture, READ, WRITE};

use crate::fixture;
use crate::outage::RestartableIam;
use crate::process::gateway;
use crate::secrecy::no_secret_is_written;
use crate::settings_file::{block, works};

use server::{KratosFixture, Server, adapter};

async fn log_in(server: &Server, user: &Account) -> Result<Authenticated, IamError> {
    let password = user.password.clone();
    fixture::log_in(&*server.adapter(), &user.email, password).await
}

async fn session_of(server: &Server, user: &Account) -> UpstreamSession {
    log_in(server, user).await.expect("a login").session
}

#[tokio::test]
#[ignore = "needs a real Kratos: tests/run --full builds it"]
async fn adapter_passes_the_conformance_suite() {
    iam_conformance::all(&*KratosFixture::start().await.server).await;
}

#[tokio::test]
#[ignore = "needs a real Kratos: tests/run --full builds it"]
async fn each_refusal_has_its_own_reason_with_the_right_password_alone() {
    let KratosFixture { server, iam } = KratosFixture::start().await;
    let user = iam.user(&[READ]).await;
    for (state, refusal) in [
        (AccountState::Disabled, Refusal::Disabled),
        (AccountState::Incomplete, Refusal::Incomplete),
    ] {
        server.set_state(&user, state).await;
        let login = log_in(&server, &user).await.map(drop);
        assert_eq!(login, Err(IamError::Refused(refusal)));
        // A wrong password does not tell the state.
        let other = Account {
            password: "Aa1!not-the-password".into(),
            ..user.clone()
        };
        let login = log_in(&server, &other).await.map(drop);
        let refused = IamError::Refused(Refusal::InvalidCredentials);
        assert_eq!(login, Err(refused));
        server.set_state(&user, AccountState::Active).await;
    }
}

/// While its database fails, Kratos reports every session as ended, and itself as ready.
#[tokio::test]
#[ignore = "needs a real Kratos: tests/run --full builds it"]
async fn failing_database_ends_no_session_and_refuses_no_login() {
    let KratosFixture { server, iam } = KratosFixture::start().await;
    let user = iam.user(&[READ]).await;
    let (session, ended) = (
        session_of(&server, &user).await,
        session_of(&server, &user).await,
    );
    let adapter = server.adapter();
    assert_eq!(adapter.end_session(&ended).await, Ok(()));
    server.change_database("ALTER TABLE sessions RENAME TO missing");
    let whoami = server.whoami(&session).await;
    assert_eq!(whoami, StatusCode::UNAUTHORIZED);
    assert_eq!(adapter.probe().await, Ok(()));
    for session in [&session, &ended] {
        let fault = adapter.introspect(session).await;
        assert!(matches!(fault, Err(IamError::Failed(_))), "{fault:?}");
        let fault = adapter.end_session(session).await;
        assert!(matches!(fault, Err(IamError::Failed(_))), "{fault:?}");
    }
    let fault = log_in(&server, &user).await;
    assert!(matches!(fault, Err(IamError::Failed(_))), "{fault:?}");
    server.change_database("ALTER TABLE missing RENAME TO sessions");
    let introspected = adapter.introspect(&session).await;
    assert!(matches!(introspected, Ok(Introspection::Active { .. })));
    assert_eq!(
        adapter.introspect(&ended).await,
        Ok(Introspection::Inactive)
    );
}

#[tokio::test]
#[ignore = "needs a real Kratos: tests/run --full builds it"]
async fn user_with_a_second_factor_is_refused_and_the_session_is_ended() {
    let KratosFixture { server, iam } = KratosFixture::start().await;
    let user = iam.user(&[READ]).await;
    let (with_factor, before) = (
        session_of(&server, &user).await,
        session_of(&server, &user).await,
    );
    server.add_recovery_codes(&with_factor).await;
    let login = log_in(&server, &user).await.map(drop);
    assert_eq!(login, Err(IamError::Refused(Refusal::Incomplete)));
    server.has_active_sessions(&user, 2).await;
    let adapter = server.adapter();
    let introspected = adapter.introspect(&with_factor).await;
    assert!(matches!(introspected, Ok(Introspection::Active { .. })));
    assert_eq!(
        adapter.introspect(&before).await,
        Ok(Introspection::Inactive)
    );
}

#[tokio::test]
#[ignore = "needs a real Kratos: tests/run --full builds it"]
async fn method_that_is_not_enabled_and_another_server_are_misconfigurations() {
    let KratosFixture { server, iam } = KratosFixture::start_without_passwords().await;
    let user = iam.user(&[READ]).await;
    let login = log_in(&server, &user).await.map(drop);
    let login = login.expect_err("no passwords").to_string();
    assert!(login.contains("selfservice.methods.password"), "{login}");
    // The administrative API is no public one.
    let admin = adapter(server.admin(), &json!({}));
    let probed = admin.probe_logout().await;
    let is_misconfigured = matches!(probed, Err(IamError::Misconfigured { .. }));
    assert!(is_misconfigured, "{probed:?}");
}

#[tokio::test]
#[ignore = "needs a real Kratos: tests/run --full builds it"]
async fn settings_of_init_and_of_the_documentation_work() {
    let KratosFixture { server, iam } = KratosFixture::start().await;
    let user = iam.user(&[READ, WRITE]).await;
    let written = gateway(&["init", "--iam", "kratos"], &[]).output();
    let written = String::from_utf8(written.expect("the program").stdout).expect("text");
    let documented = block(include_str!("../../docs/kratos.md"), "[iam.kratos]");
    for text in [&written, documented] {
        works(&user, text, &[("iam.kratos.url", server.url())], &[]);
    }
}

#[tokio::test]
#[ignore = "needs a real Kratos: tests/run --full builds it"]
async fn no_token_of_the_server_and_no_credential_is_written() {
    let KratosFixture { server, iam } = KratosFixture::start().await;
    let user = iam.user(&[READ]).await;
    let settings = [("iam.kratos.url", server.url())];
    let secrets = [("the e-mail address", user.email.clone())];
    no_secret_is_written(&settings, &user, &secrets, |session| {
        vec![session.secret.expose_secret().to_owned()]
    })
    .await;
}

impl RestartableIam for KratosFixture {
    fn iam(&self) -> &IamFixture {
        &self.iam
    }

    fn settings(&self) -> Vec<(String, String)> {
        vec![("iam.kratos.url".to_owned(), self.server.url().to_owned())]
    }

    fn gateway(&self, more: &[(&str, &str)]) -> TestGateway {
        Self::gateway(self, more)
    }

    async fn is_active(&self, session: &UpstreamSession) -> bool {
        self.server.whoami(session).await == StatusCode::OK
    }

    fn keeps_sessions(&self) -> bool {
        true
    }

    fn kill(&mut self) {
        self.server.kill();
    }

    async fn start_again(&mut self) {
        self.server.start_again().await;
    }
}

#[tokio::test]
#[ignore = "needs a real Kratos: tests/run --full builds it"]
async fn outage_is_reported_as_such_and_ends_without_a_restart() {
    let mut fixture = KratosFixture::start().await;
    crate::outage::outage_is_reported_as_such_and_ends_without_a_restart(&mut fixture).await;
}

/// Attributes that users may change themselves are claims only if the settings name them.
#[tokio::test]
#[ignore = "needs a real Kratos: tests/run --full builds it"]
async fn trait_is_a_claim() {
    let KratosFixture { server, iam } = KratosFixture::start().await;
    let user = iam.user(&[READ]).await;
    let claims = json!({"email": {"member": "/traits/email"}});
    let adapter = adapter(server.url(), &claims);
    let session = session_of(&server, &user).await;
    let introspected = adapter.introspect(&session).await;
    let Ok(Introspection::Active { claims, .. }) = introspected else {
        panic!("{introspected:?}");
    };
    assert_eq!(claims.to_json()["email"], json!(user.email));
}

test_support::suite::for_each_test!(
    api_suite,
    "needs a real Kratos: tests/run --full builds it",
    { super::KratosFixture::start().await.iam }
);
