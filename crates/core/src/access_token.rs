//! Access tokens (RFC 9068), and the keys that sign them.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use iam_adapters::Moment;
use jiff::Timestamp;
use josekit::jwk::alg::{ec::EcKeyPair, ed::EdKeyPair, rsa::RsaKeyPair as RsaJwk};
use josekit::jwk::{Jwk, KeyPair as _};
use josekit::jws::{ES256, EdDSA, JwsVerifier, RS256};
use serde::Serialize;
use serde_json::Value;
use zeroize::Zeroizing;

use super::error::Internal;
use super::introspection_cache::Source;
use super::introspection_cache::shared::EntryKey;
use super::keys::{self, Key, KeyError, KeyFile, KeySet, StoredKey};
use crate::base64url::BASE64;
use crate::random::Random;

/// A signed JWT. It is a credential, so its `Debug` form does not contain it.
pub struct AccessToken {
    jwt: String,
    /// How long it is valid, in seconds from now.
    pub expires_in: u64,
}

impl AccessToken {
    /// The JWT, for the response to the client.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.jwt
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessToken")
            .field("expires_in", &self.expires_in)
            .finish_non_exhaustive()
    }
}

/// The result of an exchange.
#[derive(Debug)]
pub struct Exchanged {
    /// The access token.
    pub token: AccessToken,
    /// Its scope; empty if nothing was granted.
    pub scope: String,
    /// The source of the data for the decision.
    pub source: Source,
}

/// The claims that are the same in all access tokens of this gateway.
#[derive(Debug, Clone)]
pub struct TokenPolicy {
    /// `iss`: equal to the base URL of the discovery documents.
    pub issuer: String,
    /// `aud`: who must accept the tokens. Never empty.
    pub audience: Vec<String>,
    /// `client_id` (RFC 9068 section 2.2). The API has no clients, so this is the gateway.
    pub client_id: String,
    /// The longest lifetime of a token.
    pub lifetime: Duration,
}

/// The claims of one access token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grant<'a> {
    /// `sub`.
    pub subject: &'a str,
    /// `sid`.
    pub session_id: &'a str,
    /// `scope`; omitted if nothing was granted.
    pub scope: &'a str,
    /// The session's expiry, which `exp` does not exceed. In seconds since 1970.
    pub session_expires_at: u64,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: Audience<'a>,
    exp: u64,
    iat: u64,
    jti: &'a str,
    client_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    scope: &'a str,
    sid: &'a str,
}

/// RFC 7519 section 4.1.3: one audience may be a string, which more verifiers support.
#[derive(Serialize)]
#[serde(untagged)]
enum Audience<'a> {
    One(&'a str),
    Many(&'a [String]),
}

const JTI_LEN: usize = 16;
const JTI_TEXT_LEN: usize = 22;

/// Issues an access token.
///
/// # Errors
///
/// [`Internal`]: no random numbers, or a key that does not sign.
pub(super) fn issue(
    keys: &KeySet<SigningKey>,
    policy: &TokenPolicy,
    grant: Grant<'_>,
    now: Moment,
    random: &dyn Random,
) -> Result<AccessToken, Internal> {
    let iat = now.unix_seconds();
    let expires_in = policy
        .lifetime
        .as_secs()
        .min(grant.session_expires_at.saturating_sub(iat));
    let mut id = [0; JTI_LEN];
    random.fill(&mut id)?;
    let mut jti = [0; JTI_TEXT_LEN];
    BASE64
        .encode_slice(id, &mut jti)
        .map_err(|_| Internal::Encoding)?;
    let mut claims = Vec::with_capacity(CLAIMS_CAPACITY);
    let written = serde_json::to_writer(
        &mut claims,
        &Claims {
            iss: &policy.issuer,
            sub: grant.subject,
            aud: match policy.audience.as_slice() {
                [one] => Audience::One(one),
                many => Audience::Many(many),
            },
            exp: iat + expires_in,
            iat,
            jti: std::str::from_utf8(&jti).map_err(|_| Internal::Encoding)?,
            client_id: &policy.client_id,
            scope: grant.scope,
            sid: grant.session_id,
        },
    );
    written.map_err(|_| Internal::Encoding)?;

    let key = keys.current(now);
    let header = key.encoded_header();
    let mut jwt = Vec::with_capacity(header.len() + encoded(claims.len()) + SIGNATURE_CAPACITY);
    jwt.extend_from_slice(header.as_bytes());
    append(&mut jwt, &claims)?;
    let signature = key.sign(&jwt).ok_or(Internal::Signing)?;
    append(&mut jwt, &signature)?;
    let jwt = String::from_utf8(jwt).map_err(|_| Internal::Encoding)?;
    Ok(AccessToken { jwt, expires_in })
}

/// The usual length of claims, so that the buffer seldom grows.
const CLAIMS_CAPACITY: usize = 768;

/// An ECDSA signature with its dot and base64url.
const SIGNATURE_CAPACITY: usize = 96;

/// The length of so many bytes in base64url without padding.
const fn encoded(bytes: usize) -> usize {
    (bytes * 4).div_ceil(3)
}

/// A dot, and the bytes in base64url.
fn append(jwt: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Internal> {
    jwt.push(b'.');
    let begin = jwt.len();
    jwt.resize(begin + encoded(bytes.len()), 0);
    let end = jwt.get_mut(begin..).ok_or(Internal::Encoding)?;
    // Fills it exactly: `encoded` is the length of unpadded base64url.
    BASE64
        .encode_slice(bytes, end)
        .map_err(|_| Internal::Encoding)?;
    Ok(())
}

/// The fewest bits of an RSA key (RFC 7518 section 3.3).
const RSA_BITS_MIN: u32 = 2048;

/// How a token is signed (RFC 7518 section 3.1, RFC 8037). Each key has one algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 3] = [Self::Es256, Self::EdDsa, Self::Rs256];

    /// The name in a JOSE header.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
            Self::Rs256 => "RS256",
        }
    }
}

