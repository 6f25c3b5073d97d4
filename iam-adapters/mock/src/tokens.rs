//! What a token says, and whether anybody should believe it.

use std::time::Duration;

use auth_gateway::gateway::Gateway;
use auth_gateway::gateway::TokenPolicy;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::logout_token::verify_signature;
use serde::Serialize;
use serde_json::{Map, Value};
use thiserror::Error;

/// A token taken apart and held against what RFC 9068 section 4 asks of those who verify it.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// The JOSE header.
    pub header: Map<String, Value>,
    /// What it claims, verified or not.
    pub claims: Map<String, Value>,
    /// Whether there are no problems.
    pub valid: bool,
    /// All that is wrong, each beginning with the member that it is about, or with `signature`,
    /// and a colon.
    pub problems: Vec<String>,
    /// How long until `exp`, in seconds; negative where that is past, none where there is none.
    pub expires_in: Option<i64>,
}

/// Why there is nothing to inspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoToken {
    /// A session token, or another JWE.
    #[error("this is a JWE (five parts), such as a session token, and only its maker can read it")]
    Encrypted,
    /// Not of the form of a JWT.
    #[error("a JWT has three parts with dots between them, and this has {0}")]
    Parts(usize),
    /// A part that nobody can read.
    #[error("the {0} of the token is not a JSON object in base64url without padding")]
    Unreadable(&'static str),
}

/// Takes a token apart and verifies it with the keys that the gateway publishes, of which others
/// keep a copy for `jwks_max_age`, as of the gateway's own time.
///
/// # Errors
///
/// [`NoToken`] where it is no JWT.
pub fn inspect(
    gateway: &Gateway,
    jwks_max_age: Duration,
    token: &str,
) -> Result<Inspection, NoToken> {
    let (policy, now) = (&gateway.policy().token, gateway.now());
    let published = gateway.keys().published(policy.lifetime, jwks_max_age, now);
    inspect_with(&published, policy, now.unix_seconds(), token)
}

fn inspect_with(
    key_set: &Value,
    policy: &TokenPolicy,
    now: u64,
    token: &str,
) -> Result<Inspection, NoToken> {
    let parts: Vec<_> = token.split('.').collect();
    let (header, claims) = match parts.as_slice() {
        [header, claims, _] => (object(header, "header")?, object(claims, "payload")?),
        [_, _, _, _, _] => return Err(NoToken::Encrypted),
        other => return Err(NoToken::Parts(other.len())),
    };
    let mut problems = Vec::new();
    check_header(&header, &mut problems);
    check_signature(key_set, token, &mut problems);
    check_parties(&claims, policy, &mut problems);
    let expires_in = check_times(&claims, now, &mut problems);
    Ok(Inspection {
        header,
        claims,
        valid: problems.is_empty(),
        problems,
        expires_in,
    })
}

fn object(part: &str, name: &'static str) -> Result<Map<String, Value>, NoToken> {
    let json = URL_SAFE_NO_PAD.decode(part).ok();
    json.and_then(|json| serde_json::from_slice(&json).ok())
        .ok_or(NoToken::Unreadable(name))
}

/// RFC 9068 section 4: without its type, an ID token would do as well.
fn check_header(header: &Map<String, Value>, problems: &mut Vec<String>) {
    let typ = header.get("typ").and_then(Value::as_str);
    let typ = typ.unwrap_or_default().to_ascii_lowercase();
    if typ.strip_prefix("application/").unwrap_or(&typ) != "at+jwt" {
        problems.push("typ: is not at+jwt, so this is no access token".to_owned());
    }
    if !header.get("kid").is_some_and(Value::is_string) {
        problems.push("kid: is missing, so that no key can be found".to_owned());
    }
}

fn check_signature(key_set: &Value, token: &str, problems: &mut Vec<String>) {
    let keys = VerificationKeys::parse(key_set.to_string().as_bytes());
    let problem = match keys.map(|keys| verify_signature(token, &keys)) {
        Ok(Ok(_)) => return,
        Ok(Err(why)) => why.to_string(),
        Err(why) => why.to_string(),
    };
    problems.push(format!("signature: {problem}"));
}

fn check_parties(claims: &Map<String, Value>, policy: &TokenPolicy, problems: &mut Vec<String>) {
    if claims.get("iss").and_then(Value::as_str) != Some(&policy.issuer) {
        problems.push(format!("iss: is not {}", policy.issuer));
    }
    let audience = match claims.get("aud") {
        Some(Value::Array(many)) => many.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    let is_ours = |one: &Value| policy.audience.iter().any(|known| one == known);
    if !audience.iter().any(is_ours) {
        let known = policy.audience.join(", ");
        problems.push(format!("aud: names none of {known}"));
    }
    for name in ["sub", "client_id", "jti"] {
        if !claims.get(name).is_some_and(Value::is_string) {
            problems.push(format!("{name}: is missing, or not a string"));
        }
    }
}

/// How long until the token expires, and what is wrong with its times.
fn check_times(claims: &Map<String, Value>, now: u64, problems: &mut Vec<String>) -> Option<i64> {
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let mut until = |name: &str, is_needed: bool| {
        let claim = claims.get(name);
        let time = claim.and_then(Value::as_i64);
        if time.is_none() && (is_needed || claim.is_some()) {
            problems.push(format!(
                "{name}: is missing, or not a whole number of seconds"
            ));
        }
        time.map(|time| time.saturating_sub(now))
    };
    let expires_in = until("exp", true);
    let begins_in = until("nbf", false);
    let issued_in = until("iat", true);
    if let Some(past) = expires_in.filter(|seconds| *seconds <= 0) {
        problems.push(format!("exp: expired {} s ago", past.unsigned_abs()));
    }
    if let Some(early) = begins_in.filter(|seconds| *seconds > 0) {
        problems.push(format!("nbf: not valid for another {early} s"));
    }
    if let Some(ahead) = issued_in.filter(|seconds| *seconds > 0) {
        problems.push(format!("iat: issued {ahead} s from now"));
    }
    expires_in
}

#[cfg(test)]
mod tests;
