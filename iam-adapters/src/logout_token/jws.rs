//! The form of a logout token: a compact JWS (RFC 7515 section 7.1), and nothing wider.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::TOKEN_BYTES_MAX;
use super::error::InvalidLogoutToken;
use super::jwk::VerificationKeys;
use crate::json::object;

impl VerificationKeys {
    /// The payload of a compact JWS of any type, once its signature is verified: by the key that its
    /// header names, with the one algorithm that this key is for. What the payload says is not
    /// looked at.
    ///
    /// # Errors
    ///
    /// [`InvalidLogoutToken`], of which the reasons that concern the form and the signature.
    pub fn verified_payload(&self, jws: &str) -> Result<Vec<u8>, InvalidLogoutToken> {
        let (jws, _) = Jws::of_any_type(jws)?;
        jws.verify(self)
    }
}

/// The media type of logout tokens (section 2.4), as it stands in `typ`.
///
/// Every Keycloak from 25 on writes it. It is insisted on, though the specification only
/// recommends it, because the same keys sign ID tokens and access tokens.
const TYPE: &str = "logout+jwt";

/// A token taken apart, and not verified.
pub(super) struct Jws<'t> {
    pub(super) key_id: String,
    algorithm: String,
    signed: &'t str,
    payload: &'t str,
    signature: Vec<u8>,
}

/// What the header may say to us. `jwk`, `jku`, `x5u` and `x5c`, by which a token would bring its
/// own key along, are not here, and so are never looked at.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: String,
    #[serde(default)]
    typ: Option<String>,
    #[serde(default, deserialize_with = "present")]
    crit: bool,
    /// RFC 7797: another signing input. Honest tokens name it in `crit` as well.
    #[serde(default, deserialize_with = "present")]
    b64: bool,
}

/// For members that must not be there, whatever their value.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

impl<'t> Jws<'t> {
    pub(super) fn parse(token: &'t str) -> Result<Self, InvalidLogoutToken> {
        let (jws, typ) = Self::of_any_type(token)?;
        if typ.as_deref().is_some_and(is_logout_token) {
            Ok(jws)
        } else {
            Err(InvalidLogoutToken::Type)
        }
    }

    /// A token taken apart, and what it says it is.
    pub(super) fn of_any_type(
        token: &'t str,
    ) -> Result<(Self, Option<String>), InvalidLogoutToken> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(InvalidLogoutToken::TooLong);
        }
        let parts = token.rsplit_once('.').and_then(|(signed, signature)| {
            let (header, payload) = signed.split_once('.')?;
            // With more dots it is a JWE, or nothing at all.
            (!payload.contains('.')).then_some((signed, header, payload, signature))
        });
        let (signed, header, payload, signature) = parts.ok_or(InvalidLogoutToken::Malformed)?;
        let header: Header = object(&decode(header)?).map_err(|_| InvalidLogoutToken::Malformed)?;
        if header.crit || header.b64 {
            return Err(InvalidLogoutToken::Critical);
        }
        let jws = Self {
            key_id: header.kid,
            algorithm: header.alg,
            signed,
            payload,
            signature: decode(signature)?,
        };
        Ok((jws, header.typ))
    }

    /// The claims, once the signature is verified with the key that the header names.
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

/// RFC 7515 section 4.1.9: media types know no case, and `application/` may be left out.
fn is_logout_token(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    typ.strip_prefix("application/").unwrap_or(&typ) == TYPE
}

/// Canonical base64url: no padding, no blanks, no bits that say nothing.
fn decode(text: &str) -> Result<Vec<u8>, InvalidLogoutToken> {
    URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| InvalidLogoutToken::Malformed)
}
