//! One-time passwords of test users (RFC 6238).

use std::time::Duration;

use mock_iam::TotpVerifier;
use secrecy::SecretString;

/// The secret of RFC 6238 appendix B, as text and in base32.
pub const SECRET: &str = "12345678901234567890";
/// The same secret in base32 (RFC 4648 section 6).
pub const SECRET_BASE32: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

/// What verifies the one-time passwords of this secret.
pub fn verifier() -> TotpVerifier {
    TotpVerifier::new(&SECRET_BASE32.into()).expect("base32")
}

/// The one-time password of this secret at a time since 1970.
pub fn otp_at(time: Duration) -> SecretString {
    verifier().otp_at(time).into()
}
