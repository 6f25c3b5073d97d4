//! The contract: the operations that the gateway needs of an IAM.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use thiserror::Error;

use crate::error::IamError;
use crate::jwk::VerificationKeys;
use crate::types::{Authenticated, ClientContext, Credentials, Introspection, UpstreamSession};

/// Why an adapter could not be created: one line for each problem, with the key or the section and without the value.
#[derive(Debug, Error)]
#[error("{}", .0.join("\n"))]
pub struct SetupError(pub Vec<String>);

/// What an IAM can do beyond the contract. The conformance suite tests what an adapter declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each capability is there or not, whatever the others are"
)]
pub struct Capabilities {
    /// Where sessions exist.
    pub sessions: SessionLocation,
    /// Whether introspection reports the session of a disabled account as inactive.
    pub detects_disabled: bool,
    /// Whether introspection reports the session of a deleted account as inactive.
    pub detects_deleted: bool,
    /// How old the permissions of an introspection are.
    pub permissions: PermissionAge,
    /// Whether the IAM sends logout tokens (OpenID Connect Back-Channel Logout 1.0).
    pub back_channel_logout: bool,
    /// Whether a login can have a one-time password: the IAM requires it of the users who have one, and
    /// ignores it for all others. Otherwise [`IamAdapter::authenticate`] never gets one.
    pub one_time_password: bool,
}

/// Where the sessions of an IAM exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionLocation {
    /// At the IAM: it can end one, and introspection reports that.
    Iam,
    /// Only in the gateway's session token. The IAM has no sessions; only the gateway's revocations
    /// end one before it expires. So the gateway does not call [`IamAdapter::end_session`].
    SessionToken,
}

/// How old the permissions of an introspection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionAge {
    /// Those at the time of the introspection.
    Current,
    /// Those at the time of the login; a change takes effect at the next login.
    Login,
}

impl Capabilities {
    /// The capabilities of an authorization server with its own sessions, such as Keycloak.
    pub const FULL: Self = Self {
        sessions: SessionLocation::Iam,
        detects_disabled: true,
        detects_deleted: true,
        permissions: PermissionAge::Current,
        back_channel_logout: true,
        one_time_password: true,
    };

    /// What operators must know about an IAM with less than [`Self::FULL`].
    pub fn limitations(self) -> impl Iterator<Item = &'static str> {
        let at_iam = self.sessions == SessionLocation::Iam;
        [
            (
                !self.detects_disabled,
                "sessions of a disabled account stay active until they expire",
            ),
            (
                !self.detects_deleted,
                "sessions of a deleted account stay active until they expire",
            ),
            (
                self.permissions == PermissionAge::Login,
                "changes of a user's permissions and groups take effect at the next login",
            ),
            (
                at_iam && !self.back_channel_logout,
                "a session that ends at the IAM is refused only after the freshness of cached data",
            ),
            (
                !at_iam,
                "the IAM can end no session: only logouts and operators of the gateway do",
            ),
            (
                !self.one_time_password,
                "a login with a one-time password is refused as an invalid request",
            ),
        ]
        .into_iter()
        .filter_map(|(applies, limitation)| applies.then_some(limitation))
    }
}

/// A description for operators.
impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.sessions {
            SessionLocation::Iam => "sessions at the IAM",
            SessionLocation::SessionToken => "sessions in the session token alone",
        })?;
        f.write_str(match self.permissions {
            PermissionAge::Current => ", current permissions",
            PermissionAge::Login => ", permissions of the login",
        })?;
        f.write_str(match (self.detects_disabled, self.detects_deleted) {
            (true, true) => ", detects disabled and deleted accounts",
            (true, false) => ", detects disabled but not deleted accounts",
            (false, true) => ", detects deleted but not disabled accounts",
            (false, false) => ", detects neither disabled nor deleted accounts",
        })?;
        f.write_str(if self.back_channel_logout {
            ", back-channel logout by tokens of the type logout+jwt"
        } else {
            ", no back-channel logout"
        })?;
        f.write_str(if self.one_time_password {
            ", one-time passwords"
        } else {
            ", no one-time passwords"
        })
    }
}

