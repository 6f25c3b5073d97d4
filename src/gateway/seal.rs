//! The seal of a session token: compact JWE, `dir` with `A256GCM` (RFC 7516, RFC 7518), over
//! aws-lc, and nothing of JOSE that this does not need.
//!
//! Each key has exactly one protected header, compared as bytes. So no header is ever interpreted,
//! and `zip`, `crit`, `jku` and their kind have no way in.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{Digest, SHA256, digest};
use base64::Engine as _;
use iam_adapters::Moment;
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::BASE64;
use super::Random;
use super::error::{GatewayError, Internal, InvalidSession};
use super::keys::{Dated, Kept, KeyError, KeyFile, KeySet, KeyStore};
use super::revocations::RevocationKey;
use super::session::{FORMAT, SealedSession};
#[cfg(test)]
use super::tests::work::{Step, did};

/// The longest session token, in bytes. Keycloak's come to 1 to 2 KiB.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;

const KEY_LEN: usize = 32;

/// What the protected header of every key begins with. Its length is a multiple of three, so that
/// every header begins with the same text in base64url too.
const HEADER: &str = r#"{"typ":"auth-gateway-session","alg":"dir","enc":"A256GCM","kid""#;

/// The tag's 16 bytes in base64url.
const TAG_TEXT_LEN: usize = 22;

/// The nonce's 12 bytes in base64url.
const NONCE_TEXT_LEN: usize = NONCE_LEN / 3 * 4;

/// base64url for nothing but zeros, in any length that base64url has.
const ZEROS: &str = match str::from_utf8(&[b'A'; TOKEN_BYTES_MAX]) {
    Ok(zeros) => zeros,
    Err(_) => "",
};

/// The content's length, in base64url, that a token is taken for which is too short to be one.
const TEXT_LEN_MIN: usize = 512;

/// A key that seals and opens session tokens.
pub struct SealingKey {
    kid: String,
    first_use: Timestamp,
    key: LessSafeKey,
    /// The protected header in base64url. It is authenticated with the content, so a token made
    /// for another purpose under the same key does not open.
    header: String,
    /// By which a key that was read again is known to be the same.
    digest: Digest,
    revocations: Arc<RevocationKey>,
}

impl SealingKey {
    /// The `alg` of the JWK in the key's file. The token's header says `dir`, as RFC 7516 wants.
    pub const ALGORITHM: &'static str = "A256GCM";

