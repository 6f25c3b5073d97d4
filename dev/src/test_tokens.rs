//! Test tokens: access tokens with any claims, signed with the gateway's key.

use auth_gateway_core::keys::{Key as _, SigningKey};
use auth_gateway_core::{Gateway, TokenPolicy, TokenType};
use iam_adapters::Moment;
use iam_adapters::name::Name as _;
use mock_iam::{jws, random};
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use thiserror::Error;

/// Overrides of the members of a valid access token. `null` removes a member.
#[derive(Debug, Clone, Default)]
pub struct TestToken {
    /// Overrides `iss`, `aud`, `client_id`, `iat`, `exp`, `jti`, a random `sub` and `sid`, and the
    /// gateway's default scope, if it has one.
    pub claims: Map<String, Value>,
    /// Overrides `typ`, `alg` and `kid`. They do not change how the token is signed.
    pub header: Map<String, Value>,
}

/// Why no test token was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TestTokenError {
    /// The system has no random numbers.
    #[error("a test token needs random numbers, and there are none")]
    Random,
    /// The claims or the header cannot be written as JSON.
    #[error("a test token cannot be encoded")]
    Encoding,
    /// Signing failed.
    #[error("a test token cannot be signed")]
    Signing,
}

/// Signs a token with the current key. Does not call the IAM.
///
/// # Errors
///
/// [`TestTokenError`].
pub fn sign(gateway: &Gateway, token: TestToken) -> Result<SecretString, TestTokenError> {
    let now = gateway.replica.clock.now();
    let policy = &gateway.policy;
    let defaults = default_claims(&policy.token, &policy.default_scope, now)?;
    let keys = gateway.replica.keys.signing.key_set();
    sign_with(keys.current(now), policy.token.token_type, defaults, token)
}

fn default_claims(
    policy: &TokenPolicy,
    scope: &str,
    now: Moment,
) -> Result<Map<String, Value>, TestTokenError> {
    let iat = now.unix_seconds();
    let aud = json!(policy.audience_of(scope));
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
    token_type: TokenType,
    claims: Map<String, Value>,
    token: TestToken,
) -> Result<SecretString, TestTokenError> {
    let header = [
        ("typ", token_type.name()),
        ("alg", key.algorithm().name()),
        ("kid", key.kid()),
    ];
    let header = header.map(|(name, value)| (name.to_owned(), json!(value)));
    let header = override_members(Map::from_iter(header), token.header)?;
    let claims = override_members(claims, token.claims)?;
    let token = jws::compact(header, claims, |input| key.sign(input));
    Ok(token.ok_or(TestTokenError::Signing)?.into())
}

fn override_members(
    mut members: Map<String, Value>,
    overrides: Map<String, Value>,
) -> Result<Vec<u8>, TestTokenError> {
    members.extend(overrides);
    members.retain(|_, value| !value.is_null());
    serde_json::to_vec(&members).map_err(|_| TestTokenError::Encoding)
}
