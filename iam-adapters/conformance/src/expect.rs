//! The steps that the promises are tried with, each a question to the adapter and the only answer
//! that is right.

use std::sync::Arc;

use aws_lc_rs::rand;
use iam_adapters::adapter::{IamAdapter, SessionLocation};
use iam_adapters::error::{IamError, Refusal};
use iam_adapters::scope::{Permission, Permissions};
use iam_adapters::types::{
    Authenticated, ClientContext, Credentials, Introspection, UpstreamSession,
};
use secrecy::SecretString;

use super::{Account, Breach, Fixture, Verdict};

pub(super) const READ: &str = "urn:conformance:suite:thing:read";
pub(super) const WRITE: &str = "urn:conformance:suite:thing:write";

pub(super) fn breach(what: impl Into<String>) -> Breach {
    Breach(what.into())
}

/// A breach unless the condition holds.
pub(super) fn hold(condition: bool, otherwise: &str) -> Verdict {
    condition.then_some(()).ok_or_else(|| breach(otherwise))
}

pub(super) fn permissions(names: &[&str]) -> Permissions {
    names
        .iter()
        .filter_map(|name| Permission::parse(name).ok())
        .collect()
}

/// Text that nobody has used before, short enough for the local part of an address.
pub(super) fn unheard_of() -> Result<String, Breach> {
    let mut bits = [0; 16];
    rand::fill(&mut bits).map_err(|_| breach("this machine has no randomness"))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bits)))
}

impl Account {
    /// A new user with a password that any rule for passwords accepts.
    pub(super) async fn create(fixture: &dyn Fixture, names: &[&str]) -> Result<Self, Breach> {
        let password = format!("Aa1!{}", unheard_of()?);
        Self::with_password(fixture, password, names).await
    }

    pub(super) async fn with_password(
        fixture: &dyn Fixture,
        password: impl Into<SecretString>,
        names: &[&str],
    ) -> Result<Self, Breach> {
        let email = format!("{}@example.test", unheard_of()?);
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

/// Whether sessions exist at the IAM. Where they exist in the session token alone, the adapter cannot
/// know of an end, and nothing about ends is judged.
pub(super) fn has_sessions(fixture: &dyn Fixture) -> bool {
    fixture.adapter().capabilities().sessions == SessionLocation::Iam
}

/// The adapter under test, asked in the suite's own words.
pub(super) struct Asked(pub(super) Arc<dyn IamAdapter>);

impl Asked {
    pub(super) fn of(fixture: &dyn Fixture) -> Self {
        Self(fixture.adapter())
    }

    pub(super) async fn try_log_in(
        &self,
        email: &str,
        password: &SecretString,
    ) -> Result<Authenticated, IamError> {
        let client = ClientContext {
            address: Some(std::net::IpAddr::from([192, 0, 2, 1]).into()),
            request_id: "conformance".to_owned(),
        };
        match Credentials::new(email.to_owned(), password.clone()) {
            Ok(credentials) => self.0.authenticate(&credentials, &client).await,
            Err(invalid) => Err(IamError::Failed(format!("the suite itself: {invalid}"))),
        }
    }

    /// Logs in, which has to succeed, and gives the session.
    pub(super) async fn log_in(&self, user: &Account) -> Result<UpstreamSession, Breach> {
        match self.try_log_in(&user.email, &user.password).await {
            Ok(begun) => Ok(begun.session),
            Err(error) => Err(breach(format!("a rightful login failed: {error}"))),
        }
    }

    /// Logs in, which has to be refused, and gives the reason.
    pub(super) async fn is_refused(
        &self,
        email: &str,
        password: &SecretString,
    ) -> Result<Refusal, Breach> {
        match self.try_log_in(email, password).await {
            Err(IamError::Refused(refusal)) => Ok(refusal),
            Ok(_) => Err(breach("a login succeeded that had to be refused")),
            Err(error) => Err(breach(format!("a refusal was told as a fault: {error}"))),
        }
    }

    pub(super) async fn introspect(
        &self,
        session: &UpstreamSession,
    ) -> Result<Introspection, Breach> {
        let answer = self.0.introspect(session).await;
        answer.map_err(|error| breach(format!("introspection failed: {error}")))
    }

    /// The session has to be alive, of this user, with these permissions.
    pub(super) async fn is_active(
        &self,
        session: &UpstreamSession,
        user: &Account,
        names: &[&str],
    ) -> Verdict {
        let right = Introspection::Active {
            subject: user.subject.clone(),
            permissions: permissions(names),
        };
        let answer = self.introspect(session).await?;
        if answer == right {
            Ok(())
        } else {
            Err(breach(format!(
                "introspection answered {answer:?}, not {right:?}"
            )))
        }
    }

    /// The session has to be over.
    pub(super) async fn is_inactive(&self, session: &UpstreamSession) -> Verdict {
        match self.introspect(session).await? {
            Introspection::Inactive => Ok(()),
            Introspection::Active { .. } => Err(breach("a session is active that had to be over")),
        }
    }

    /// Ends the session, which has to succeed.
    pub(super) async fn end(&self, session: &UpstreamSession) -> Verdict {
        let answer = self.0.end_session(session).await;
        answer.map_err(|error| breach(format!("ending a session failed: {error}")))
    }
}
