//! The contract: everything the gateway needs an IAM to be able to do.

use std::fmt;

use async_trait::async_trait;

use crate::error::IamError;
use crate::logout_token::VerificationKeys;
use crate::types::{Authenticated, ClientContext, Credentials, Introspection, UpstreamSession};

/// What an IAM can do, beyond the contract of every adapter. The conformance suite tests what an
/// adapter states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Where sessions exist.
    pub sessions: SessionLocation,
    /// Whether introspection reports the session of a disabled account as inactive.
    pub notices_disabled: bool,
    /// How old the permissions of an introspection are.
    pub permissions: PermissionAge,
    /// Whether the IAM sends logout tokens (OpenID Connect Back-Channel Logout 1.0).
    pub back_channel_logout: bool,
}

/// Where the sessions of an IAM exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionLocation {
    /// At the IAM: it can end one, and introspection notices that.
    Iam,
    /// In the gateway's session token alone. The IAM can neither end a session nor know of one;
    /// only the gateway's revocations end it early.
    SessionToken,
}

/// How old the permissions of an introspection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionAge {
    /// They are those of now.
    Current,
    /// They are those of the login; a change takes effect at the next login.
    Login,
}

impl Capabilities {
    /// Those of an authorization server with sessions of its own, such as Keycloak.
    pub const FULL: Self = Self {
        sessions: SessionLocation::Iam,
        notices_disabled: true,
        permissions: PermissionAge::Current,
        back_channel_logout: true,
    };
}

/// In words, for operators.
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
        f.write_str(if self.notices_disabled {
            ", notices disabled accounts"
        } else {
            ", does not notice disabled accounts"
        })?;
        f.write_str(if self.back_channel_logout {
            ", back-channel logout"
        } else {
            ", no back-channel logout"
        })
    }
}

/// One kind of IAM, spoken to in its own language.
///
/// # What an adapter promises
///
/// * It translates and does not decide: no cache, no deadline, no retry, no limit. Those live in
///   [`Guarded`](crate::Guarded), once, around any adapter.
/// * A fault is never a refusal. [`IamError::Refused`] and [`Introspection::Inactive`] are said
///   only where the IAM itself said them, understood to the last member; whatever is unclear is
///   [`IamError::Unreadable`], and an IAM that rejects the gateway's own credentials is
///   [`IamError::Misconfigured`].
/// * Credentials reach the IAM byte for byte, and reach nothing else: no log, no error, no URL.
/// * A dropped future leaves nothing behind that harms the next call.
///
/// # What a wrapper must do
///
/// Forward every method. There are no default bodies, so that a wrapper which forgets one does
/// not compile.
///
/// The suite in the crate `iam-conformance` tests an adapter for this.
#[async_trait]
pub trait IamAdapter: fmt::Debug + Send + Sync + 'static {
    /// The adapter's name, as in the configuration (`keycloak`), the logs and the metrics.
    fn name(&self) -> &'static str;

    /// Which IAM this is, stable over restarts and equal on all replicas: a session made at one
    /// issuer is refused where another one is configured. For OIDC servers the `issuer` (RFC 8414
    /// section 2).
    fn issuer(&self) -> &str;

    /// What the IAM can do beyond this contract. Never changes.
    fn capabilities(&self) -> Capabilities;

    /// Verifies the credentials and begins a session at the IAM.
    ///
    /// Not idempotent: a wrapper never retries it, because a second wrong password may lock the
    /// account.
    ///
    /// # Errors
    ///
    /// [`IamError::Refused`] where the IAM says no to this user; any other variant is a fault.
    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError>;

    /// Asks whether the session is alive and what its user may do now (RFC 7662).
    ///
    /// Changes nothing at the IAM: it neither extends the session nor rotates its secrets, so it
    /// may be repeated at will.
    ///
    /// # Errors
    ///
    /// Faults only. "No longer alive" is an answer: [`Introspection::Inactive`].
    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError>;

    /// Ends the session at the IAM.
    ///
    /// Idempotent: a session that is already gone is a success.
    ///
    /// # Errors
    ///
    /// Faults only.
    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError>;

    /// Whom the IAM addresses its logout tokens to (`aud` in OpenID Connect Back-Channel Logout 1.0
    /// section 2.4): the gateway's own client id. None: it sends no such tokens.
    fn logout_audience(&self) -> Option<&str>;

    /// The public keys that verify what the IAM signs, logout tokens among it, as of now.
    ///
    /// Only [`LogoutTokens`](crate::logout_token::LogoutTokens) asks, and keeps them for a while.
    /// They come from where the configuration says, never from where a token says.
    ///
    /// # Errors
    ///
    /// Faults only; [`IamError::Unreadable`] where there is no key that can be used, and where
    /// the IAM sends no logout tokens.
    async fn verification_keys(&self) -> Result<VerificationKeys, IamError>;

    /// Tells whether the IAM would serve this gateway now. Cheap, changes nothing, and proves the
    /// gateway's own credentials where the IAM lets it.
    ///
    /// # Errors
    ///
    /// The fault that the next call would meet.
    async fn probe(&self) -> Result<(), IamError>;
}