    /// Takes the 32 secret bytes.
    ///
    /// # Errors
    ///
    /// [`KeyError::Invalid`] where there are more or fewer, or all are alike.
    pub fn new(secret: &[u8], kid: &str, first_use: Timestamp) -> Result<Self, KeyError> {
        let all_alike = secret.iter().all(|byte| Some(byte) == secret.first());
        if secret.len() != KEY_LEN || all_alike {
            return Err(KeyError::Invalid("k is not 32 random bytes"));
        }
        let key = UnboundKey::new(&AES_256_GCM, secret)
            .map_err(|_| KeyError::Invalid("not an A256GCM key"))?;
        let revocations = RevocationKey::derive(secret)
            .map_err(|_| KeyError::Invalid("no key can be derived from it"))?;
        let header = format!(r#"{HEADER}:"{kid}"}}"#);
        let key = Self {
            kid: kid.to_owned(),
            first_use,
            key: LessSafeKey::new(key),
            header: BASE64.encode(header),
            digest: digest(&SHA256, secret),
            revocations: Arc::new(revocations),
        };
        key.self_test()?;
        Ok(key)
    }

    /// Seals something and opens it again. Always the same text, so that the nonce may be.
    fn self_test(&self) -> Result<(), KeyError> {
        const TEXT: &[u8] = b"auth-gateway self-test";
        let nonce = || Nonce::assume_unique_for_key([0; NONCE_LEN]);
        let aad = || Aad::from(self.header.as_bytes());
        let mut text = TEXT.to_vec();
        self.key
            .seal_in_place_append_tag(nonce(), aad(), &mut text)
            .map_err(|_| KeyError::SelfTest)?;
        let opened = self.key.open_in_place(nonce(), aad(), &mut text);
        if opened.is_ok_and(|opened| opened == TEXT) {
            Ok(())
        } else {
            Err(KeyError::SelfTest)
        }
    }

    /// What names the ends of the sessions that this key sealed.
    #[must_use]
    pub fn revocations(&self) -> &Arc<RevocationKey> {
        &self.revocations
    }

    /// Opens the parts into `buffer`.
    fn unseal<'b>(
        &self,
        parts: &Parts<'_>,
        buffer: &'b mut Zeroizing<Vec<u8>>,
    ) -> Result<&'b [u8], InvalidSession> {
        let Parts { nonce, text, tag } = parts;
        let mut nonce_bytes = [0; NONCE_LEN];
        if BASE64
            .decode_slice(nonce, &mut nonce_bytes)
            .map_err(|_| InvalidSession::Malformed)?
            != NONCE_LEN
        {
            return Err(InvalidSession::Malformed);
        }
        // One allocation that never grows: growing would leave a copy behind that nobody wipes.
        buffer.reserve_exact((text.len() + tag.len()) / 4 * 3 + 8);
        BASE64
            .decode_vec(text, buffer)
            .and_then(|()| BASE64.decode_vec(tag, buffer))
            .map_err(|_| InvalidSession::Malformed)?;
        #[cfg(test)]
        did(Step::Unsealed(buffer.len()));
        self.key
            .open_in_place(
                Nonce::assume_unique_for_key(nonce_bytes),
                Aad::from(self.header.as_bytes()),
                buffer,
            )
            .map(|plain| &*plain)
            .map_err(|_| InvalidSession::Tampered)
    }

    /// Does what opening a token of this length takes, and brings nothing out.
    pub fn unseal_in_vain(&self, token_len: usize) {
        let dots = 4;
        let frame = self.header.len() + NONCE_TEXT_LEN + TAG_TEXT_LEN + dots;
        let length = token_len.saturating_sub(frame);
        let length = length.clamp(TEXT_LEN_MIN, TOKEN_BYTES_MAX);
        // No bytes are one character more than a multiple of four.
        let length = length - usize::from(length % 4 == 1);
        let zeros = |length| ZEROS.get(..length).unwrap_or(ZEROS);
        let parts = Parts {
            nonce: zeros(NONCE_TEXT_LEN),
            text: zeros(length),
            tag: zeros(TAG_TEXT_LEN),
        };
        let mut buffer = Zeroizing::default();
        let _ = black_box(self.unseal(black_box(&parts), &mut buffer));
    }
}

/// The parts of a token that are under its key's seal, each in base64url.
struct Parts<'t> {
    nonce: &'t str,
    text: &'t str,
    tag: &'t str,
}

impl Dated for SealingKey {
    fn kid(&self) -> &str {
        &self.kid
    }

    fn first_use(&self) -> Timestamp {
        self.first_use
    }
}

impl Kept for SealingKey {
    const PURPOSE: &'static str = "sealing";

    fn from_file(file: &KeyFile) -> Result<Self, KeyError> {
        file.to_sealing()
    }

    fn is_same(&self, before: &Self) -> bool {
        self.digest.as_ref() == before.digest.as_ref()
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealingKey")
            .field("kid", &self.kid)
            .field("first_use", &self.first_use)
            .finish_non_exhaustive()
    }
}

