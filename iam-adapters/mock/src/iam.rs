//! The in-memory IAM.
//!
//! [`Directory`] is the IAM with its administration; it never fails. [`Mock`] is its adapter: it injects
//! [`faults`] and keeps a [`journal`] of the gateway's calls.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::resilient::{CallLimits, Operation};
use iam_adapters::settings::AdapterSettings;
use iam_adapters::{
    Authenticated, Capabilities, ClaimSources, ClientAddress, ClientContext, Clock, Credentials,
    IamAdapter, IamError, Introspection, Permissions, SetupError, Subject, UpstreamSession,
};
use serde::{Deserialize, Serialize};

use faults::{Answer, Faults};
use journal::{Journal, Outcome};

use crate::host_name::HostName;

mod directory;
pub mod faults;
pub mod journal;
mod lockout;
mod pending_call;
mod sessions;
mod totp;
mod users;
mod users_file;

pub use directory::{Directory, DirectorySnapshot, Identity, LiveSession};
pub use lockout::Lockout;
pub use pending_call::PendingCall;
pub use totp::{InvalidTotpSecret, TotpVerifier};
pub use users::{AccountState, InvalidUser, User, Users, UsersError};
pub use users_file::{DEMO_USERS, Format, InvalidUsers, load, parse, write};

/// The adapter's name.
pub const NAME: &str = "mock";

/// `[iam.mock]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockSettings {
    /// `users_file`: the users, in a [`Format`] by the file's extension; none: [`DEMO_USERS`]. An
    /// entry has `email` and `password`, and optionally `permissions`, `attributes`, `state` (`active`,
    /// `disabled`, `locked` or `incomplete`), `totp_secret` and `subject`, which is derived from the address
    /// by default.
    pub users_file: Option<PathBuf>,
    /// `session_lifetime`: the lifetime of a session (`8h`).
    #[serde(with = "humantime_serde")]
    pub session_lifetime: Duration,
    /// `allowed_hosts`: the names, besides `localhost` and IP addresses, in the `Host` header of requests
    /// for its administration.
    #[serde(deserialize_with = "iam_adapters::list::deserialize")]
    pub allowed_hosts: Vec<HostName>,
    /// `fixed_signing_key`: whether the gateway signs with the key that is published in its
    /// repository, so that tests can make tokens themselves.
    pub fixed_signing_key: bool,
    /// `claims`: the claims of access tokens that the IAM states: attributes of users.
    pub claims: ClaimSources,
}

impl Default for MockSettings {
    fn default() -> Self {
        Self {
            users_file: None,
            session_lifetime: Duration::from_secs(8 * 60 * 60),
            allowed_hosts: Vec::new(),
            fixed_signing_key: false,
            claims: ClaimSources::default(),
        }
    }
}

impl AdapterSettings for MockSettings {
    fn claims(&self) -> &ClaimSources {
        &self.claims
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn connect(
        &self,
        section: &str,
        clock: Arc<dyn Clock>,
        _: Duration,
        _: Option<&Arc<dyn IamAdapter>>,
    ) -> Result<Arc<dyn IamAdapter>, SetupError> {
        let mock = Mock::connect(self, clock)
            .map_err(|invalid| SetupError(vec![format!("{section}.users_file: {invalid}")]))?;
        Ok(Arc::new(mock))
    }

    /// Tests log one user in many times.
    fn limits_logins(&self) -> bool {
        false
    }

    /// Each problem begins with its key. Reads the users file.
    fn problems(&self, section: &str, production: bool) -> Vec<String> {
        let mut problems = Vec::new();
        if production {
            problems.push(format!(
                "{section}: is for development; in production configure a real IAM, such as \
                 [iam.keycloak]"
            ));
        }
        if self.session_lifetime < Duration::from_secs(1) {
            problems.push(format!("{section}.session_lifetime: must be at least 1s"));
        }
        if let Err(invalid) = load(self.users_file.as_deref()) {
            problems.push(format!("{section}.users_file: {invalid}"));
        }
        let claims = self.claims.problems().into_iter();
        problems.extend(claims.map(|problem| format!("{section}.claims: {problem}")));
        problems
    }
}

/// The adapter for a [`Directory`].
#[derive(Debug)]
pub struct Mock {
    directory: Arc<Directory>,
    faults: Faults,
    journal: Arc<Journal>,
    /// The gateway's deadlines; none: unknown.
    limits: Option<CallLimits>,
    claims: ClaimSources,
}

impl Mock {
    /// An adapter of this IAM.
    #[must_use]
    pub fn new(directory: Arc<Directory>) -> Self {
        Self::with(directory, Faults::default())
    }

    /// An adapter of this IAM with these faults.
    #[must_use]
    pub fn with(directory: Arc<Directory>, faults: Faults) -> Self {
        Self {
            directory,
            faults,
            journal: Arc::default(),
            limits: None,
            claims: ClaimSources::NONE,
        }
    }

    /// Sets the journal, which may have calls already.
    #[must_use]
    pub fn with_journal(self, journal: Arc<Journal>) -> Self {
        Self { journal, ..self }
    }

    /// Sets the claims of access tokens.
    #[must_use]
    pub fn with_claims(self, claims: ClaimSources) -> Self {
        Self { claims, ..self }
    }

    /// Adds the claims of the session's user.
    fn stated(
        &self,
        session: &UpstreamSession,
        introspection: Introspection,
    ) -> Result<Introspection, IamError> {
        let Introspection::Active {
            subject,
            permissions,
            groups,
            ..
        } = introspection
        else {
            return Ok(introspection);
        };
        let claims = self
            .claims
            .read(&self.directory.members_of(session).into())?;
        Ok(Introspection::Active {
            subject,
            permissions,
            groups,
            claims,
        })
    }

