//! Access tokens: the claims of RFC 9068, signed with the key in use.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use iam_adapters::Moment;
use serde::Serialize;

use super::BASE64;
use super::Random;
use super::error::Internal;
use super::keys::{KeySet, SigningKey};
use super::knowledge::Source;

/// A signed JWT. It grants its bearer what is in its scope, so nothing shows it by accident.
pub struct AccessToken {
    jwt: String,
    /// How long it is valid, in seconds from now.
    pub expires_in: u64,
}

impl AccessToken {
    /// The token, for the one response that carries it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.jwt
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessToken")
            .field("expires_in", &self.expires_in)
            .finish_non_exhaustive()
    }
}

/// An access token with what was granted.
#[derive(Debug)]
pub struct Exchanged {
    /// The token.
    pub token: AccessToken,
    /// Its scope; empty where nothing was granted.
    pub scope: String,
    /// What the decision rests on.
    pub source: Source,
}

/// What every token of this gateway says alike.
#[derive(Debug, Clone)]
pub struct TokenPolicy {
    /// `iss`: the base of the discovery documents, byte for byte.
    pub issuer: String,
    /// `aud`: who shall accept the tokens. Never empty.
    pub audience: Vec<String>,
    /// `client_id` (RFC 9068 section 2.2). The contract knows no clients; this names the gateway.
    pub client_id: String,
    /// How long a token is valid, at most.
    pub lifetime: Duration,
}

/// What this one token says.
#[derive(Debug, Clone, Copy)]
pub struct Grant<'a> {
    /// `sub`.
    pub subject: &'a str,
    /// `sid`.
    pub session_id: &'a str,
    /// `scope`; left out of the token where nothing was granted.
    pub scope: &'a str,
    /// No token outlives its session. In seconds since 1970.
    pub session_expires_at: u64,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: Audience<'a>,
    exp: u64,
    iat: u64,
    jti: &'a str,
    client_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    scope: &'a str,
    sid: &'a str,
}

/// RFC 7519 section 4.1.3: one audience may stand as a string, which more verifiers understand.
#[derive(Serialize)]
#[serde(untagged)]
enum Audience<'a> {
    One(&'a str),
    Many(&'a [String]),
}

const JTI_LEN: usize = 16;
const JTI_TEXT_LEN: usize = 22;

/// Signs a token.
///
/// # Errors
///
/// [`Internal`]: no random numbers, or a key that does not sign.
pub fn mint(
    keys: &KeySet<SigningKey>,
    policy: &TokenPolicy,
    grant: Grant<'_>,
    now: Moment,
    random: &dyn Random,
) -> Result<AccessToken, Internal> {
    let iat = now.unix_seconds();
    let expires_in = policy
        .lifetime
        .as_secs()
        .min(grant.session_expires_at.saturating_sub(iat));
    let mut id = [0; JTI_LEN];
    random.fill(&mut id)?;
    let mut jti = [0; JTI_TEXT_LEN];
    BASE64
        .encode_slice(id, &mut jti)
        .map_err(|_| Internal::Encoding)?;
    let mut claims = Vec::with_capacity(CLAIMS_CAPACITY);
    let written = serde_json::to_writer(
        &mut claims,
        &Claims {
            iss: &policy.issuer,
            sub: grant.subject,
            aud: match policy.audience.as_slice() {
                [one] => Audience::One(one),
                many => Audience::Many(many),
            },
            exp: iat + expires_in,
            iat,
            jti: std::str::from_utf8(&jti).map_err(|_| Internal::Encoding)?,
            client_id: &policy.client_id,
            scope: grant.scope,
            sid: grant.session_id,
        },
    );
    written.map_err(|_| Internal::Encoding)?;

    let key = keys.current(now);
    let header = key.encoded_header();
    let mut jwt = Vec::with_capacity(header.len() + encoded(claims.len()) + SIGNATURE_CAPACITY);
    jwt.extend_from_slice(header.as_bytes());
    append(&mut jwt, &claims)?;
    let signature = key.sign(&jwt).ok_or(Internal::Signing)?;
    append(&mut jwt, &signature)?;
    let jwt = String::from_utf8(jwt).map_err(|_| Internal::Encoding)?;
    Ok(AccessToken { jwt, expires_in })
}

/// Claims of an ordinary length, so that the buffer seldom grows.
const CLAIMS_CAPACITY: usize = 768;

/// An ECDSA signature with its dot and base64url.
const SIGNATURE_CAPACITY: usize = 96;

/// The length of base64url without padding.
const fn encoded(bytes: usize) -> usize {
    (bytes * 4).div_ceil(3)
}

/// A dot, and the bytes in base64url.
fn append(jwt: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Internal> {
    jwt.push(b'.');
    let begin = jwt.len();
    jwt.resize(begin + encoded(bytes.len()), 0);
    let end = jwt.get_mut(begin..).ok_or(Internal::Encoding)?;
    let written = BASE64
        .encode_slice(bytes, end)
        .map_err(|_| Internal::Encoding)?;
    jwt.truncate(begin + written);
    Ok(())
}

#[cfg(test)]
mod tests;
