//! Keys that sign, with their public JWKs.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use iam_adapters::name::Name as _;
use josekit::jwk::alg::{ec::EcKeyPair, ed::EdKeyPair, rsa::RsaKeyPair as RsaJwk};
use josekit::jwk::{Jwk, KeyPair as _};
use josekit::jws::{ES256, EdDSA, JwsVerifier, RS256};
use serde_json::Value;
use strum::{EnumString, IntoStaticStr};
use zeroize::Zeroizing;

use super::file::is_meant_for;
use super::{DerivationKey, Key, KeyError, KeyFile};
use crate::base64url::BASE64;

/// The fewest bits of an RSA key (RFC 7518 section 3.3).
const RSA_BITS_MIN: u32 = 2048;

/// How a token is signed (RFC 7518 section 3.1, RFC 8037), by its name in a JOSE header. Each key has one algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "UPPERCASE")]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    #[strum(serialize = "EdDSA")]
    EdDsa,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 3] = [Self::Es256, Self::EdDsa, Self::Rs256];
}

/// aws-lc signs, because it takes half the time of OpenSSL.
enum Signer {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rs256(RsaKeyPair),
}

/// A signing key with its public JWK.
#[derive(derive_more::Debug)]
#[debug("SigningKey {{ kid: {:?}, algorithm: {algorithm:?}, first_use: {:?}, .. }}", self.kid(), self.first_use())]
pub struct SigningKey {
    derivation_key: DerivationKey,
    algorithm: Algorithm,
    signer: Signer,
    random: SystemRandom,
    public: Jwk,
}

impl SigningKey {
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
    const PURPOSE: &'static str = "signing";

    /// A test signature proves that the private and the public part match.
    fn from_file(file: &KeyFile) -> Result<Self, KeyError> {
        let KeyFile {
            jwk,
            kid,
            first_use,
        } = file;
        let algorithm = jwk.algorithm().and_then(|name| name.parse().ok());
        let algorithm = algorithm.ok_or(KeyError::Invalid("alg is not ES256, EdDSA or RS256"))?;
        is_meant_for(jwk, "sig", &["sign"])?;
        let (signer, public) = signer(algorithm, jwk)?;
        let secret = secret(jwk).ok_or(KeyError::Invalid("no key can be derived from it"))?;
        let key = Self {
            derivation_key: DerivationKey::new(&secret, kid, *first_use),
            algorithm,
            signer,
            random: SystemRandom::new(),
            public: published(&public, jwk, algorithm, kid)?,
        };
        key.self_test()?;
        Ok(key)
    }

    fn derivation_key(&self) -> &DerivationKey {
        &self.derivation_key
    }

    fn is_same(&self, before: &Self) -> bool {
        self.public == before.public
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
