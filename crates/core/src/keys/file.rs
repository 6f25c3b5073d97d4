//! A key file: one JWK with the time of its first use.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use iam_adapters::name::Name as _;
use jiff::Timestamp;
use josekit::jwk::{Jwk, alg::ec::EcCurve, alg::ed::EdCurve};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{Algorithm, KeyError, SealingKey};
use crate::base64url::BASE64;

/// The member of the JWK with the time of first use (RFC 3339).
const FIRST_USE: &str = "first_use";

/// The bits of generated RSA keys: the 128-bit strength of the other algorithms.
const RSA_BITS: u32 = 3072;

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPurpose {
    /// Signing access tokens.
    Signing(Algorithm),
    /// Sealing session tokens (A256GCM).
    Sealing,
}

/// The content of a key file.
pub struct KeyFile {
    pub(super) jwk: Jwk,
    pub(super) kid: String,
    pub(super) first_use: Timestamp,
}

impl KeyFile {
    /// Reads a private JWK (RFC 7517) with `kid` and `first_use`.
    ///
    /// # Errors
    ///
    /// [`KeyError::Invalid`].
    pub fn parse(text: &[u8]) -> Result<Self, KeyError> {
        let jwk = Jwk::from_bytes(text).map_err(|_| KeyError::Invalid("not a JWK"))?;
        let kid = jwk
            .key_id()
            .filter(|kid| is_kid(kid))
            .ok_or(KeyError::Invalid("kid is not 1 to 64 of A-Z a-z 0-9 . _ -"))?
            .to_owned();
        let first_use = jwk
            .parameter(FIRST_USE)
            .and_then(Value::as_str)
            .and_then(|time| time.parse().ok())
            .ok_or(KeyError::Invalid("first_use is not an RFC 3339 time"))?;
        Ok(Self {
            jwk,
            kid,
            first_use,
        })
    }

    /// The key's id.
    #[must_use]
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The time of first use.
    #[must_use]
    pub fn first_use(&self) -> Timestamp {
        self.first_use
    }

    /// What it is for, by its `alg`; `None` if that is missing or unknown.
    #[must_use]
    pub fn purpose(&self) -> Option<KeyPurpose> {
        let alg = self.jwk.algorithm()?;
        if alg == SealingKey::ALGORITHM {
            return Some(KeyPurpose::Sealing);
        }
        alg.parse().ok().map(KeyPurpose::Signing)
    }

    pub(super) fn text(&self) -> Zeroizing<String> {
        let jwk = Value::Object(self.jwk.as_ref().clone());
        Zeroizing::new(format!("{jwk:#}\n"))
    }
}

/// A kid is part of headers and file names, so it has neither quotes nor slashes.
pub(crate) fn is_kid(kid: &str) -> bool {
    (1..=64).contains(&kid.len())
        && !kid.starts_with('.')
        && kid
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// Generates a key.
///
/// # Errors
///
/// [`KeyError::Invalid`] if the system has no random numbers.
pub fn generate(purpose: KeyPurpose, first_use: Timestamp) -> Result<KeyFile, KeyError> {
    let (jwk, alg) = match purpose {
        KeyPurpose::Signing(algorithm @ Algorithm::Es256) => {
            (Jwk::generate_ec_key(EcCurve::P256), algorithm.name())
        }
        KeyPurpose::Signing(algorithm @ Algorithm::EdDsa) => {
            (Jwk::generate_ed_key(EdCurve::Ed25519), algorithm.name())
        }
        KeyPurpose::Signing(algorithm @ Algorithm::Rs256) => {
            (Jwk::generate_rsa_key(RSA_BITS), algorithm.name())
        }
        KeyPurpose::Sealing => (Jwk::generate_oct_key(32), SealingKey::ALGORITHM),
    };
    let mut jwk = jwk.map_err(|_| KeyError::Invalid(NO_RANDOM))?;
    let kid = match purpose {
        KeyPurpose::Signing(_) => thumbprint(&jwk),
        // A thumbprint would publish a hash of the secret.
        KeyPurpose::Sealing => {
            let mut name = [0; 12];
            aws_lc_rs::rand::fill(&mut name).map_err(|_| KeyError::Invalid(NO_RANDOM))?;
            format!("s{}", BASE64.encode(name))
        }
    };
    jwk.set_algorithm(alg);
    jwk.set_key_id(&kid);
    jwk.set_parameter(FIRST_USE, Some(Value::from(first_use.to_string())))
        .map_err(|_| KeyError::Invalid("not a JWK"))?;
    Ok(KeyFile {
        jwk,
        kid,
        first_use,
    })
}

const NO_RANDOM: &str = "the system has no random numbers";

/// RFC 7638: the SHA-256 of the required members in alphabetical order.
fn thumbprint(jwk: &Jwk) -> String {
    let member = |name| jwk.parameter(name).cloned().unwrap_or_default();
    let canonical = match jwk.key_type() {
        "EC" => json!({"crv": member("crv"), "kty": "EC", "x": member("x"), "y": member("y")}),
        "RSA" => json!({"e": member("e"), "kty": "RSA", "n": member("n")}),
        other => json!({"crv": member("crv"), "kty": other, "x": member("x")}),
    };
    BASE64.encode(digest(&SHA256, canonical.to_string().as_bytes()))
}

/// Refuses a key whose `use` or `key_ops` are for something else (RFC 7517 sections 4.2 and 4.3):
/// another system may have it too.
pub(super) fn is_meant_for(jwk: &Jwk, usage: &str, operations: &[&str]) -> Result<(), KeyError> {
    let has_usage = jwk.key_use().is_none_or(|key_use| key_use == usage);
    let all = operations
        .iter()
        .all(|operation| jwk.is_for_key_operation(operation));
    if has_usage && all {
        Ok(())
    } else {
        Err(KeyError::Invalid(
            "its use or key_ops is for something else",
        ))
    }
}
