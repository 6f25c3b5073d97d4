//! What is behind the seal: brought out, read, and both done in vain for a token that did not come
//! so far, lest the time of a refusal tell what was wrong.

use std::hint::black_box;

use aws_lc_rs::aead::{Aad, NONCE_LEN, Nonce};
use base64::Engine as _;
use zeroize::Zeroizing;

use super::super::BASE64;
use super::super::error::InvalidSession;
use super::super::session::{FORMAT, SealedSession};
use super::{SealingKey, TAG_TEXT_LEN, TOKEN_BYTES_MAX};
#[cfg(test)]
use crate::gateway::tests::work::{Step, did};

/// The nonce's 12 bytes in base64url.
const NONCE_TEXT_LEN: usize = NONCE_LEN / 3 * 4;

/// base64url for nothing but zeros, in any length that base64url has.
const ZEROS: &str = match str::from_utf8(&[b'A'; TOKEN_BYTES_MAX]) {
    Ok(zeros) => zeros,
    Err(_) => "",
};

/// The content's length, in base64url, that a token is taken for which is too short to be one.
const TEXT_LEN_MIN: usize = 512;

/// The parts of a token that are under its key's seal, each in base64url.
pub(super) struct Parts<'t> {
    pub(super) nonce: &'t str,
    pub(super) text: &'t str,
    pub(super) tag: &'t str,
}

impl SealingKey {
    /// Opens the parts into `buffer`.
    pub(super) fn unseal<'b>(
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
