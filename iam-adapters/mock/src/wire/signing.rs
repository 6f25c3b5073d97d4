//! The realm's public keys, and what is signed with their other halves.

use std::fmt;
use std::sync::OnceLock;

use aws_lc_rs::rand::{self, SystemRandom};
use aws_lc_rs::rsa::{KeyPair as RsaKey, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// How long a logout token may be used, in seconds, as at Keycloak.
const LOGOUT_TOKEN_LIFETIME: u64 = 120;

/// What every realm here signs with.
///
/// Logout tokens are signed by RSA, as a realm does unless told otherwise. Access tokens, which
/// the gateway never looks at, are signed as a client may be set to have it (ES256), because a
/// signature by RSA would cost more than all the rest of a login.
pub struct RealmKeys {
    /// Made when it is first needed: that takes from a tenth of a second to a whole one.
    rsa: OnceLock<Option<Rsa>>,
    ec: Option<EcdsaKeyPair>,
}

struct Rsa {
    key: RsaKey,
    jwk: Value,
}

const RSA_ID: &str = "mock-iam-rs256";
const EC_ID: &str = "mock-iam-es256";

impl Default for RealmKeys {
    fn default() -> Self {
        Self {
            rsa: OnceLock::new(),
            ec: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).ok(),
        }
    }
}

impl RealmKeys {
    /// Makes what takes long to make, unless it is there.
    pub fn warm_up(&self) {
        self.rsa();
    }

    /// The key set (RFC 7517); none where the machine has no randomness.
    pub(super) fn published(&self) -> Option<Value> {
        let ec = self.ec.as_ref()?.public_key().as_ref().get(1..)?;
        let (x, y) = ec.split_at_checked(ec.len() / 2)?;
        let ec = json!({
            "kid": EC_ID, "kty": "EC", "alg": "ES256", "use": "sig", "crv": "P-256",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        });
        Some(json!({"keys": [self.rsa()?.jwk, ec]}))
    }

    /// An access token.
    pub(super) fn access_token(&self, claims: &Value) -> Option<String> {
        let key = self.ec.as_ref()?;
        sign("ES256", "JWT", EC_ID, claims, |signed| {
            let signature = key.sign(&SystemRandom::new(), signed).ok()?;
            Some(signature.as_ref().to_vec())
        })
    }

    /// The logout token of one session (OpenID Connect Back-Channel Logout 1.0 section 2.4).
    pub(super) fn logout_token(
        &self,
        (issuer, audience): (&str, &str),
        (subject, session): (&str, &str),
        now: u64,
    ) -> Option<String> {
        let claims = json!({
            "iat": now,
            "exp": now + LOGOUT_TOKEN_LIFETIME,
            "jti": random_id()?,
            "iss": issuer,
            "aud": audience,
            "sub": subject,
            "sid": session,
            "typ": "Logout",
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
        });
        let key = &self.rsa()?.key;
        sign("RS256", "logout+jwt", RSA_ID, &claims, |signed| {
            let mut signature = vec![0; key.public_modulus_len()];
            key.sign(
                &RSA_PKCS1_SHA256,
                &SystemRandom::new(),
                signed,
                &mut signature,
            )
            .ok()?;
            Some(signature)
        })
    }

    fn rsa(&self) -> Option<&Rsa> {
        self.rsa.get_or_init(Rsa::generate).as_ref()
    }
}

impl Rsa {
    fn generate() -> Option<Self> {
        let key = RsaKey::generate(KeySize::Rsa2048).ok()?;
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let public = key.public_key();
        let jwk = json!({
            "kid": RSA_ID, "kty": "RSA", "alg": "RS256", "use": "sig",
            "n": number(public.modulus().big_endian_without_leading_zero()),
            "e": number(public.exponent().big_endian_without_leading_zero()),
        });
        Some(Self { key, jwk })
    }
}

impl fmt::Debug for RealmKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealmKeys").finish_non_exhaustive()
    }
}

/// A compact JWS (RFC 7515 section 7.1).
fn sign(
    algorithm: &str,
    typ: &str,
    key_id: &str,
    claims: &Value,
    signature: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> Option<String> {
    let header = json!({"alg": algorithm, "typ": typ, "kid": key_id});
    let [header, claims] = [&header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
    let signed = format!("{header}.{claims}");
    let signature = signature(signed.as_bytes())?;
    Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// 128 random bits as text.
pub(super) fn random_id() -> Option<String> {
    let mut bits = [0; 16];
    rand::fill(&mut bits).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bits))
}
