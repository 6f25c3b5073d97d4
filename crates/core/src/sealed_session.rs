//! The content of session tokens.

use std::borrow::Cow;

use iam_adapters::{Moment, Subject, UpstreamSession};
use serde::{Deserialize, Serialize};

/// The version of the format of [`SealedSession`]. Sessions in another format are refused.
pub const FORMAT: u8 = 2;

/// The content of a session token. It is all that a replica with the sealing key needs. It does not
/// prove that the session is still active.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedSession<'a> {
    /// [`FORMAT`].
    pub v: u8,
    /// The session id.
    #[serde(borrow)]
    pub sid: Cow<'a, str>,
    /// The adapter's name.
    #[serde(borrow)]
    pub iam: Cow<'a, str>,
    /// The issuer of the IAM.
    #[serde(borrow)]
    pub iss: Cow<'a, str>,
    /// The subject.
    #[serde(borrow)]
    pub sub: Cow<'a, str>,
    /// The IAM's id of its session.
    #[serde(borrow)]
    pub usid: Cow<'a, str>,
    /// The credential of that session at the IAM.
    #[serde(borrow)]
    pub secret: Cow<'a, str>,
    /// When the login began: when the credentials were sent to the IAM, in milliseconds since 1970, on
    /// the [`Timeline`](super::timeline::Timeline). The IAM may have verified them at any time from then on, so a logout token for
    /// the subject that arrives later ends this session too.
    pub iat: u64,
    /// When the session expires, in seconds since 1970.
    pub exp: u64,
}

impl SealedSession<'_> {
    /// Whether it has expired; at `exp` it has.
    #[must_use]
    pub fn has_expired(&self, now: Moment) -> bool {
        now.unix_seconds() >= self.exp
    }

    /// The IAM's session, for a call to the adapter; `None` if the subject is empty.
    #[must_use]
    pub fn upstream(&self) -> Option<UpstreamSession> {
        Some(UpstreamSession {
            subject: Subject::new(&*self.sub)?,
            id: self.usid.clone().into_owned(),
            secret: self.secret.clone().into_owned().into(),
        })
    }
}
