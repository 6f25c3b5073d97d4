//! Sessions: the id and the session token that a client holds.
//!
//! A session token is a compact JWE, `dir` with `A256GCM` (RFC 7516, RFC 7518), made with aws-lc
//! and without a JOSE library: each key has exactly one protected header, compared as bytes. So no
//! header is ever interpreted, and `zip`, `crit`, `jku` and the like have no effect.

use std::hint::black_box;
use std::sync::Arc;

use aws_lc_rs::aead::{Aad, NONCE_LEN, Nonce};
use base64::Engine as _;
use iam_adapters::{Moment, UpstreamSession};
use secrecy::ExposeSecret as _;
use serde_json::json;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::error::{GatewayError, Internal, InvalidSession};
use super::iams::{Iam, Iams};
use super::keys::{DerivedFrom, Key as _, KeySet, KeyStore, SealingKey};
use super::revocations::{Cause, Revocation, RevocationId, RevocationKey, SessionRevocationIds};
use crate::base64url::BASE64;
use crate::random::Random;
use crate::replica_state::ReplicaState;
use crate::sealed_session::{FORMAT, SealedSession};
use crate::session_id::SessionId;
use crate::timeline::DIFFERENCE_MAX;

/// A session whose id and token match.
pub(super) struct OpenedSession<'g, 'b> {
    pub(super) session: SealedSession<'b>,
    /// The JSON text of the session.
    pub(super) content: &'b [u8],
    pub(super) iam: &'g Iam,
    pub(super) id: SessionId,
    key: Arc<RevocationKey>,
    /// When it expires at a replica with the settings of its beginning, in seconds since 1970.
    sealed_exp: u64,
}

impl OpenedSession<'_, '_> {
    /// The ids of the revocations that may end it.
    pub(super) fn revocation_ids(&self) -> SessionRevocationIds<'_> {
        SessionRevocationIds::new(&self.key, self.id, &self.session)
    }

    pub(super) fn revocation(&self, cause: Cause) -> Revocation {
        Revocation::of_session(self.key.session(self.id), cause, self.sealed_exp)
    }
}

/// Seals session tokens, and opens the pair of session id and session token that a client sends.
pub(super) struct SessionTokens {
    iams: Arc<Iams>,
    replica: Arc<ReplicaState>,
    dummy: DummySession,
}

impl SessionTokens {
    pub(super) fn new(iams: Arc<Iams>, replica: Arc<ReplicaState>) -> Self {
        Self {
            dummy: DummySession::of(&iams),
            iams,
            replica,
        }
    }

    /// The session token of a session whose credentials were sent to the IAM at `requested_at`, and the
    /// content of the token.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Internal`].
    pub(super) fn seal(
        &self,
        iam: &Iam,
        id: SessionId,
        upstream: &UpstreamSession,
        requested_at: Moment,
        expires_at: u64,
    ) -> Result<(String, Zeroizing<Vec<u8>>), GatewayError> {
        let session = SealedSession {
            v: FORMAT,
            sid: id.to_string().into(),
            iam: iam.kind.into(),
            iss: (&*iam.issuer).into(),
            sub: upstream.subject.as_str().into(),
            usid: upstream.id.as_str().into(),
            secret: upstream.secret.expose_secret().into(),
            iat: self.replica.timeline.beginning_at(requested_at),
            exp: expires_at,
        };
        let keys = self.replica.keys.sealing.key_set();
        seal(&keys, &session, requested_at, &*self.replica.random)
    }

    /// The id of the revocation of a session that was sealed at `sealed_at`.
    pub(super) fn revocation_id(&self, id: SessionId, sealed_at: Moment) -> RevocationId {
        let keys = self.replica.keys.sealing.key_set();
        RevocationKey::of(keys.current(sealed_at)).session(id)
    }

