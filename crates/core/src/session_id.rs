//! The ids of sessions.

use std::fmt;

use base64::Engine as _;

use crate::base64url::BASE64;
use crate::error::Internal;
use crate::random::Random;

/// The id of a session: 128 random bits, made at login.
///
/// It is no secret: alone it gives nothing, and access tokens have it as `sid`. Its `Debug` form hides it because
/// it would connect lines of the log with a session, for which the audit log has a keyed hash.
#[derive(Clone, Copy, derive_more::Debug, PartialEq, Eq, Hash)]
#[debug("SessionId([REDACTED])")]
pub struct SessionId([u8; 16]);

impl SessionId {
    /// The id of [`DummySession`](super::session::DummySession). Ids are random, so no session has it.
    pub(crate) const DUMMY: Self = Self([0; 16]);

    /// A new id.
    ///
    /// # Errors
    ///
    /// [`Internal::Random`] if the system has no random numbers.
    pub fn generate(random: &dyn Random) -> Result<Self, Internal> {
        let mut bytes = [0; 16];
        random.fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Reads the text form: 22 characters of base64url (RFC 4648 section 5), unpadded. An id has one
    /// text, so two of them can be compared instead of the ids.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        // 22 characters are 16 bytes and 4 bits; the decoder refuses those bits unless they are 0.
        let length = BASE64.decode_slice(text, &mut bytes).ok()?;
        (length == bytes.len()).then_some(Self(bytes))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(self.0))
    }
}
