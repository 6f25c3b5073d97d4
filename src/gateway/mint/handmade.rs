//! Tokens that say whatever a test wants, signed as all others are.

use base64::Engine as _;
use iam_adapters::Moment;
use secrecy::SecretString;
use serde_json::{Map, Value, json};

use super::{TokenPolicy, append};
use crate::gateway::error::Internal;
use crate::gateway::keys::{Dated as _, SigningKey};
use crate::gateway::random::Random;
use crate::gateway::{BASE64, Gateway};

/// What a token says instead of the usual. `null` takes a member away.
#[derive(Debug, Clone, Default)]
pub struct Handmade {
    /// Laid over `iss`, `aud`, `client_id`, `iat`, `exp` and `jti`, over a `sub` and a `sid` that
    /// nobody has, and over the gateway's default scope, where it has one.
    pub claims: Map<String, Value>,
    /// Laid over `typ`, `alg` and `kid`. Another `alg` or `kid` changes nothing about how the
    /// token is signed.
    pub header: Map<String, Value>,
}

impl Gateway {
    /// Signs a token of any content with the key that signs now. For tests: it asks nobody
    /// whether anybody may have it.
    ///
    /// # Errors
    ///
    /// [`Internal`]: no random numbers, or a key that does not sign.
    pub fn mint_handmade(&self, said: Handmade) -> Result<SecretString, Internal> {
        let now = self.clock.now();
        let policy = &self.policy;
        let usual = usual_claims(&policy.token, &policy.default_scope, now, &*self.random)?;
        let key_set = self.keys.signing.key_set();
        sign(key_set.current(now), usual, said)
    }
}

fn usual_claims(
    policy: &TokenPolicy,
    scope: &str,
    now: Moment,
    random: &dyn Random,
) -> Result<Map<String, Value>, Internal> {
    let iat = now.unix_seconds();
    let aud = match policy.audience.as_slice() {
        [one] => json!(one),
        many => json!(many),
    };
    let scope = (!scope.is_empty()).then_some(scope);
    let claims = [
        ("iss", json!(policy.issuer)),
        ("aud", aud),
        ("client_id", json!(policy.client_id)),
        ("iat", json!(iat)),
        ("exp", json!(iat.saturating_add(policy.lifetime.as_secs()))),
        ("jti", json!(name(random)?)),
        ("sub", json!(name(random)?)),
        ("sid", json!(name(random)?)),
        ("scope", json!(scope)),
    ];
    Ok(Map::from_iter(
        claims.map(|(name, value)| (name.to_owned(), value)),
    ))
}

/// 128 bits that nobody has had before.
fn name(random: &dyn Random) -> Result<String, Internal> {
    let mut bits = [0; 16];
    random.fill(&mut bits)?;
    Ok(BASE64.encode(bits))
}

fn sign(
    key: &SigningKey,
    claims: Map<String, Value>,
    said: Handmade,
) -> Result<SecretString, Internal> {
    let header = [
        ("typ", "at+jwt"),
        ("alg", key.algorithm().name()),
        ("kid", key.kid()),
    ];
    let header = header.map(|(name, value)| (name.to_owned(), json!(value)));
    let header = laid_over(Map::from_iter(header), said.header)?;
    let mut jwt = BASE64.encode(header).into_bytes();
    append(&mut jwt, &laid_over(claims, said.claims)?)?;
    let signature = key.sign(&jwt).ok_or(Internal::Signing)?;
    append(&mut jwt, &signature)?;
    let jwt = String::from_utf8(jwt).map_err(|_| Internal::Encoding)?;
    Ok(jwt.into())
}

fn laid_over(mut usual: Map<String, Value>, said: Map<String, Value>) -> Result<Vec<u8>, Internal> {
    usual.extend(said);
    usual.retain(|_, value| !value.is_null());
    serde_json::to_vec(&usual).map_err(|_| Internal::Encoding)
}
