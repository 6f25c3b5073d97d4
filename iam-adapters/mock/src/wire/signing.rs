//! The signing keys of the realms, and the tokens that they sign.

use std::fmt;
use std::sync::OnceLock;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKey, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::jws;
use crate::logout_signer::{es256, es256_jwk, logout_claims};

/// The signing keys of every realm.
///
/// Logout tokens are signed with RS256, the default of a realm. Access tokens, which the gateway never
/// reads, are signed with ES256, because an RSA signature costs more than the rest of a login.
pub struct RealmKeys {
    /// Generated on first use, which takes 0.1 to 1 s.
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
    /// Generates the RSA key if it is missing.
    pub fn warm_up(&self) {
        self.rsa();
    }

    /// The key set (RFC 7517); none if the system has no random numbers.
    pub(super) fn key_set(&self) -> Option<Value> {
        let ec = es256_jwk(self.ec.as_ref()?, EC_ID)?;
        Some(json!({"keys": [self.rsa()?.jwk, ec]}))
    }

    /// Signs an access token.
    pub(super) fn access_token(&self, claims: &Value) -> Option<String> {
        let key = self.ec.as_ref()?;
        let header = json!({"alg": "ES256", "typ": "JWT", "kid": EC_ID}).to_string();
        jws::compact(header, claims.to_string(), |input| es256(key, input))
    }

    /// Signs the logout token of one session (OpenID Connect Back-Channel Logout 1.0 section 2.4).
    pub(super) fn logout_token(
        &self,
        parties: (&str, &str),
        (subject, session): (&str, &str),
        now: u64,
    ) -> Option<String> {
        let header = json!({"alg": "RS256", "typ": "logout+jwt", "kid": RSA_ID}).to_string();
        let mut claims = logout_claims(parties, Some(subject), Some(session), now)?;
        claims.insert("typ".to_owned(), json!("Logout"));
        let key = &self.rsa()?.key;
        jws::compact(header, Value::from(claims).to_string(), |input| {
            let mut signature = vec![0; key.public_modulus_len()];
            key.sign(
                &RSA_PKCS1_SHA256,
                &SystemRandom::new(),
                input,
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