    /// Sets the gateway's deadlines, which timeout faults report.
    #[must_use]
    pub fn with_limits(self, limits: CallLimits) -> Self {
        Self {
            limits: Some(limits),
            ..self
        }
    }

    /// Creates an IAM with the users of the settings.
    ///
    /// # Errors
    ///
    /// [`InvalidUsers`] if the users file cannot be read or has problems.
    pub fn connect(settings: &MockSettings, clock: Arc<dyn Clock>) -> Result<Self, InvalidUsers> {
        let users = load(settings.users_file.as_deref())?;
        let directory =
            Directory::new(Identity::default(), users, settings.session_lifetime, clock);
        Ok(Self::new(Arc::new(directory)).with_claims(settings.claims.clone()))
    }

    /// The IAM.
    #[must_use]
    pub const fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// The injected faults.
    #[must_use]
    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The calls so far.
    #[must_use]
    pub const fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// The error that a fault causes; none: it is not an error.
    fn error(&self, operation: Operation, answer: Answer) -> Option<IamError> {
        let limit = self.limits.and_then(|limits| match operation {
            Operation::Login => Some(limits.login),
            Operation::Introspection => Some(limits.introspection),
            Operation::Logout => Some(limits.logout),
            Operation::Keys => Some(limits.keys),
            Operation::Probe => Some(limits.probe),
            Operation::Permissions => None,
        });
        let deadline = limit.map(|limit| limit.deadline).unwrap_or_default();
        pending_call::error(answer, deadline)
    }

    /// Performs an operation whose only outcomes are success and error.
    async fn perform<T>(
        &self,
        mut call: PendingCall<'_>,
        operation: impl FnOnce() -> Result<T, IamError>,
    ) -> Result<T, IamError> {
        let name = call.entry().operation;
        let fault = call.fault().await;
        let fault = fault.and_then(|answer| self.error(name, answer));
        call.settle(fault.map_or_else(operation, Err), |_| Outcome::Ok)
    }

    /// Begins a call about a session.
    fn begin_session_call(
        &self,
        operation: Operation,
        session: &UpstreamSession,
    ) -> PendingCall<'_> {
        let mut call = PendingCall::begin(self, operation);
        let entry = call.entry();
        entry.user = self.directory.address_of(session);
        entry.subject = Some(session.subject.clone());
        entry.session = Some(session.id.clone());
        call
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
        let mut call = PendingCall::begin(self, Operation::Login);
        let entry = call.entry();
        entry.user = Some(credentials.email().to_owned());
        entry.client_address = client.address.map(ClientAddress::ip);
        entry.request_id = Some(client.request_id.clone()).filter(|id| !id.is_empty());
        let fault = call.fault().await;
        let fault = fault.and_then(|answer| self.error(Operation::Login, answer));
        let result = fault.map_or_else(|| self.directory.authenticate(credentials), Err);
        let result = result.map(|begun| {
            let members = self.directory.members_of(&begun.session).into();
            match self.claims.read(&members) {
                Ok(claims) => Authenticated { claims, ..begun },
                // The session has begun. The first exchange reports the fault.
                Err(_) => Authenticated {
                    permissions: None,
                    ..begun
                },
            }
        });
        if let Ok(begun) = &result {
            call.entry().subject = Some(begun.session.subject.clone());
            call.entry().session = Some(begun.session.id.clone());
            let id = begun.session.id.clone();
            // Outside of `with_begun_session` nothing asks for it.
            let _ = BEGUN.try_with(|begun| begun.replace(Some(id)));
        }
        call.settle(result, |_| Outcome::Ok)
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let mut call = self.begin_session_call(Operation::Introspection, session);
        let result = match call.fault().await {
            Some(Answer::Inactive) => Ok(Introspection::Inactive),
            Some(Answer::AnotherSession) => Ok(Introspection::Active {
                subject: another_subject(session),
                permissions: Permissions::default(),
                groups: None,
                claims: iam_adapters::Claims::default(),
            }),
            Some(answer) => self.error(Operation::Introspection, answer).map_or_else(
                || self.stated(session, self.directory.introspect(session)),
                Err,
            ),
            None => self.stated(session, self.directory.introspect(session)),
        };
        call.settle(result, |answer| match answer {
            Introspection::Active { .. } => Outcome::Ok,
            Introspection::Inactive => Outcome::Inactive,
        })
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        let call = self.begin_session_call(Operation::Logout, session);
        let end = || {
            self.directory.end_session(session);
            Ok(())
        };
        self.perform(call, end).await
    }

    fn logout_audience(&self) -> Option<&str> {
        Some(&self.directory.identity().client)
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        let call = PendingCall::begin(self, Operation::Keys);
        self.perform(call, || self.directory.verification_keys())
            .await
    }

    async fn probe(&self) -> Result<(), IamError> {
        let call = PendingCall::begin(self, Operation::Probe);
        self.perform(call, || Ok(())).await
    }
}

tokio::task_local! {
    /// The id of the session that the task has begun.
    static BEGUN: RefCell<Option<String>>;
}

/// Completes a request, and returns the id of the session that its login began.
pub async fn with_begun_session<T>(request: impl Future<Output = T>) -> (T, Option<String>) {
    let whole = async { (request.await, BEGUN.with(RefCell::take)) };
    BEGUN.scope(RefCell::default(), whole).await
}

/// A subject other than the session's.
fn another_subject(session: &UpstreamSession) -> Subject {
    let other = Subject::new(format!("not {}", session.subject));
    other.unwrap_or_else(|| session.subject.clone())
}

#[cfg(test)]
mod tests;
