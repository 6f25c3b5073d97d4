//! The steps of the checks: each calls the adapter and verifies the result.

use std::sync::Arc;

use aws_lc_rs::rand;
use iam_adapters::adapter::{IamAdapter, SessionLocation};
use iam_adapters::error::{IamError, Refusal};
use iam_adapters::scope::{Permission, Permissions};
use iam_adapters::types::{
    Authenticated, ClientContext, Credentials, Introspection, UpstreamSession,
};
use secrecy::SecretString;

use super::{Account, CheckFailure, CheckResult, Fixture};

pub(super) const READ: &str = "urn:conformance:suite:thing:read";
pub(super) const WRITE: &str = "urn:conformance:suite:thing:write";

pub(super) fn failure(what: impl Into<String>) -> CheckFailure {
    CheckFailure(what.into())
}

/// Fails unless the condition is true.
pub(super) fn ensure(condition: bool, otherwise: &str) -> CheckResult {
    condition.then_some(()).ok_or_else(|| failure(otherwise))
}

pub(super) fn permissions(names: &[&str]) -> Permissions {
    names
        .iter()
        .filter_map(|name| Permission::parse(name).ok())
        .collect()
}

/// A unique text, short enough for the local part of an address.
pub(super) fn unique_text() -> Result<String, CheckFailure> {
    let mut bits = [0; 16];
    rand::fill(&mut bits).map_err(|_| failure("the system has no random numbers"))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bits)))
}

impl Account {
    /// A new user with a password that any rule for passwords accepts.
    pub(super) async fn create(
        fixture: &dyn Fixture,
        names: &[&str],
    ) -> Result<Self, CheckFailure> {
        let password = format!("Aa1!{}", unique_text()?);
        Self::with_password(fixture, password, names).await
    }

    pub(super) async fn with_password(
        fixture: &dyn Fixture,
        password: impl Into<SecretString>,
        names: &[&str],
    ) -> Result<Self, CheckFailure> {
        let email = format!("{}@example.test", unique_text()?);
        let password = password.into();
        let subject = fixture
            .create_user(&email, &password, &permissions(names))
            .await;
        Ok(Self {
            email,
            password,
            subject,
        })
    }
}

/// Whether sessions exist at the IAM. If they exist in the session token only, the adapter cannot end
/// them, and the checks of ends do nothing.
pub(super) fn has_sessions(fixture: &dyn Fixture) -> bool {
    fixture.adapter().capabilities().sessions == SessionLocation::Iam
}

/// The adapter under test.
pub(super) struct AdapterUnderTest(pub(super) Arc<dyn IamAdapter>);

impl AdapterUnderTest {
    pub(super) fn of(fixture: &dyn Fixture) -> Self {
        Self(fixture.adapter())
    }

    pub(super) async fn try_log_in(
        &self,
        email: &str,
        password: &SecretString,
    ) -> Result<Authenticated, IamError> {
        self.try_log_in_with(email, password, None).await
    }

    pub(super) async fn try_log_in_with(
        &self,
        email: &str,
        password: &SecretString,
        otp: Option<&SecretString>,
    ) -> Result<Authenticated, IamError> {
        let client = ClientContext {
            address: Some(std::net::IpAddr::from([192, 0, 2, 1]).into()),
            request_id: "conformance".to_owned(),
        };
        let credentials = Credentials::new(email.to_owned(), password.clone());
        match credentials.and_then(|credentials| credentials.with_otp(otp.cloned())) {
            Ok(credentials) => self.0.authenticate(&credentials, &client).await,
            Err(invalid) => Err(IamError::Failed(format!("the suite: {invalid}"))),
        }
    }

    /// Logs in, which must succeed, and returns the session.
    pub(super) async fn log_in(&self, user: &Account) -> Result<UpstreamSession, CheckFailure> {
        match self.try_log_in(&user.email, &user.password).await {
            Ok(begun) => Ok(begun.session),
            Err(error) => Err(failure(format!("a valid login failed: {error}"))),
        }
    }

    /// Logs in, which must be refused, and returns the reason.
    pub(super) async fn is_refused(
        &self,
        email: &str,
        password: &SecretString,
    ) -> Result<Refusal, CheckFailure> {
        match self.try_log_in(email, password).await {
            Err(IamError::Refused(refusal)) => Ok(refusal),
            Ok(_) => Err(failure("a login succeeded that must be refused")),
            Err(error) => Err(failure(format!(
                "a refusal was reported as a fault: {error}"
            ))),
        }
    }

    pub(super) async fn introspect(
        &self,
        session: &UpstreamSession,
    ) -> Result<Introspection, CheckFailure> {
        let answer = self.0.introspect(session).await;
        answer.map_err(|error| failure(format!("introspection failed: {error}")))
    }

    /// The session must be active, of this user, with these permissions.
    pub(super) async fn is_active(
        &self,
        session: &UpstreamSession,
        user: &Account,
        names: &[&str],
    ) -> CheckResult {
        let (user, expected) = (&user.subject, permissions(names));
        let answer = self.introspect(session).await?;
        let is_active = matches!(
            &answer,
            Introspection::Active { subject, permissions, .. }
                if subject == user && *permissions == expected
        );
        if is_active {
            Ok(())
        } else {
            Err(failure(format!(
                "introspection answered {answer:?}, not active for {user} with {expected:?}"
            )))
        }
    }

    /// The session must be inactive.
    pub(super) async fn is_inactive(&self, session: &UpstreamSession) -> CheckResult {
        match self.introspect(session).await? {
            Introspection::Inactive => Ok(()),
            Introspection::Active { .. } => {
                Err(failure("a session is active that must be inactive"))
            }
        }
    }

    /// Ends the session, which must succeed.
    pub(super) async fn end(&self, session: &UpstreamSession) -> CheckResult {
        let answer = self.0.end_session(session).await;
        answer.map_err(|error| failure(format!("ending a session failed: {error}")))
    }
}