    /// Opens the pair into `buffer`, and verifies it, except for the expiry.
    ///
    /// # Errors
    ///
    /// [`GatewayError::InvalidSession`], or [`GatewayError::Internal`] if the key may be one that this
    /// replica could not read.
    pub(super) fn open<'g, 'b>(
        &'g self,
        session_id: &str,
        session_token: &str,
        buffer: &'b mut Zeroizing<Vec<u8>>,
    ) -> Result<OpenedSession<'g, 'b>, GatewayError> {
        let (mut session, content, key) =
            open_from(&self.replica.keys.sealing, session_token, buffer)
                .inspect_err(|error| self.simulate_opening(error, session_id, session_token))?;
        let (id, iam) = self
            .matching(&session, session_id)
            .inspect_err(|_| self.simulate_look_up(&key, &session))?;
        // A shorter lifetime in the settings has an effect on sessions from before. Revocations that do not know the expiry
        // are kept for this long.
        let longest = iam.policy.session_max_lifetime + DIFFERENCE_MAX;
        let sealed_exp = session.exp;
        let latest = (session.iat / 1_000).saturating_add(longest.as_secs());
        session.exp = sealed_exp.min(latest);
        Ok(OpenedSession {
            session,
            content,
            iam,
            id,
            key,
            sealed_exp,
        })
    }

    /// The id of the session, if it is the one that the client sent, and the IAM of the session.
    fn matching(
        &self,
        session: &SealedSession<'_>,
        session_id: &str,
    ) -> Result<(SessionId, &Iam), InvalidSession> {
        tracing::trace!("compare the session id");
        let id = SessionId::parse(&session.sid).ok_or(InvalidSession::Malformed)?;
        // In constant time.
        if !bool::from(session.sid.as_bytes().ct_eq(session_id.as_bytes())) {
            return Err(InvalidSession::Mismatch);
        }
        let iam = self.iams.for_session(&session.iam, &session.iss);
        Ok((id, iam.ok_or(InvalidSession::Foreign)?))
    }

    /// Does the work of the steps that a refused token skips, so that the time does not show which
    /// step refused it. A fault may take any time.
    ///
    /// A token that opens and has malformed content is treated as one that does not open: only a
    /// holder of the key can make it.
    #[cold]
    fn simulate_opening(&self, error: &GatewayError, session_id: &str, session_token: &str) {
        let GatewayError::InvalidSession(refused) = *error else {
            return;
        };
        let keys = self.replica.keys.sealing.key_set();
        let key = keys.current(self.replica.clock.now());
        if refused != InvalidSession::Tampered {
            simulate_unseal(key, session_token.len());
        }
        if let Ok(session) = read(black_box(&self.dummy.0)) {
            let _ = black_box(self.matching(&session, session_id));
            self.simulate_look_up(RevocationKey::of(key), &session);
        }
    }

    /// Looks up the revocations of a session that is refused in any case.
    #[cold]
    fn simulate_look_up(&self, key: &RevocationKey, session: &SealedSession<'_>) {
        let ids = SessionRevocationIds::new(key, SessionId::DUMMY, session);
        let _ = black_box(self.replica.revocations.cause_of(&ids));
    }
}

/// Has the length of most IAMs' ids.
const DUMMY_ID: &str = "00000000-0000-0000-0000-000000000000";

/// The content of a session token, used in place of that of a token that does not open: the time of a
/// refusal must not show which step refused.
///
/// It is not used for valid sessions. Even with it, an invalid session costs far less than a valid
/// one, which gets a signature.
struct DummySession(Vec<u8>);

impl DummySession {
    /// The content of a session of one of these IAMs.
    fn of(iams: &Iams) -> Self {
        let iam = iams.iter().next();
        let (kind, issuer) = iam.map_or(("", ""), |iam| (iam.kind, &iam.issuer));
        let session = json!({
            "v": FORMAT, "sid": SessionId::DUMMY.to_string(),
            "iam": kind, "iss": issuer,
            "sub": DUMMY_ID, "usid": DUMMY_ID, "secret": DUMMY_ID,
            "iat": 1_800_000_000_000_u64, "exp": 1_800_086_400,
        });
        Self(session.to_string().into_bytes())
    }
}

/// The longest session token, in bytes. Those of Keycloak have 1 to 2 KiB.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// The first part of the protected header of every key. Its length is a multiple of three, so the
/// headers have a common prefix in base64url too.
const HEADER: &str = r#"{"typ":"auth-gateway-session","alg":"dir","enc":"A256GCM","kid""#;

/// The tag's 16 bytes in base64url.
const TAG_TEXT_LEN: usize = 22;