/// aws-lc signs, because it takes half the time of OpenSSL.
enum Signer {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rs256(RsaKeyPair),
}

/// A signing key with its public JWK.
pub struct SigningKey {
    kid: String,
    first_use: Timestamp,
    algorithm: Algorithm,
    signer: Signer,
    random: SystemRandom,
    header: String,
    public: Jwk,
    entries: EntryKey,
}

impl SigningKey {
    /// Reads a private JWK. A test signature proves that the private and the public part match.
    pub(super) fn from_jwk(jwk: &Jwk, kid: &str, first_use: Timestamp) -> Result<Self, KeyError> {
        let algorithm = Algorithm::ALL
            .into_iter()
            .find(|algorithm| jwk.algorithm() == Some(algorithm.name()))
            .ok_or(KeyError::Invalid("alg is not ES256, EdDSA or RS256"))?;
        keys::is_meant_for(jwk, "sig", &["sign"])?;
        let (signer, public) = signer(algorithm, jwk)?;
        let header = format!(
            r#"{{"typ":"at+jwt","alg":"{}","kid":"{kid}"}}"#,
            algorithm.name()
        );
        let key = Self {
            kid: kid.to_owned(),
            first_use,
            algorithm,
            signer,
            random: SystemRandom::new(),
            header: BASE64.encode(header),
            public: published(&public, jwk, algorithm, kid)?,
            entries: secret(jwk)
                .and_then(|secret| EntryKey::derive(&secret).ok())
                .ok_or(KeyError::Invalid("no key can be derived from it"))?,
        };
        key.self_test()?;
        Ok(key)
    }

    /// Another library verifies a signature with the public JWK.
    fn self_test(&self) -> Result<(), KeyError> {
        const MESSAGE: &[u8] = b"auth-gateway self-test";
        let signature = self.sign(MESSAGE).ok_or(KeyError::SelfTest)?;
        let verifier: Box<dyn JwsVerifier> = match self.algorithm {
            Algorithm::Es256 => ES256
                .verifier_from_jwk(&self.public)
                .map(|v| Box::new(v) as _),
            Algorithm::EdDsa => EdDSA
                .verifier_from_jwk(&self.public)
                .map(|v| Box::new(v) as _),
            Algorithm::Rs256 => RS256
                .verifier_from_jwk(&self.public)
                .map(|v| Box::new(v) as _),
        }
        .map_err(|_| KeyError::SelfTest)?;
        verifier
            .verify(MESSAGE, &signature)
            .map_err(|_| KeyError::SelfTest)
    }

    /// The signature over a message (RFC 7515 section 5.1); `None` if the library fails, as it does
    /// without random numbers.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        match &self.signer {
            Signer::Es256(key) => {
                let signature = key.sign(&self.random, message).ok()?;
                Some(signature.as_ref().to_vec())
            }
            Signer::EdDsa(key) => Some(key.sign(message).as_ref().to_vec()),
            Signer::Rs256(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &self.random, message, &mut signature)
                    .ok()?;
                Some(signature)
            }
        }
    }

    /// The JOSE header of this key's access tokens, in base64url (RFC 9068 section 2.1).
    fn encoded_header(&self) -> &str {
        &self.header
    }

    /// Seals the cached data that replicas share.
    pub(super) fn entries(&self) -> &EntryKey {
        &self.entries
    }

    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The published JWK: only public members, `kid`, `alg` and `use` (RFC 7517 section 4).
    #[must_use]
    pub fn public_jwk(&self) -> &Jwk {
        &self.public
    }
}

