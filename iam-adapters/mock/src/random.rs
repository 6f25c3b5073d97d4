//! Random values from the operating system.

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// 128 random bits in base64url without padding; none if the system has no random numbers.
#[must_use]
pub fn id() -> Option<String> {
    let mut bits = [0; 16];
    rand::fill(&mut bits).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bits))
}
