//! The format of a logout token: a compact JWS (RFC 7515 section 7.1).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::{InvalidLogoutToken, TOKEN_BYTES_MAX};
use crate::json::object;
use crate::jwk::VerificationKeys;

/// Verifies the signature of a compact JWS of any type, and returns its payload unchecked. The key is
/// the one that the header names, and the algorithm is the one of that key.
///
/// # Errors
///
/// [`InvalidLogoutToken`], with a reason that concerns the format or the signature.
pub fn verify_signature(jws: &str, keys: &VerificationKeys) -> Result<Vec<u8>, InvalidLogoutToken> {
    Jws::of_any_type(jws)?.verify(keys)
}

/// The media type of logout tokens (section 2.4) in `typ`.
///
/// The specification only recommends it. It is required here because the same keys sign ID tokens and
/// access tokens. Keycloak sends it from version 25 on.
const TYPE: &str = "logout+jwt";

/// A parsed token whose signature is not verified.
pub(super) struct Jws<'t> {
    pub(super) key_id: String,
    algorithm: String,
    typ: Option<String>,
    signed: &'t str,
    payload: &'t str,
    signature: Vec<u8>,
}

/// The header members that are read. `jwk`, `jku`, `x5u` and `x5c`, with which a token would supply its
/// own key, are ignored.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: String,
    typ: Option<String>,
    #[serde(default, deserialize_with = "present")]
    crit: bool,
    /// RFC 7797: another signing input. Valid tokens also name it in `crit`.
    #[serde(default, deserialize_with = "present")]
    b64: bool,
}

/// For members that are forbidden, whatever their value.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

impl<'t> Jws<'t> {
    pub(super) fn parse(token: &'t str) -> Result<Self, InvalidLogoutToken> {
        let jws = Self::of_any_type(token)?;
        if jws.typ.as_deref().is_some_and(is_logout_token) {
            Ok(jws)
        } else {
            Err(InvalidLogoutToken::Type)
        }
    }

    pub(super) fn of_any_type(token: &'t str) -> Result<Self, InvalidLogoutToken> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(InvalidLogoutToken::TooLong);
        }
        let parts = token.rsplit_once('.').and_then(|(signed, signature)| {
            let (header, payload) = signed.split_once('.')?;
            // A JWE has more dots.
            (!payload.contains('.')).then_some((signed, header, payload, signature))
        });
        let (signed, header, payload, signature) = parts.ok_or(InvalidLogoutToken::Malformed)?;
        let header: Header = object(&decode(header)?).map_err(|_| InvalidLogoutToken::Malformed)?;
        if header.crit || header.b64 {
            return Err(InvalidLogoutToken::Critical);
        }
        Ok(Self {
            key_id: header.kid,
            algorithm: header.alg,
            typ: header.typ,
            signed,
            payload,
            signature: decode(signature)?,
        })
    }

    pub(super) fn unverified_payload(&self) -> Result<Vec<u8>, InvalidLogoutToken> {
        decode(self.payload)
    }

    /// Verifies the signature with the key that the header names, and returns the payload.
    pub(super) fn verify(&self, keys: &VerificationKeys) -> Result<Vec<u8>, InvalidLogoutToken> {
        let key = keys
            .key(&self.key_id)
            .ok_or(InvalidLogoutToken::UnknownKey)?;
        if self.algorithm != key.algorithm() {
            return Err(InvalidLogoutToken::Algorithm);
        }
        if !key.has_signed(self.signed.as_bytes(), &self.signature) {
            return Err(InvalidLogoutToken::Signature);
        }
        decode(self.payload)
    }
}

/// RFC 7515 section 4.1.9: media types are case-insensitive, and `application/` may be omitted.
fn is_logout_token(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    typ.strip_prefix("application/").unwrap_or(&typ) == TYPE
}

/// Canonical base64url: no padding, no spaces, no non-zero trailing bits.
fn decode(text: &str) -> Result<Vec<u8>, InvalidLogoutToken> {
    URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| InvalidLogoutToken::Malformed)
}
