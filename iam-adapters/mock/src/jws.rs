//! Writes compact JWS (RFC 7515 section 7.1). The mock and its tests sign with several algorithms,
//! and also what a JWT library refuses to write: any header and any payload.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A compact JWS of this header and payload. `sign` gets the signing input; its `None` is passed on.
#[must_use]
pub fn compact(
    header: impl AsRef<[u8]>,
    payload: impl AsRef<[u8]>,
    sign: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
) -> Option<String> {
    let (header, payload) = (
        URL_SAFE_NO_PAD.encode(header),
        URL_SAFE_NO_PAD.encode(payload),
    );
    let mut token = format!("{header}.{payload}");
    let signature = sign(token.as_bytes())?;
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    Some(token)
}
