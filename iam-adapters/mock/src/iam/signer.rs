//! The key with which the mock signs its logout tokens.

use std::fmt;

use aws_lc_rs::rand::{self, SystemRandom};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde_json::{Value, json};

/// How long a logout token may be used, in seconds: as long as Keycloak's.
const LIFETIME: u64 = 120;

/// Signs logout tokens (OpenID Connect Back-Channel Logout 1.0 section 2.4) with a key that is
/// made at the start and forgotten at the end.
pub struct LogoutSigner {
    key: EcdsaKeyPair,
    key_id: String,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    aud: &'a str,
    iat: u64,
    exp: u64,
    jti: String,
    events: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sid: Option<&'a str>,
}

impl LogoutSigner {
    /// Makes a key; none where the machine has no randomness.
    #[must_use]
    pub fn generate() -> Option<Self> {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).ok()?;
        let key_id = random()?;
        Some(Self { key, key_id })
    }

    /// The name of the key (`kid`).
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The key set (RFC 7517) that verifies what is signed here; none only where the library fails.
    #[must_use]
    pub fn key_set(&self) -> Option<Value> {
        // SEC 1 section 2.3.3: one byte for the form, then both coordinates.
        let coordinates = self.key.public_key().as_ref().get(1..)?;
        let (x, y) = coordinates.split_at_checked(coordinates.len() / 2)?;
        Some(json!({"keys": [{
            "kty": "EC",
            "crv": "P-256",
            "use": "sig",
            "alg": "ES256",
            "kid": self.key_id,
            "x": URL_SAFE_NO_PAD.encode(x),
            "y": URL_SAFE_NO_PAD.encode(y),
        }]}))
    }

    /// A logout token from an issuer to an audience, issued at `now` in seconds since 1970.
    #[must_use]
    pub fn logout_token(
        &self,
        (issuer, audience): (&str, &str),
        subject: Option<&str>,
        session_id: Option<&str>,
        now: u64,
    ) -> Option<String> {
        let claims = Claims {
            iss: issuer,
            aud: audience,
            iat: now,
            exp: now + LIFETIME,
            jti: random()?,
            events: json!({"http://schemas.openid.net/event/backchannel-logout": {}}),
            sub: subject,
            sid: session_id,
        };
        let header = json!({"alg": "ES256", "typ": "logout+jwt", "kid": self.key_id});
        let claims = serde_json::to_string(&claims).ok()?;
        self.sign(&header.to_string(), &claims)
    }

    /// A compact JWS (RFC 7515 section 7.1) of any header and any payload, as they are.
    #[must_use]
    pub fn sign(&self, header: &str, payload: &str) -> Option<String> {
        let [header, payload] = [header, payload].map(|part| URL_SAFE_NO_PAD.encode(part));
        let signed = format!("{header}.{payload}");
        let signature = self
            .key
            .sign(&SystemRandom::new(), signed.as_bytes())
            .ok()?;
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Shows no key.
impl fmt::Debug for LogoutSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogoutSigner").finish_non_exhaustive()
    }
}

fn random() -> Option<String> {
    let mut bits = [0; 16];
    rand::fill(&mut bits).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bits))
}