/// Calls one kind of IAM by its own protocol.
///
/// # Rules for an adapter
///
/// * It translates and does not decide: no cache, no deadline, no retry, no limit. Those exist once,
///   in [`ResilientAdapter`](crate::ResilientAdapter), around every adapter.
/// * A fault is never a refusal. [`IamError::Refused`] and [`Introspection::Inactive`] require an
///   explicit response of the IAM that was understood completely. An unclear response is
///   [`IamError::Unreadable`], and an IAM that rejects the gateway's own credentials is
///   [`IamError::Misconfigured`].
/// * Credentials reach the IAM byte for byte, and appear in no log, error or URL.
/// * A dropped future does not affect the next call.
///
/// # Rules for a wrapper
///
/// It forwards every method, also those with a default body. The lint `clippy::missing_trait_methods` finds a
/// wrapper without one of them.
///
/// The suite in the crate `iam-conformance` tests an adapter for this.
#[async_trait]
pub trait IamAdapter: Any + fmt::Debug + Send + Sync {
    /// The adapter's name, as in the configuration (`keycloak`), the logs and the metrics.
    fn name(&self) -> &'static str;

    /// Identifies the IAM. Stable over restarts and equal on all replicas: a session of one issuer is
    /// refused if another issuer is configured. For OIDC servers the `issuer` (RFC 8414 section 2).
    fn issuer(&self) -> &str;

    /// What the IAM can do beyond this contract. Constant.
    fn capabilities(&self) -> Capabilities;

    /// Verifies the credentials and begins a session at the IAM.
    ///
    /// Not idempotent: a wrapper never retries it, because a second wrong password may lock the
    /// account.
    ///
    /// # Errors
    ///
    /// [`IamError::Refused`] if the IAM refuses this user; any other variant is a fault.
    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError>;

    /// Returns whether the session is active, and the permissions that its user has now (RFC 7662).
    ///
    /// Changes nothing at the IAM: it neither extends the session nor rotates its secrets, so it
    /// can be repeated.
    ///
    /// # Errors
    ///
    /// Faults only. A session that has ended is [`Introspection::Inactive`].
    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError>;

    /// Ends the session at the IAM.
    ///
    /// Idempotent: it succeeds if the session has already ended.
    ///
    /// # Errors
    ///
    /// Faults only.
    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError>;

    /// The audience of the IAM's logout tokens (`aud` in OpenID Connect Back-Channel Logout 1.0
    /// section 2.4): the gateway's own client id. `None`, the default: the IAM sends no logout tokens.
    fn logout_audience(&self) -> Option<&str> {
        None
    }

    /// Fetches the IAM's current public keys, which verify its logout tokens.
    ///
    /// [`LogoutTokens`](crate::logout_token::LogoutTokens) calls it and caches the result. The address
    /// comes from the configuration, never from a token.
    ///
    /// # Errors
    ///
    /// Faults only; [`IamError::Unreadable`] if there is no usable key, or if the IAM sends no logout
    /// tokens.
    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        Err(IamError::Unreadable("no logout tokens are read".into()))
    }

    /// Tests whether the IAM would serve this gateway now. Cheap, changes nothing, and verifies the
    /// gateway's own credentials if the IAM allows that.
    ///
    /// # Errors
    ///
    /// The fault that the next call would return.
    async fn probe(&self) -> Result<(), IamError>;

    /// Tests whether the IAM could end a session, by one that does not exist. Finds only what makes every
    /// logout fail for certain, and nothing, as by default, if no setting could be the cause. For
    /// `check --online`: an IAM that does not respond well to it may still end sessions.
    ///
    /// # Errors
    ///
    /// What was found, and the setting to check.
    async fn probe_logout(&self) -> Result<(), IamError> {
        Ok(())
    }
}

/// The adapter as its own type; `None`: it is of another type.
pub(crate) fn downcast<A: IamAdapter>(adapter: &Arc<dyn IamAdapter>) -> Option<&A> {
    let adapter: &dyn Any = &**adapter;
    adapter.downcast_ref()
}
