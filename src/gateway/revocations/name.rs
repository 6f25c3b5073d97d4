//! What an end is called: a keyed hash, so that a name tells nobody whose session ended, and
//! nobody without the key can guess one.
//!
//! The key comes from the key that sealed the session. So replicas that open each other's sessions
//! agree on the names with no further secret between them.

use std::fmt;

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hkdf, hmac};
use base64::Engine as _;

use super::super::BASE64;
use super::super::session::{SealedSession, SessionId};
use super::Kind;
#[cfg(test)]
use crate::gateway::tests::work::{Step, did};

/// Sets these keys apart from whatever else may ever be derived from a sealing key (RFC 5869).
const PURPOSE: &[u8] = b"auth-gateway names of revocations 1";

/// Half of HMAC-SHA256: nobody makes two of these alike, or one that hits another's.
const NAME_LEN: usize = 16;

/// The name of an end.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name([u8; NAME_LEN]);

impl Name {
    /// Reads what [`Name::encode`] wrote.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let mut bits = [0; NAME_LEN];
        let length = BASE64.decode_slice(text, &mut bits).ok()?;
        (length == bits.len()).then_some(Self(bits))
    }

    /// The name as 22 characters of base64url (RFC 4648 section 5), unpadded.
    #[must_use]
    pub fn encode(&self) -> String {
        BASE64.encode(self.0)
    }
}

/// Whoever can read a log should not be able to follow one session through it.
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Name([REDACTED])")
    }
}

/// What makes names for the sessions that one sealing key sealed.
#[derive(Clone)]
pub struct RevocationKey(hmac::Key);

impl RevocationKey {
    /// Derives the key from the sealing key's secret bytes.
    ///
    /// # Errors
    ///
    /// [`Unspecified`] where the library fails; no secret makes it do so.
    pub fn derive(sealing_secret: &[u8]) -> Result<Self, Unspecified> {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]);
        let derived = salt.extract(sealing_secret);
        let derived = derived.expand(&[PURPOSE], hmac::HMAC_SHA256)?;
        Ok(Self(derived.into()))
    }

    /// The name of one session of ours.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Name {
        self.name(Kind::Session, [id.as_bytes()])
    }

    /// The name of a session of the IAM's, by the IAM's own id of it.
    #[must_use]
    pub fn upstream_session(&self, adapter: &str, issuer: &str, id: &str) -> Name {
        let parts = [adapter, issuer, id].map(str::as_bytes);
        self.name(Kind::UpstreamSession, parts)
    }

    /// The name of everything that one subject has.
    #[must_use]
    pub fn subject(&self, adapter: &str, issuer: &str, subject: &str) -> Name {
        let parts = [adapter, issuer, subject].map(str::as_bytes);
        self.name(Kind::Subject, parts)
    }

    /// Each part after its length, all of them after the kind: no two things have one name.
    fn name<const N: usize>(&self, kind: Kind, parts: [&[u8]; N]) -> Name {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&[kind.tag()]);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let tag = context.sign();
        let mut name = [0; NAME_LEN];
        name.iter_mut()
            .zip(tag.as_ref())
            .for_each(|(to, from)| *to = *from);
        Name(name)
    }
}

impl fmt::Debug for RevocationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RevocationKey([REDACTED])")
    }
}

/// The names under which a session may have ended, each made when it is first needed.
pub struct SessionNames<'s> {
    key: &'s RevocationKey,
    id: SessionId,
    session: &'s SealedSession<'s>,
    made: [Option<Name>; Kind::ALL.len()],
    /// How many ends had been recorded when none of them was this session's.
    pub(super) none_of: u64,
}

impl<'s> SessionNames<'s> {
    /// The names of a session that was opened with the sealing key from which `key` comes.
    #[must_use]
    pub fn new(key: &'s RevocationKey, id: SessionId, session: &'s SealedSession<'s>) -> Self {
        Self {
            key,
            id,
            session,
            made: [None; Kind::ALL.len()],
            none_of: 0,
        }
    }

    /// When the session's login began, in seconds since 1970.
    pub(super) fn begun_at(&self) -> u64 {
        self.session.iat
    }

    pub(super) fn of(&mut self, kind: Kind) -> Name {
        if let Some(Some(name)) = self.made.get(kind as usize) {
            return *name;
        }
        #[cfg(test)]
        did(Step::Named(kind));
        let session = self.session;
        let name = match kind {
            Kind::Session => self.key.session(self.id),
            Kind::UpstreamSession => {
                self.key
                    .upstream_session(&session.iam, &session.iss, &session.usid)
            }
            Kind::Subject => self.key.subject(&session.iam, &session.iss, &session.sub),
        };
        if let Some(made) = self.made.get_mut(kind as usize) {
            *made = Some(name);
        }
        name
    }
}