/// The nonce's 12 bytes in base64url.
const NONCE_TEXT_LEN: usize = NONCE_LEN / 3 * 4;

/// Zeros in base64url.
const ZEROS: &str = match str::from_utf8(&[b'A'; TOKEN_BYTES_MAX]) {
    Ok(zeros) => zeros,
    Err(_) => "",
};

/// The length of the content, in base64url, that is assumed of a shorter token.
const TEXT_LEN_MIN: usize = 512;

/// The protected header of the session tokens of a key, in base64url. It is authenticated with the
/// content, so a token for another purpose under the same key does not open.
struct ProtectedHeader(String);

impl DerivedFrom<SealingKey> for ProtectedHeader {
    fn derived_from(key: &SealingKey) -> Self {
        Self(BASE64.encode(format!(r#"{HEADER}:"{}"}}"#, key.kid())))
    }
}

/// The header of the tokens of a key, in base64url.
fn header_of(key: &SealingKey) -> &str {
    let ProtectedHeader(header) = &**key.derived();
    header
}

fn unseal<'b>(
    key: &SealingKey,
    parts: &TokenParts<'_>,
    buffer: &'b mut Zeroizing<Vec<u8>>,
) -> Result<&'b [u8], InvalidSession> {
    let TokenParts { nonce, text, tag } = parts;
    let mut nonce_bytes = [0; NONCE_LEN];
    if BASE64
        .decode_slice(nonce, &mut nonce_bytes)
        .map_err(|_| InvalidSession::Malformed)?
        != NONCE_LEN
    {
        return Err(InvalidSession::Malformed);
    }
    // One allocation that never grows: growing would leave a copy that is not wiped.
    buffer.reserve_exact((text.len() + tag.len()) / 4 * 3 + 8);
    BASE64
        .decode_vec(text, buffer)
        .and_then(|()| BASE64.decode_vec(tag, buffer))
        .map_err(|_| InvalidSession::Malformed)?;
    tracing::trace!(bytes = buffer.len(), "open the session token");
    key.aead()
        .open_in_place(
            Nonce::assume_unique_for_key(nonce_bytes),
            Aad::from(header_of(key).as_bytes()),
            buffer,
        )
        .map(|plain| &*plain)
        .map_err(|_| InvalidSession::Tampered)
}

/// Does the work of opening a token of this length, without a result.
fn simulate_unseal(key: &SealingKey, token_len: usize) {
    let dots = 4;
    let frame = header_of(key).len() + NONCE_TEXT_LEN + TAG_TEXT_LEN + dots;
    let length = token_len.saturating_sub(frame);
    let length = length.clamp(TEXT_LEN_MIN, TOKEN_BYTES_MAX);
    // No base64url text is one character longer than a multiple of four.
    let length = length - usize::from(length % 4 == 1);
    let zeros = |length| ZEROS.get(..length).unwrap_or(ZEROS);
    let parts = TokenParts {
        nonce: zeros(NONCE_TEXT_LEN),
        text: zeros(length),
        tag: zeros(TAG_TEXT_LEN),
    };
    let mut buffer = Zeroizing::default();
    let _ = black_box(unseal(key, black_box(&parts), &mut buffer));
}

/// The encrypted and authenticated parts of a token, each in base64url.
struct TokenParts<'t> {
    nonce: &'t str,
    text: &'t str,
    tag: &'t str,
}

/// Seals a session with the key in use. Returns the session token and its content.
///
/// # Errors
///
/// [`GatewayError::Internal`]: no random numbers, or a session that is too large.
pub fn seal(
    keys: &KeySet<SealingKey>,
    session: &SealedSession<'_>,
    now: Moment,
    random: &dyn Random,
) -> Result<(String, Zeroizing<Vec<u8>>), GatewayError> {
    // It never grows, as in `unseal`: a text that needs more makes a token that is refused.
    let mut content = Zeroizing::new(Vec::with_capacity(TOKEN_BYTES_MAX));
    serde_json::to_writer(&mut *content, session)
        .map_err(|_| GatewayError::Internal(Internal::Encoding))?;
    let mut text = content.clone();
    let key = keys.current(now);
    let mut nonce = [0; NONCE_LEN];
    random.fill(&mut nonce)?;
    let header = header_of(key);
    let tag = key
        .aead()
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(header.as_bytes()),
            &mut text,
        )
        .map_err(|_| GatewayError::Internal(Internal::Encoding))?;
    let token = format!(
        "{header}..{}.{}.{}",
        BASE64.encode(nonce),
        BASE64.encode(&*text),
        BASE64.encode(tag)
    );
    if token.len() > TOKEN_BYTES_MAX {
        return Err(GatewayError::Internal(Internal::SessionTooLarge));
    }
    Ok((token, content))
}

