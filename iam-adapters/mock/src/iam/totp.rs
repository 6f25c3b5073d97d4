//! Time-based one-time passwords (RFC 6238).

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;
use totp_rs::{Builder, Secret, Totp};

/// A secret that is not base32, or empty. Does not contain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the totp_secret is not base32 in capitals (RFC 4648 section 6)")]
pub struct InvalidTotpSecret;

/// Verifies the one-time passwords of a user: those of RFC 6238 with SHA-1, 6 digits and steps of 30 s. That of
/// the step before or after is accepted too, each once (section 5.2), as by Keycloak.
#[derive(Debug, Clone)]
pub struct TotpVerifier {
    totp: Totp,
    /// The steps whose one-time password was accepted, as far as they could be accepted again.
    accepted: Vec<u64>,
}

impl TotpVerifier {
    /// The verifier for a secret in base32 (RFC 4648 section 6), in capitals and without padding. It has
    /// accepted nothing yet.
    ///
    /// # Errors
    ///
    /// [`InvalidTotpSecret`].
    pub fn new(secret: &SecretString) -> Result<Self, InvalidTotpSecret> {
        let secret = Secret::try_from_base32(secret.expose_secret()).ok();
        let secret = secret.filter(|secret| !secret.as_bytes().is_empty());
        let secret = secret.ok_or(InvalidTotpSecret)?;
        // Not `build`, which refuses secrets of fewer than 16 bytes, as examples often have.
        let totp = Builder::new().with_secret(secret).build_noncompliant();
        let accepted = Vec::new();
        Ok(Self { totp, accepted })
    }

    /// The secret, as it is written.
    pub(super) fn secret(&self) -> SecretString {
        self.totp.secret().to_base32().into()
    }

    /// The one-time password at this time since 1970.
    #[must_use]
    pub fn otp_at(&self, time: Duration) -> String {
        self.totp.generate(time.as_secs()).to_string()
    }

    /// The step of a one-time password that can be accepted now.
    pub(super) fn verify(&self, otp: Option<&SecretString>, now: Duration) -> Option<u64> {
        let otp = otp.map_or("", |otp| otp.expose_secret());
        let step = self.totp.check(otp, now.as_secs());
        step.filter(|step| !self.accepted.contains(step))
    }

    /// Refuses the one-time password of this step from now on.
    pub(super) fn accept(&mut self, step: u64) {
        let window = 2 * u64::from(self.totp.skew());
        self.accepted
            .retain(|accepted| accepted.abs_diff(step) <= window);
        self.accepted.push(step);
    }
}
