//! Helpers of the fuzz targets.

pub mod gateway;
pub mod upstream;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use iam_adapters::Moment;
use serde_json::Value;

/// The time in every target.
pub const NOW: Moment = Moment {
    unix: Duration::from_secs(1_800_000_000),
    monotonic: Duration::ZERO,
};

/// A secret in the corpus; no message may contain it.
pub const CANARY: &str = "CANARY";

/// RFC 6749 section 3.3, implemented differently from the code under test.
#[must_use]
pub fn is_scope_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| ('!'..='~').contains(&c) && c != '"' && c != '\\')
}

/// The claims of a JWT, without verification.
#[must_use]
pub fn claims(jwt: &str) -> Option<Value> {
    let payload = URL_SAFE_NO_PAD.decode(jwt.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&payload).ok()
}
