//! base64url.

use std::sync::LazyLock;

use base64::engine::general_purpose::NO_PAD;
use base64::engine::simd::Simd;

/// base64url without padding (RFC 7515 section 2). It refuses text that is not canonical.
pub(crate) static BASE64: LazyLock<Simd> = LazyLock::new(|| Simd::url_safe(NO_PAD));
