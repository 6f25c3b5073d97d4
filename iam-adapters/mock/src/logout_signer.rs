//! Logout tokens (OpenID Connect Back-Channel Logout 1.0 section 2.4) and a key to sign them.

use std::fmt;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use crate::{jws, random};

/// How long a logout token is valid, in seconds: as long as Keycloak's.
const LIFETIME: u64 = 120;

/// The claims of a logout token from an issuer to an audience, issued at `now` in seconds since
/// 1970. None if the system has no random numbers for `jti`.
#[must_use]
pub fn logout_claims(
    (issuer, audience): (&str, &str),
    subject: Option<&str>,
    session_id: Option<&str>,
    now: u64,
) -> Option<Map<String, Value>> {
    let claims = [
        ("iss", Some(json!(issuer))),
        ("aud", Some(json!(audience))),
        ("iat", Some(json!(now))),
        ("exp", Some(json!(now + LIFETIME))),
        ("jti", Some(json!(random::id()?))),
        (
            "events",
            Some(json!({"http://schemas.openid.net/event/backchannel-logout": {}})),
        ),
        ("sub", subject.map(|subject| json!(subject))),
        ("sid", session_id.map(|id| json!(id))),
    ];
    let present = |(name, value): (&str, Option<Value>)| Some((name.to_owned(), value?));
    Some(claims.into_iter().filter_map(present).collect())
}

/// Signs logout tokens with an ES256 key that is generated at the start and never stored.
pub struct LogoutSigner {
    key: EcdsaKeyPair,
    key_id: String,
}

impl LogoutSigner {
    /// Generates a key; none if the system has no random numbers.
    #[must_use]
    pub fn generate() -> Option<Self> {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).ok()?;
        let key_id = random::id()?;
        Some(Self { key, key_id })
    }

    /// The id of the key (`kid`).
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The key set (RFC 7517) that verifies the signatures; none only if the library fails.
    #[must_use]
    pub fn key_set(&self) -> Option<Value> {
        Some(json!({"keys": [es256_jwk(&self.key, &self.key_id)?]}))
    }

    /// A logout token with the claims of [`logout_claims`].
    #[must_use]
    pub fn logout_token(
        &self,
        parties: (&str, &str),
        subject: Option<&str>,
        session_id: Option<&str>,
        now: u64,
    ) -> Option<String> {
        let header = json!({"alg": "ES256", "typ": "logout+jwt", "kid": self.key_id});
        let claims = logout_claims(parties, subject, session_id, now)?;
        self.sign(&header.to_string(), &Value::from(claims).to_string())
    }

    /// A compact JWS of any header and any payload, as they are.
    #[must_use]
    pub fn sign(&self, header: &str, payload: &str) -> Option<String> {
        jws::compact(header, payload, |input| es256(&self.key, input))
    }
}

/// Shows no key.
impl fmt::Debug for LogoutSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogoutSigner").finish_non_exhaustive()
    }
}

/// The public JWK of an ES256 key.
pub(crate) fn es256_jwk(key: &EcdsaKeyPair, key_id: &str) -> Option<Value> {
    // SEC 1 section 2.3.3: one byte for the form, then both coordinates.
    let coordinates = key.public_key().as_ref().get(1..)?;
    let (x, y) = coordinates.split_at_checked(coordinates.len() / 2)?;
    Some(json!({
        "kty": "EC",
        "crv": "P-256",
        "use": "sig",
        "alg": "ES256",
        "kid": key_id,
        "x": URL_SAFE_NO_PAD.encode(x),
        "y": URL_SAFE_NO_PAD.encode(y),
    }))
}

/// The ES256 signature of a signing input.
pub(crate) fn es256(key: &EcdsaKeyPair, input: &[u8]) -> Option<Vec<u8>> {
    let signature = key.sign(&SystemRandom::new(), input).ok()?;
    Some(signature.as_ref().to_vec())
}