impl Key for SigningKey {
    fn kid(&self) -> &str {
        &self.kid
    }

    fn first_use(&self) -> Timestamp {
        self.first_use
    }
}

impl StoredKey for SigningKey {
    const PURPOSE: &'static str = "signing";

    fn from_file(file: &KeyFile) -> Result<Self, KeyError> {
        file.to_signing()
    }

    fn is_same(&self, before: &Self) -> bool {
        self.public == before.public
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey")
            .field("kid", &self.kid)
            .field("algorithm", &self.algorithm)
            .field("first_use", &self.first_use)
            .finish_non_exhaustive()
    }
}

/// The length of `d` on both curves, in bytes (RFC 7518 section 6.2.2.1, RFC 8037 section 2).
const PRIVATE_LEN: usize = 32;

/// The member `d`, the private part of keys of every type.
fn secret(jwk: &Jwk) -> Option<Zeroizing<Vec<u8>>> {
    let secret = jwk.parameter("d").and_then(Value::as_str)?;
    BASE64.decode(secret).map(Zeroizing::new).ok()
}

/// josekit panics if `d` is longer than this.
fn check_length_of_d(jwk: &Jwk) -> Result<(), KeyError> {
    if secret(jwk).map(|secret| secret.len()) == Some(PRIVATE_LEN) {
        Ok(())
    } else {
        Err(KeyError::Invalid("d is not 32 bytes in base64url"))
    }
}

fn signer(algorithm: Algorithm, jwk: &Jwk) -> Result<(Signer, Jwk), KeyError> {
    match algorithm {
        Algorithm::Es256 => {
            if jwk.curve() != Some("P-256") {
                return Err(KeyError::Invalid("ES256 needs a key on the curve P-256"));
            }
            check_length_of_d(jwk)?;
            let invalid = "not a private key on the curve P-256";
            let pair = EcKeyPair::from_jwk(jwk).map_err(|_| KeyError::Invalid(invalid))?;
            let der = Zeroizing::new(pair.to_der_private_key());
            let signer = EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, &der)
                .map_err(|_| KeyError::Invalid(invalid))?;
            Ok((Signer::Es256(signer), pair.to_jwk_public_key()))
        }
        Algorithm::EdDsa => {
            if jwk.curve() != Some("Ed25519") {
                return Err(KeyError::Invalid("EdDSA needs a key on the curve Ed25519"));
            }
            check_length_of_d(jwk)?;
            let invalid = "not a private key on the curve Ed25519";
            let pair = EdKeyPair::from_jwk(jwk).map_err(|_| KeyError::Invalid(invalid))?;
            let der = Zeroizing::new(pair.to_der_private_key());
            let signer =
                Ed25519KeyPair::from_pkcs8(&der).map_err(|_| KeyError::Invalid(invalid))?;
            Ok((Signer::EdDsa(signer), pair.to_jwk_public_key()))
        }
        Algorithm::Rs256 => {
            let invalid = "not a private RSA key";
            let pair = RsaJwk::from_jwk(jwk).map_err(|_| KeyError::Invalid(invalid))?;
            // josekit counts bytes here.
            if pair.key_len() * 8 < RSA_BITS_MIN {
                return Err(KeyError::Invalid("an RSA key needs at least 2048 bits"));
            }
            let der = Zeroizing::new(pair.to_der_private_key());
            let signer = RsaKeyPair::from_pkcs8(&der).map_err(|_| KeyError::Invalid(invalid))?;
            Ok((Signer::Rs256(signer), pair.to_jwk_public_key()))
        }
    }
}

/// A new JWK with only the members that a verifier needs. They are computed from the private key, and
/// must be the same in the file.
fn published(public: &Jwk, file: &Jwk, algorithm: Algorithm, kid: &str) -> Result<Jwk, KeyError> {
    let (key_type, members): (_, &[&str]) = match algorithm {
        Algorithm::Es256 => ("EC", &["crv", "x", "y"]),
        Algorithm::EdDsa => ("OKP", &["crv", "x"]),
        Algorithm::Rs256 => ("RSA", &["n", "e"]),
    };
    let invalid = |_| KeyError::Invalid("not a key of its type");
    let mut jwk = Jwk::new(key_type);
    for member in members {
        if public.parameter(member) != file.parameter(member) {
            return Err(KeyError::Invalid(
                "its public members are missing or another key's",
            ));
        }
        let value = public.parameter(member).cloned();
        jwk.set_parameter(member, value).map_err(invalid)?;
    }
    jwk.set_parameter("use", Some(Value::from("sig")))
        .map_err(invalid)?;
    jwk.set_algorithm(algorithm.name());
    jwk.set_key_id(kid);
    Ok(jwk)
}

#[cfg(test)]
mod tests;
