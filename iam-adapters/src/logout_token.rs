//! Logout tokens: the IAM's own word that a session, or all sessions of a user, ended (OpenID
//! Connect Back-Channel Logout 1.0).
//!
//! Anybody may send anything and call it a logout token. So nothing that one says is read before
//! its signature is verified, by a key that the IAM itself publishes and with the one algorithm
//! that this key is for; and nothing that one says chooses where a key comes from.

mod claims;
mod error;
mod jwk;
mod jws;
mod key_cache;
mod taken;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::adapter::IamAdapter;
use crate::clock::Clock;
use crate::types::Subject;

pub use claims::{AGE_MAX, SKEW_MAX};
pub use error::{InvalidLogoutToken, LogoutTokenError};
pub use jwk::{NoKeys, VerificationKeys};

use jws::Jws;
use key_cache::KeyCache;
use taken::{Taken, TokenId};

/// The longest logout token that is looked at, in bytes. Keycloak's have some 800.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// What ended at the IAM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The one session of this id (`sid`). Where the token names a subject beside it, that says
    /// no more: the id alone is one session's.
    Session(String),
    /// Every session that this user had (`sub` without `sid`).
    AllOf(Subject),
}

/// What a logout token says, now that it is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoutNotice {
    /// What ended.
    pub ended: Ended,
    /// When the IAM issued it, in seconds since 1970 by the IAM's clock (`iat`).
    pub issued_at: u64,
    id: TokenId,
}

/// Verifies the logout tokens of one IAM.
pub struct LogoutTokens {
    iam: Arc<dyn IamAdapter>,
    audience: String,
    clock: Arc<dyn Clock>,
    keys: Arc<KeyCache>,
    taken: Mutex<Taken>,
}

impl LogoutTokens {
    /// For the tokens of this IAM, which shall be guarded already; none where it sends none.
    pub fn of(iam: Arc<dyn IamAdapter>, clock: Arc<dyn Clock>) -> Option<Self> {
        let audience = iam.logout_audience()?.to_owned();
        Some(Self {
            keys: Arc::new(KeyCache::new(Arc::clone(&iam), Arc::clone(&clock))),
            iam,
            audience,
            clock,
            taken: Mutex::default(),
        })
    }

    /// Verifies a token (section 2.6). As a rule that asks nobody: the IAM's keys are kept for a
    /// while, and are asked for again, seldom, where a token names one that is not among them.
    ///
    /// # Errors
    ///
    /// [`LogoutTokenError::Invalid`] where the token is not good, and never will be;
    /// [`LogoutTokenError::NoKeys`] where that cannot be told now.
    pub async fn verify(&self, token: &str) -> Result<LogoutNotice, LogoutTokenError> {
        let jws = Jws::parse(token)?;
        let keys = self.keys.with(&jws.key_id).await?;
        let claims = jws.verify(&keys)?;
        let now = self.clock.now();
        let notice = claims::check(&claims, self.iam.issuer(), &self.audience, now)?;
        let known = self.taken().knows(&notice.id, now);
        if known {
            return Err(InvalidLogoutToken::Replayed.into());
        }
        Ok(notice)
    }

    /// Takes note that a notice was acted on, so that its token is not accepted again. Not sooner:
    /// an IAM whose notice met a fault here has to be able to repeat it.
    pub fn take(&self, notice: &LogoutNotice) {
        self.taken().note(notice.id, self.clock.now());
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LogoutTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogoutTokens")
            .field("iam", &self.iam)
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