/// Seals a session with the key in use.
///
/// # Errors
///
/// [`GatewayError::Internal`]: no random numbers, or a session too large to be carried. A token
/// that was cut would be worse.
pub fn seal(
    keys: &KeySet<SealingKey>,
    session: &SealedSession<'_>,
    now: Moment,
    random: &dyn Random,
) -> Result<String, GatewayError> {
    let key = keys.current(now);
    // As in `open`, no growing. A text that needs more makes a token that is refused below.
    let mut text = Zeroizing::new(Vec::with_capacity(TOKEN_BYTES_MAX));
    serde_json::to_writer(&mut *text, session)
        .map_err(|_| GatewayError::Internal(Internal::Encoding))?;
    let mut nonce = [0; NONCE_LEN];
    random.fill(&mut nonce)?;
    let tag = key
        .key
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(key.header.as_bytes()),
            &mut text,
        )
        .map_err(|_| GatewayError::Internal(Internal::Encoding))?;
    let token = format!(
        "{}..{}.{}.{}",
        key.header,
        BASE64.encode(nonce),
        BASE64.encode(&*text),
        BASE64.encode(tag)
    );
    if token.len() > TOKEN_BYTES_MAX {
        return Err(GatewayError::Internal(Internal::SessionTooLarge));
    }
    Ok(token)
}

/// The key that a token, or its header alone, says it was sealed with. Only opening proves it.
#[must_use]
pub fn key_of<'k>(keys: &'k KeySet<SealingKey>, token: &str) -> Option<&'k SealingKey> {
    let header = token.split('.').next()?;
    keys.iter().find(|key| key.header == header)
}

/// Opens a session token into `buffer`, from which the session borrows.
///
/// What the seal proves is who made it, not that the content suits: the caller looks at every
/// member again.
///
/// # Errors
///
/// [`InvalidSession`], for the log; to a client all of them are one.
pub fn open<'b>(
    keys: &KeySet<SealingKey>,
    token: &str,
    buffer: &'b mut Zeroizing<Vec<u8>>,
) -> Result<SealedSession<'b>, InvalidSession> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(InvalidSession::Malformed);
    }
    let mut parts = token.split('.');
    let mut part = || parts.next().ok_or(InvalidSession::Malformed);
    let (header, encrypted_key, nonce, text, tag) = (part()?, part()?, part()?, part()?, part()?);
    // Text and tag are opened as one run of bytes: were the tag's length free, one session would
    // have as many tokens as there are places to cut that run.
    if !encrypted_key.is_empty() || tag.len() != TAG_TEXT_LEN || parts.next().is_some() {
        return Err(InvalidSession::Malformed);
    }
    let key = key_of(keys, header).ok_or(InvalidSession::UnknownKey)?;
    read(key.unseal(&Parts { nonce, text, tag }, buffer)?)
}

/// Opens a session token as [`open`] does, and gives what names its session's ends. But a token by
/// an unknown key, while the folder of the keys cannot be read, may be another replica's: a fault
/// is never a refusal.
///
/// # Errors
///
/// [`GatewayError::InvalidSession`], or [`Internal::KeysUnreadable`].
pub fn open_from<'b>(
    keys: &KeyStore<SealingKey>,
    token: &str,
    buffer: &'b mut Zeroizing<Vec<u8>>,
) -> Result<(SealedSession<'b>, Arc<RevocationKey>), GatewayError> {
    let key_set = keys.key_set();
    let session = open(&key_set, token, buffer).map_err(|refused| {
        let ours = || token.starts_with(&BASE64.encode(HEADER));
        if refused == InvalidSession::UnknownKey && keys.is_behind() && ours() {
            return GatewayError::from(Internal::KeysUnreadable);
        }
        refused.into()
    })?;
    let key = key_of(&key_set, token).ok_or(InvalidSession::UnknownKey)?;
    Ok((session, Arc::clone(key.revocations())))
}

/// The session in an opened token.
///
/// # Errors
///
/// [`InvalidSession::Malformed`].
pub fn read(plain: &[u8]) -> Result<SealedSession<'_>, InvalidSession> {
    #[cfg(test)]
    did(Step::Read);
    let session: SealedSession<'_> =
        serde_json::from_slice(plain).map_err(|_| InvalidSession::Malformed)?;
    if session.v != FORMAT {
        return Err(InvalidSession::Malformed);
    }
    Ok(session)
}

#[cfg(test)]
mod tests;
