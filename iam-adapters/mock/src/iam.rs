//! The bundled IAM, for development and for tests: nothing to install, everything forgotten at the
//! end.
//!
//! [`Directory`] is the IAM itself: it never fails, and whoever holds it can do to it what an
//! administrator does. [`Mock`] is the way to it, as any other adapter is: it meets the [`faults`]
//! that somebody asked for, and keeps a [`journal`] of what the gateway asked.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::registry::{AdapterSettings, PublicCredentials, SetupError};
use iam_adapters::resilient::{Limits, Operation};
use iam_adapters::{
    Authenticated, Capabilities, ClientAddress, ClientContext, Clock, Credentials, IamAdapter,
    IamError, Introspection, Permissions, Subject, UpstreamSession,
};
use serde::Deserialize;

use faults::{Answer, Faults};
use journal::{Journal, Outcome};

mod asked;
mod directory;
pub mod faults;
mod identity;
pub mod journal;
mod sessions;
mod user;
mod users;
mod users_file;

pub use asked::Asked;
pub use directory::{Directory, DirectorySnapshot, LiveSession};
pub use identity::Identity;
pub use user::{AccountState, InvalidUser, User};
pub use users::{Users, UsersError};
pub use users_file::{DEMO_USERS, Format, InvalidUsers, load, parse};

/// The adapter's name.
pub(crate) const NAME: &str = "mock";

/// `[iam.mock]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockSettings {
    /// `users_file`: the users, in the form of [`DEMO_USERS`] or in that of another [`Format`], by
    /// the file's extension; none: those. An entry has `email` and `password`, and may have
    /// `permissions`, `state` (`active`, `disabled`, `locked` or `incomplete`) and `subject`, which
    /// otherwise follows from the address.
    pub users_file: Option<PathBuf>,
    /// `session_lifetime`: how long a session lives (`8h`).
    #[serde(with = "humantime_serde")]
    pub session_lifetime: Duration,
    /// `fixed_signing_key`: whether the gateway signs with the key that is published in its
    /// repository, so that tests can make tokens themselves.
    pub fixed_signing_key: bool,
}

impl Default for MockSettings {
    fn default() -> Self {
        Self {
            users_file: None,
            session_lifetime: Duration::from_secs(8 * 60 * 60),
            fixed_signing_key: false,
        }
    }
}

impl AdapterSettings for MockSettings {
    fn name(&self) -> &'static str {
        NAME
    }

    fn connect(
        &self,
        clock: Arc<dyn Clock>,
        _: Duration,
    ) -> Result<Arc<dyn IamAdapter>, SetupError> {
        let mock = Mock::connect(self, clock)
            .map_err(|invalid| SetupError::new(format!("iam.mock.users_file: {invalid}")))?;
        Ok(Arc::new(mock))
    }

    fn logins_per_second(&self) -> Option<NonZeroU32> {
        None
    }

    /// Tests log one user in as often as they like.
    fn sessions_per_minute(&self) -> u32 {
        0
    }

    fn public_credentials(&self) -> PublicCredentials {
        PublicCredentials {
            accounts_replaced_by: self.users_file.is_none().then_some("iam.mock.users_file"),
            signing_key_set_by: self
                .fixed_signing_key
                .then_some("iam.mock.fixed_signing_key"),
            open_administration: true,
        }
    }

    /// Each problem is named by its key. Reads the users file.
    fn problems(&self, production: bool) -> Vec<String> {
        let mut problems = Vec::new();
        if production {
            problems.push(
                "iam.mock: is for development; in production configure a real IAM, such as \
                 [iam.keycloak]"
                    .to_owned(),
            );
        }
        if self.session_lifetime < Duration::from_secs(1) {
            problems.push("iam.mock.session_lifetime: must be at least 1s".to_owned());
        }
        if let Err(invalid) = load(self.users_file.as_deref()) {
            problems.push(format!("iam.mock.users_file: {invalid}"));
        }
        problems
    }
}

/// The adapter for a [`Directory`].
#[derive(Debug)]
pub struct Mock {
    directory: Arc<Directory>,
    faults: Faults,
    journal: Journal,
    /// None: nobody told.
    limits: Option<Limits>,
}

impl Mock {
    /// An adapter for an IAM that others hold too.
    #[must_use]
    pub fn new(directory: Arc<Directory>) -> Self {
        Self::with(directory, Faults::default())
    }

    /// The same, with these faults.
    #[must_use]
    pub fn with(directory: Arc<Directory>, faults: Faults) -> Self {
        Self {
            directory,
            faults,
            journal: Journal::default(),
            limits: None,
        }
    }

