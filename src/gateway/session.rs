//! A session: its id, and what its token carries under the seal.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use iam_adapters::{IamAdapter, Moment, Subject, UpstreamSession};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use tracing::Instrument as _;

use super::BASE64;
use super::error::Internal;
use super::random::Random;

/// The version of [`SealedSession`]'s shape. Another shape gets another number, and an old
/// session is then refused instead of misread.
pub const FORMAT: u8 = 1;

/// A session's name: 128 random bits, chosen here at each login and nowhere else.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId([u8; 16]);

impl SessionId {
    /// What stands for an id where there is no session. None was ever given it: ids are random.
    pub(super) const NOBODYS: Self = Self([0; 16]);

    /// Makes a new one.
    ///
    /// # Errors
    ///
    /// [`Internal::Random`] where the machine gives no random numbers.
    pub fn generate(random: &dyn Random) -> Result<Self, Internal> {
        let mut bytes = [0; 16];
        random.fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Reads the text form: 22 characters of base64url (RFC 4648 section 5), unpadded.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        // 22 characters are 16 bytes and 4 bits; the decoder refuses bits that say nothing.
        let length = BASE64.decode_slice(text, &mut bytes).ok()?;
        (length == bytes.len()).then_some(Self(bytes))
    }

    /// The bits themselves, for whoever makes another name of them.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether a text that a client sent names this session, in constant time.
    #[must_use]
    pub fn is(self, text: &str) -> bool {
        Self::parse(text).is_some_and(|other| self.0.ct_eq(&other.0).into())
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(self.0))
    }
}

/// A session id is half of what opens a session: no log shows it.
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId([REDACTED])")
    }
}

/// A session as login hands it out.
#[derive(Debug)]
pub struct NewSession {
    /// Whose it is.
    pub subject: Subject,
    /// Its id.
    pub session_id: SessionId,
    /// What proves its possession.
    pub session_token: SecretString,
    /// When the credentials were verified, in seconds since 1970.
    pub verified_at: u64,
    /// When it expires, in seconds since 1970.
    pub expires_at: u64,
}

/// Ends a session at the IAM that no client will ever hold. The client waits for an answer, and not
/// for this.
pub(super) fn abandon(iam: &Arc<dyn IamAdapter>, upstream: &UpstreamSession) {
    let (iam, upstream) = (Arc::clone(iam), upstream.clone());
    let end = async move {
        if let Err(error) = iam.end_session(&upstream).await {
            tracing::warn!(%error, "could not end the IAM session of a failed login");
        }
    };
    tokio::spawn(end.in_current_span());
}

/// What the session token carries. Any replica with the sealing key needs no more than this;
/// nothing in it proves that the session is still alive.
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
    /// The IAM's id of its own session.
    #[serde(borrow)]
    pub usid: Cow<'a, str>,
    /// What proves that session to the IAM.
    #[serde(borrow)]
    pub secret: Cow<'a, str>,
    /// When the login began: when the credentials were sent to the IAM, in seconds since 1970. The
    /// IAM may have verified them at any time from then on, so a logout token for the subject that
    /// arrives later ends this session too.
    pub iat: u64,
    /// When the session expires, in seconds since 1970.
    pub exp: u64,
}

impl SealedSession<'_> {
    /// Whether its time is over: at `exp` it already is.
    #[must_use]
    pub fn has_expired(&self, now: Moment) -> bool {
        now.unix_seconds() >= self.exp
    }

    /// The IAM's own session, for a call to the adapter; none where the subject is empty.
    #[must_use]
    pub fn upstream(&self) -> Option<UpstreamSession> {
        Some(UpstreamSession {
            subject: Subject::new(&*self.sub)?,
            id: self.usid.clone().into_owned(),
            secret: self.secret.clone().into_owned().into(),
        })
    }
}

impl fmt::Debug for SealedSession<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedSession")
            .field("sub", &self.sub)
            .field("exp", &self.exp)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use aws_lc_rs::rand::SystemRandom;

    use super::*;

    #[test]
    fn a_session_id_is_22_characters_and_never_the_same() {
        const MANY: usize = 1_000_000;
        let random = SystemRandom::new();
        let ids: HashSet<_> = (0..MANY)
            .map(|_| SessionId::generate(&random).unwrap())
            .collect();
        assert_eq!(ids.len(), MANY);
        assert!(ids.iter().take(1_000).all(|id| id.to_string().len() == 22));
    }

    #[test]
    fn only_the_one_text_form_names_a_session() {
        let id = SessionId([7; 16]);
        let text = id.to_string();
        assert!(id.is(&text));
        let other_last_bits = format!("{}x", &text[..21]);
        for wrong in [
            "",
            "A",
            &text[..21],
            &format!("{text}="),
            &format!(" {text}"),
            &other_last_bits,
        ] {
            assert!(!id.is(wrong), "{wrong:?}");
        }
        assert!(!SessionId([8; 16]).is(&text));
    }
}
