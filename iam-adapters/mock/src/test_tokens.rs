//! Access tokens that say whatever a test wants, signed with the gateway's key as all others are.

use auth_gateway::gateway::keys::{Dated as _, SigningKey};
use auth_gateway::gateway::{Gateway, TokenPolicy};
use iam_adapters::Moment;
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::{jws, random};

/// What a token says instead of the usual. `null` takes a member away.
#[derive(Debug, Clone, Default)]
pub struct TestToken {
    /// Laid over `iss`, `aud`, `client_id`, `iat`, `exp` and `jti`, over a `sub` and a `sid` that
    /// nobody has, and over the gateway's default scope, where it has one.
    pub claims: Map<String, Value>,
    /// Laid over `typ`, `alg` and `kid`. Another `alg` or `kid` changes nothing about how the
    /// token is signed.
    pub header: Map<String, Value>,
}

/// Why there is no test token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TestTokenError {
    /// The machine gives no random numbers.
    #[error("a test token needs random numbers, and there are none")]
    Random,
    /// The claims or the header cannot be written as JSON.
    #[error("a test token cannot be encoded")]
    Encoding,
    /// The library refuses to sign.
    #[error("a test token cannot be signed")]
    Signing,
}

/// Signs a token of any content with the key that signs now. No IAM is asked whether anybody may
/// have it.
///
/// # Errors
///
/// [`TestTokenError`].
pub fn sign(gateway: &Gateway, token: TestToken) -> Result<SecretString, TestTokenError> {
    let now = gateway.now();
    let policy = gateway.policy();
    let usual = usual_claims(&policy.token, &policy.default_scope, now)?;
    let keys = gateway.keys().signing.key_set();
    sign_with(keys.current(now), usual, token)
}

fn usual_claims(
    policy: &TokenPolicy,
    scope: &str,
    now: Moment,
) -> Result<Map<String, Value>, TestTokenError> {
    let iat = now.unix_seconds();
    let aud = match policy.audience.as_slice() {
        [one] => json!(one),
        many => json!(many),
    };
    let scope = (!scope.is_empty()).then_some(scope);
    let id = || random::id().ok_or(TestTokenError::Random);
    let claims = [
        ("iss", json!(policy.issuer)),
        ("aud", aud),
        ("client_id", json!(policy.client_id)),
        ("iat", json!(iat)),
        ("exp", json!(iat.saturating_add(policy.lifetime.as_secs()))),
        ("jti", json!(id()?)),
        ("sub", json!(id()?)),
        ("sid", json!(id()?)),
        ("scope", json!(scope)),
    ];
    Ok(Map::from_iter(
        claims.map(|(name, value)| (name.to_owned(), value)),
    ))
}

fn sign_with(
    key: &SigningKey,
    claims: Map<String, Value>,
    token: TestToken,
) -> Result<SecretString, TestTokenError> {
    let header = [
        ("typ", "at+jwt"),
        ("alg", key.algorithm().name()),
        ("kid", key.kid()),
    ];
    let header = header.map(|(name, value)| (name.to_owned(), json!(value)));
    let header = laid_over(Map::from_iter(header), token.header)?;
    let claims = laid_over(claims, token.claims)?;
    let token = jws::compact(header, claims, |input| key.sign(input));
    Ok(token.ok_or(TestTokenError::Signing)?.into())
}

fn laid_over(
    mut usual: Map<String, Value>,
    said: Map<String, Value>,
) -> Result<Vec<u8>, TestTokenError> {
    usual.extend(said);
    usual.retain(|_, value| !value.is_null());
    serde_json::to_vec(&usual).map_err(|_| TestTokenError::Encoding)
}
