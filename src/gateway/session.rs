//! A session: its id, the token that carries it under a seal, and the pair of both that a client
//! sends back.

use std::borrow::Cow;
use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use base64::Engine as _;
use iam_adapters::{Clock, IamAdapter, Moment, Subject, UpstreamSession};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::json;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::Random;
use super::error::{GatewayError, Internal, InvalidSession};
use super::keys::Keys;
use super::revocations::{End, Revocation, RevocationKey, Revocations, SessionNames};
use super::{BASE64, seal};

/// The version of [`SealedSession`]'s shape. Another shape gets another number, and an old
/// session is then refused instead of misread.
pub const FORMAT: u8 = 1;

/// A session's name: 128 random bits, chosen here at each login and nowhere else.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId([u8; 16]);

impl SessionId {
    /// The id of [`ConstantTimeFallback`]. Ids are random, so no session has it.
    pub(super) const FALLBACK: Self = Self([0; 16]);

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

/// A session whose id and token match.
pub(super) struct OpenedSession<'b> {
    pub(super) session: SealedSession<'b>,
    id: SessionId,
    key: Arc<RevocationKey>,
}

impl OpenedSession<'_> {
    /// The names under which its end may be recorded.
    pub(super) fn names(&self) -> SessionNames<'_> {
        SessionNames::new(&self.key, self.id, &self.session)
    }

    /// The revocation of this session.
    pub(super) fn revocation(&self, end: End) -> Revocation {
        Revocation::of_session(self.key.session(self.id), end, self.session.exp)
    }
}

/// Makes session tokens, and opens the pair of id and token that a client sends.
pub(super) struct SessionTokens {
    /// The name of the adapter and the issuer of the IAM, which do not change.
    pub(super) adapter: &'static str,
    pub(super) issuer: String,
    pub(super) keys: Arc<Keys>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    pub(super) revocations: Arc<Revocations>,
    pub(super) fallback: ConstantTimeFallback,
}

impl SessionTokens {
    /// The token of a session whose credentials were sent to the IAM at `asked_at`.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Internal`].
    pub(super) fn seal(
        &self,
        id: SessionId,
        upstream: &UpstreamSession,
        asked_at: Moment,
        expires_at: u64,
    ) -> Result<String, GatewayError> {
        let session = SealedSession {
            v: FORMAT,
            sid: id.to_string().into(),
            iam: self.adapter.into(),
            iss: self.issuer.as_str().into(),
            sub: upstream.subject.as_str().into(),
            usid: upstream.id.as_str().into(),
            secret: upstream.secret.expose_secret().into(),
            iat: asked_at.unix_seconds(),
            exp: expires_at,
        };
        let keys = self.keys.sealing.key_set();
        seal::seal(&keys, &session, asked_at, &*self.random)
    }

    /// Opens the pair into `buffer`, and verifies all of it but the time.
    ///
    /// # Errors
    ///
    /// [`GatewayError::InvalidSession`], or [`GatewayError::Internal`] where the key may be one
    /// that this replica could not read.
    pub(super) fn open<'b>(
        &self,
        session_id: &str,
        session_token: &str,
        buffer: &'b mut Zeroizing<Vec<u8>>,
    ) -> Result<OpenedSession<'b>, GatewayError> {
        let (session, key) = seal::open_from(&self.keys.sealing, session_token, buffer)
            .inspect_err(|error| self.spend_time_of_opening(error, session_id, session_token))?;
        let id = self
            .matching_id(&session, session_id)
            .inspect_err(|_| self.spend_time_of_look_up(&key, &session))?;
        Ok(OpenedSession { session, id, key })
    }

    /// The id of the session, where it is the one that the client sent and the session is of this
    /// IAM.
    fn matching_id(
        &self,
        session: &SealedSession<'_>,
        session_id: &str,
    ) -> Result<SessionId, InvalidSession> {
        #[cfg(test)]
        super::tests::work::did(super::tests::work::Step::Compared);
        let id = SessionId::parse(&session.sid).ok_or(InvalidSession::Malformed)?;
        if !id.is(session_id) {
            return Err(InvalidSession::Mismatch);
        }
        if session.iam != self.adapter || session.iss != self.issuer {
            return Err(InvalidSession::Foreign);
        }
        Ok(id)
    }

    /// Does for a refused token what the steps after the refusal would have cost. A fault is not a
    /// refusal, and takes any time.
    ///
    /// A token that opens and has malformed content counts as one that does not open: only who has
    /// the key can make it.
    #[cold]
    fn spend_time_of_opening(&self, error: &GatewayError, session_id: &str, session_token: &str) {
        let GatewayError::InvalidSession(refused) = *error else {
            return;
        };
        let keys = self.keys.sealing.key_set();
        let key = keys.current(self.clock.now());
        if refused != InvalidSession::Tampered {
            key.unseal_in_vain(session_token.len());
        }
        if let Ok(session) = seal::read(black_box(&self.fallback.0)) {
            let _ = black_box(self.matching_id(&session, session_id));
            self.spend_time_of_look_up(key.revocations(), &session);
        }
    }

    /// Looks up the end of a session that is refused in any case.
    #[cold]
    fn spend_time_of_look_up(&self, key: &RevocationKey, session: &SealedSession<'_>) {
        let mut names = SessionNames::new(key, SessionId::FALLBACK, session);
        let _ = black_box(self.revocations.end_of(&mut names));
    }
}

/// As long as the ids of most IAMs are.
const FALLBACK_ID: &str = "00000000-0000-0000-0000-000000000000";

/// A session, as opening a token yields it, that stands for the one in a token that does not open:
/// the time of a refusal must not show which step refused.
///
/// Nothing of this runs for a valid session. An invalid one costs far less than a valid one, which
/// gets a signature as well.
pub(super) struct ConstantTimeFallback(Vec<u8>);

impl ConstantTimeFallback {
    /// A session of this IAM.
    pub(super) fn of(iam: &dyn IamAdapter) -> Self {
        let session = json!({
            "v": FORMAT, "sid": SessionId::FALLBACK.to_string(),
            "iam": iam.name(), "iss": iam.issuer(),
            "sub": FALLBACK_ID, "usid": FALLBACK_ID, "secret": FALLBACK_ID,
            "iat": 1_800_000_000, "exp": 1_800_086_400,
        });
        Self(session.to_string().into_bytes())
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