    /// Knows the gateway's deadlines, so that one that passes at once can be told as in life.
    #[must_use]
    pub fn within(self, limits: Limits) -> Self {
        Self {
            limits: Some(limits),
            ..self
        }
    }

    /// Fills a new IAM with the users of the settings; connects to nothing.
    ///
    /// # Errors
    ///
    /// [`InvalidUsers`] where the users file cannot be read or has problems.
    pub fn connect(settings: &MockSettings, clock: Arc<dyn Clock>) -> Result<Self, InvalidUsers> {
        let users = load(settings.users_file.as_deref())?;
        let directory =
            Directory::new(Identity::default(), users, settings.session_lifetime, clock);
        Ok(Self::new(Arc::new(directory)))
    }

    /// The IAM itself.
    #[must_use]
    pub const fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// What it is told to do in place of its duty.
    #[must_use]
    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// What it was asked.
    #[must_use]
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The fault that an answer is to a caller; none: it is no fault.
    fn error(&self, operation: Operation, answer: Answer) -> Option<IamError> {
        let deadline = self.limits.map(|limits| limits.of(operation).deadline);
        asked::error(answer, deadline.unwrap_or_default())
    }

    /// What needs no more than a yes.
    async fn plainly<T>(
        &self,
        mut asked: Asked<'_>,
        truth: impl FnOnce() -> Result<T, IamError>,
    ) -> Result<T, IamError> {
        let operation = asked.call().operation;
        let fault = asked.fault().await;
        let fault = fault.and_then(|answer| self.error(operation, answer));
        asked.settle(fault.map_or_else(truth, Err), |_| Outcome::Ok)
    }

    /// The call, with what is known of a session's user.
    fn about(&self, operation: Operation, session: &UpstreamSession) -> Asked<'_> {
        let mut asked = Asked::begin(self, operation);
        let call = asked.call();
        call.user = self.directory.address_of(session);
        call.subject = Some(session.subject.clone());
        call.session = Some(session.id.clone());
        asked
    }
}

#[async_trait]
impl IamAdapter for Mock {
    fn name(&self) -> &'static str {
        NAME
    }

    fn issuer(&self) -> &str {
        &self.directory.identity().issuer
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FULL
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        let mut asked = Asked::begin(self, Operation::Login);
        let call = asked.call();
        call.user = Some(credentials.email().to_owned());
        call.client_address = client.address.map(ClientAddress::ip);
        call.request_id = Some(client.request_id.clone()).filter(|id| !id.is_empty());
        let fault = asked.fault().await;
        let fault = fault.and_then(|answer| self.error(Operation::Login, answer));
        let result = fault.map_or_else(|| self.directory.authenticate(credentials), Err);
        if let Ok(begun) = &result {
            asked.call().subject = Some(begun.session.subject.clone());
            asked.call().session = Some(begun.session.id.clone());
        }
        asked.settle(result, |_| Outcome::Ok)
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let mut asked = self.about(Operation::Introspection, session);
        let result = match asked.fault().await {
            Some(Answer::Inactive) => Ok(Introspection::Inactive),
            Some(Answer::AnotherSession) => Ok(Introspection::Active {
                subject: somebody_else(session),
                permissions: Permissions::default(),
            }),
            Some(answer) => self
                .error(Operation::Introspection, answer)
                .map_or_else(|| Ok(self.directory.introspect(session)), Err),
            None => Ok(self.directory.introspect(session)),
        };
        asked.settle(result, |answer| match answer {
            Introspection::Active { .. } => Outcome::Ok,
            Introspection::Inactive => Outcome::Inactive,
        })
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        let asked = self.about(Operation::Logout, session);
        let truth = || {
            self.directory.end_session(session);
            Ok(())
        };
        self.plainly(asked, truth).await
    }

    fn logout_audience(&self) -> Option<&str> {
        Some(&self.directory.identity().client)
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        let asked = Asked::begin(self, Operation::Keys);
        self.plainly(asked, || self.directory.verification_keys())
            .await
    }

    async fn probe(&self) -> Result<(), IamError> {
        let asked = Asked::begin(self, Operation::Probe);
        self.plainly(asked, || Ok(())).await
    }
}

/// A subject that is not the session's.
fn somebody_else(session: &UpstreamSession) -> Subject {
    let other = Subject::new(format!("not {}", session.subject));
    other.unwrap_or_else(|| session.subject.clone())
}

#[cfg(test)]
mod tests;