/// Opens a session token into `buffer`, from which the session borrows.
///
/// The seal proves the origin of the content, not its validity: the caller checks every member.
///
/// # Errors
///
/// [`InvalidSession`], for the log. A client gets the same response for all of them.
pub fn open<'b>(
    keys: &KeySet<SealingKey>,
    token: &str,
    buffer: &'b mut Zeroizing<Vec<u8>>,
) -> Result<SealedSession<'b>, InvalidSession> {
    unseal_with_key(keys, token, buffer).and_then(|(content, _)| read(content))
}

/// The content of a session token, and its key.
fn unseal_with_key<'k, 'b>(
    keys: &'k KeySet<SealingKey>,
    token: &str,
    buffer: &'b mut Zeroizing<Vec<u8>>,
) -> Result<(&'b [u8], &'k SealingKey), InvalidSession> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(InvalidSession::Malformed);
    }
    let (header, parts) = split(token).ok_or(InvalidSession::Malformed)?;
    // Only opening proves that it is this key.
    let key = keys.iter().find(|key| header_of(key) == header);
    let key = key.ok_or(InvalidSession::UnknownKey)?;
    Ok((unseal(key, &parts, buffer)?, key))
}

/// The protected header of a token, and its other parts. A dot in one of them is no base64url.
fn split(token: &str) -> Option<(&str, TokenParts<'_>)> {
    let (header, rest) = token.split_once('.')?;
    // There is no encrypted key.
    let (nonce, rest) = rest.strip_prefix('.')?.split_at_checked(NONCE_TEXT_LEN)?;
    // Text and tag are opened as one slice. If the tag could have any length, the same session would
    // have many tokens, one for each place to split that slice.
    let (rest, tag) = rest.split_at_checked(rest.len().checked_sub(TAG_TEXT_LEN)?)?;
    let text = rest.strip_prefix('.')?.strip_suffix('.')?;
    Some((header, TokenParts { nonce, text, tag }))
}

/// Opens a session token as [`open`] does, and returns its content and the revocation key of its sealing
/// key too. If the key is unknown and the folder of keys cannot be read, the token may be valid at another
/// replica. That is a fault, not a refusal.
///
/// # Errors
///
/// [`GatewayError::InvalidSession`], or [`Internal::KeysUnreadable`].
fn open_from<'b>(
    keys: &KeyStore<SealingKey>,
    token: &str,
    buffer: &'b mut Zeroizing<Vec<u8>>,
) -> Result<(SealedSession<'b>, &'b [u8], Arc<RevocationKey>), GatewayError> {
    let key_set = keys.key_set();
    let (content, key) = unseal_with_key(&key_set, token, buffer).map_err(|refused| {
        let is_session_token = || token.starts_with(&BASE64.encode(HEADER));
        if refused == InvalidSession::UnknownKey && keys.problem().is_some() && is_session_token() {
            return GatewayError::from(Internal::KeysUnreadable);
        }
        refused.into()
    })?;
    Ok((read(content)?, content, Arc::clone(RevocationKey::of(key))))
}

/// The session in an opened token.
///
/// # Errors
///
/// [`InvalidSession::Malformed`].
fn read(plain: &[u8]) -> Result<SealedSession<'_>, InvalidSession> {
    tracing::trace!("read the session");
    // At once, which is faster than each string by itself.
    let text = std::str::from_utf8(plain).map_err(|_| InvalidSession::Malformed)?;
    let session: SealedSession<'_> =
        serde_json::from_str(text).map_err(|_| InvalidSession::Malformed)?;
    if session.v != FORMAT {
        return Err(InvalidSession::Malformed);
    }
    Ok(session)
}

#[cfg(test)]
mod tests;
