//! Keys that seal.

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::file::is_meant_for;
use super::{DerivationKey, Key, KeyError, KeyFile, KeyPurpose};

const KEY_LEN: usize = 32;

/// A key that seals and opens.
#[derive(derive_more::Debug)]
#[debug("SealingKey {{ kid: {:?}, first_use: {:?}, .. }}", self.kid(), self.first_use())]
pub struct SealingKey {
    derivation_key: DerivationKey,
    aead: LessSafeKey,
}

impl SealingKey {
    /// The `alg` of the JWK in the key's file.
    pub const ALGORITHM: &'static str = "A256GCM";

    /// A key of 32 secret bytes.
    ///
    /// # Errors
    ///
    /// [`KeyError::Invalid`] if there are more or fewer, or all are equal.
    pub fn new(secret: &[u8], kid: &str, first_use: Timestamp) -> Result<Self, KeyError> {
        let all_equal = secret.iter().all(|byte| Some(byte) == secret.first());
        if secret.len() != KEY_LEN || all_equal {
            return Err(KeyError::Invalid("k is not 32 random bytes"));
        }
        let key = UnboundKey::new(&AES_256_GCM, secret)
            .map_err(|_| KeyError::Invalid("not an A256GCM key"))?;
        Ok(Self {
            derivation_key: DerivationKey::new(secret, kid, first_use),
            aead: LessSafeKey::new(key),
        })
    }

    /// Seals and opens (AES-256-GCM).
    #[must_use]
    pub const fn aead(&self) -> &LessSafeKey {
        &self.aead
    }
}

impl Key for SealingKey {
    const PURPOSE: &'static str = "sealing";

    fn from_file(file: &KeyFile) -> Result<Self, KeyError> {
        if file.purpose() != Some(KeyPurpose::Sealing) || file.jwk.key_type() != "oct" {
            return Err(KeyError::Invalid("not an A256GCM key"));
        }
        is_meant_for(&file.jwk, "enc", &["encrypt", "decrypt"])?;
        let secret = Zeroizing::new(file.jwk.key_value().unwrap_or_default());
        Self::new(&secret, &file.kid, file.first_use)
    }

    fn derivation_key(&self) -> &DerivationKey {
        &self.derivation_key
    }

    fn is_same(&self, before: &Self) -> bool {
        let secret = |key: &Self| {
            key.derivation_key
                .derive(b"auth-gateway comparison of keys")
        };
        secret(self) == secret(before)
    }
}
