//! The bundled IAM, for development and for tests: nothing to install, everything forgotten at the
//! end.
//!
//! [`Directory`] is the IAM itself: it never fails, and whoever holds it can do to it what an
//! administrator does. [`Mock`] is the way to it, as any other adapter is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;

use crate::adapter::IamAdapter;
use crate::clock::Clock;
use crate::error::IamError;
use crate::logout_token::VerificationKeys;
use crate::types::{Authenticated, ClientContext, Credentials, Introspection, UpstreamSession};

mod directory;
#[cfg(test)]
pub(crate) mod fixture;
mod identity;
mod sessions;
mod signer;
mod user;
mod users;
mod users_file;

pub use directory::{Directory, DirectorySnapshot, LiveSession};
pub use identity::Identity;
pub use signer::LogoutSigner;
pub use user::{AccountState, InvalidUser, User};
pub use users::{Users, UsersError};
pub use users_file::{DEMO_USERS, Format, InvalidUsers, load, parse};

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

impl MockSettings {
    /// Everything that is wrong with these settings, each named by its key. Reads the users file.
    #[must_use]
    pub fn problems(&self, production: bool) -> Vec<String> {
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
#[derive(Debug, Clone)]
pub struct Mock {
    directory: Arc<Directory>,
}

impl Mock {
    /// An adapter for an IAM that others hold too.
    #[must_use]
    pub const fn new(directory: Arc<Directory>) -> Self {
        Self { directory }
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
}

#[async_trait]
impl IamAdapter for Mock {
    fn name(&self) -> &'static str {
        "mock"
    }

    fn issuer(&self) -> &str {
        &self.directory.identity().issuer
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        _client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        self.directory.authenticate(credentials)
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        Ok(self.directory.introspect(session))
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        self.directory.end_session(session);
        Ok(())
    }

    fn logout_audience(&self) -> Option<&str> {
        Some(&self.directory.identity().client)
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.directory.verification_keys()
    }

    async fn probe(&self) -> Result<(), IamError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
