//! The public keys that an IAM publishes as a JWK Set (RFC 7517), each for one algorithm.
//!
//! Read here and not by josekit, which checks neither the exponent nor the exact size of an RSA key, nor the lengths of
//! coordinates.

use std::collections::HashMap;

use aws_lc_rs::signature::{
    self, ParsedPublicKey, RsaParameters, RsaPublicKeyComponents, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use thiserror::Error;

use crate::json::object;

/// RFC 7518 section 3.3 requires at least 2048 bits; above 8192 verification is too expensive.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// The bytes are not a JWK Set, or none of its keys can verify a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no JWK set with a key that verifies signatures")]
pub struct NoKeys;

/// Public keys by their `kid`.
///
/// Contains only keys that verify signatures of asymmetric algorithms. Shared secrets, encryption
/// keys, RSA keys under 2048 bits, keys without a `kid` and keys with the same `kid` are left out.
#[derive(Debug)]
pub struct VerificationKeys {
    /// `None`: several keys have this id.
    by_id: HashMap<String, Option<VerificationKey>>,
}

/// A key and its only algorithm: its own `alg`, or the default of its type and curve. The header of a
/// token does not select the algorithm.
#[derive(Debug)]
pub(crate) struct VerificationKey {
    algorithm: String,
    key: ParsedPublicKey,
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<SetMember>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SetMember {
    Key(Box<Jwk>),
    /// A key of an unsupported kind (RFC 7517 section 5).
    Other(IgnoredAny),
}

/// The public members of all supported kinds of keys.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl VerificationKeys {
    /// Reads a JWK Set.
    ///
    /// # Errors
    ///
    /// [`NoKeys`].
    pub fn parse(json: &[u8]) -> Result<Self, NoKeys> {
        let set: JwkSet = object(json).map_err(|_| NoKeys)?;
        let mut by_id = HashMap::new();
        for entry in set.keys {
            if let SetMember::Key(jwk) = entry
                && let Some(id) = jwk.kid.clone()
                && jwk.is_for_signatures()
                && let Some(key) = jwk.key()
            {
                by_id
                    .entry(id)
                    .and_modify(|key| *key = None)
                    .or_insert(Some(key));
            }
        }
        let keys = Self { by_id };
        let any = keys.by_id.values().any(Option::is_some);
        any.then_some(keys).ok_or(NoKeys)
    }

    /// The key with this id.
    pub(crate) fn key(&self, id: &str) -> Option<&VerificationKey> {
        self.by_id.get(id)?.as_ref()
    }
}

impl VerificationKey {
    pub(crate) fn algorithm(&self) -> &str {
        &self.algorithm
    }

    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        self.key.verify_sig(message, signature).is_ok()
    }
}

impl Jwk {
    fn is_for_signatures(&self) -> bool {
        self.usage.as_deref().is_none_or(|usage| usage == "sig")
            && self
                .key_ops
                .as_ref()
                .is_none_or(|all| all.iter().any(|one| one == "verify"))
    }

    fn key(&self) -> Option<VerificationKey> {
        let alg = self.alg.as_deref();
        let (algorithm, key) = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", None) => {
                // RFC 7518 section 6.3 has no default; this is the one of OpenID Connect.
                let algorithm = alg.unwrap_or("RS256");
                (algorithm, self.rsa(rsa_parameters(algorithm)?)?)
            }
            ("EC", Some(curve)) => {
                let (algorithm, verification, length) = elliptic(curve)?;
                (alg.unwrap_or(algorithm) == algorithm).then_some(())?;
                (algorithm, self.point(verification, length)?)
            }
            ("OKP", Some("Ed25519")) => {
                let algorithm = alg.unwrap_or("EdDSA");
                // `Ed25519` is the newer name of RFC 9864.
                ["EdDSA", "Ed25519"].contains(&algorithm).then_some(())?;
                let x = decode(self.x.as_ref())?;
                let key = ParsedPublicKey::new(&signature::ED25519, x).ok()?;
                (algorithm, key)
            }
            _ => return None,
        };
        Some(VerificationKey {
            algorithm: algorithm.to_owned(),
            key,
        })
    }

    fn rsa(&self, parameters: &'static RsaParameters) -> Option<ParsedPublicKey> {
        let (n, e) = (decode(self.n.as_ref())?, decode(self.e.as_ref())?);
        let leading = n.first()?.leading_zeros() as usize;
        if !RSA_BITS.contains(&(n.len() * 8 - leading)) {
            return None;
        }
        let components = RsaPublicKeyComponents { n, e };
        components.to_parsed_public_key(parameters).ok()
    }

    /// An uncompressed point (SEC 1 section 2.3.3). Both coordinates have their full length (RFC 7518
    /// section 6.2.1).
    fn point(
        &self,
        algorithm: &'static dyn VerificationAlgorithm,
        length: usize,
    ) -> Option<ParsedPublicKey> {
        let (x, y) = (decode(self.x.as_ref())?, decode(self.y.as_ref())?);
        if x.len() != length || y.len() != length {
            return None;
        }
        ParsedPublicKey::new(algorithm, [&[4], &x[..], &y[..]].concat()).ok()
    }
}

fn rsa_parameters(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
        "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
        "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

/// The algorithm of a curve, and the length of a coordinate in bytes.
fn elliptic(curve: &str) -> Option<(&'static str, &'static dyn VerificationAlgorithm, usize)> {
    Some(match curve {
        "P-256" => ("ES256", &signature::ECDSA_P256_SHA256_FIXED, 32),
        "P-384" => ("ES384", &signature::ECDSA_P384_SHA384_FIXED, 48),
        "P-521" => ("ES512", &signature::ECDSA_P521_SHA512_FIXED, 66),
        _ => return None,
    })
}

fn decode(text: Option<&String>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text?).ok()
}
