//! Inspects tokens: decodes them and verifies them as RFC 9068 section 4 requires.

use auth_gateway_core::{Gateway, TokenPolicy, TokenType};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::logout_token::verify_signature;
use iam_adapters::name::Name as _;
use serde::Serialize;
use serde_json::{Map, Value};
use thiserror::Error;

/// A decoded token and its problems by RFC 9068 section 4.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// The JOSE header.
    pub header: Map<String, Value>,
    /// The claims, verified or not.
    pub claims: Map<String, Value>,
    /// Whether there are no problems.
    pub valid: bool,
    /// All problems. Each begins with the member, or `signature`, and a colon.
    pub problems: Vec<String>,
    /// Seconds until `exp`; negative if expired, none without `exp`.
    pub expires_in: Option<i64>,
}

/// The text is not a JWT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotAJwt {
    /// A session token, or another JWE.
    #[error(
        "this is a JWE (five parts), such as a session token, which only the gateway can decrypt"
    )]
    Encrypted,
    /// Not three parts.
    #[error("a JWT has three parts separated by dots, but this has {0}")]
    Parts(usize),
    /// A part that is not a JSON object.
    #[error("the {0} of the token is not a JSON object in base64url without padding")]
    Unreadable(&'static str),
}

/// Decodes a token and verifies it with the published keys of the gateway, at the gateway's time.
///
/// # Errors
///
/// [`NotAJwt`] if it is not a JWT.
pub fn inspect(gateway: &Gateway, token: &str) -> Result<Inspection, NotAJwt> {
    let (policy, now) = (&gateway.policy.token, gateway.replica.clock.now());
    let published = gateway.replica.keys.published(now);
    inspect_with(&published, policy, now.unix_seconds(), token)
}

fn inspect_with(
    key_set: &Value,
    policy: &TokenPolicy,
    now: u64,
    token: &str,
) -> Result<Inspection, NotAJwt> {
    let parts: Vec<_> = token.split('.').collect();
    let (header, claims) = match parts.as_slice() {
        [header, claims, _] => (object(header, "header")?, object(claims, "payload")?),
        [_, _, _, _, _] => return Err(NotAJwt::Encrypted),
        other => return Err(NotAJwt::Parts(other.len())),
    };
    let mut problems = Vec::new();
    check_header(&header, policy.token_type, &mut problems);
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

fn object(part: &str, name: &'static str) -> Result<Map<String, Value>, NotAJwt> {
    let json = URL_SAFE_NO_PAD.decode(part).ok();
    json.and_then(|json| serde_json::from_slice(&json).ok())
        .ok_or(NotAJwt::Unreadable(name))
}

/// RFC 9068 section 4: without the check of the type, an ID token would be accepted as well.
fn check_header(header: &Map<String, Value>, expected: TokenType, problems: &mut Vec<String>) {
    let typ = header.get("typ").and_then(Value::as_str);
    let typ = typ.unwrap_or_default().to_ascii_lowercase();
    let expected = expected.name();
    if !typ
        .strip_prefix("application/")
        .unwrap_or(&typ)
        .eq_ignore_ascii_case(expected)
    {
        problems.push(format!(
            "typ: is not {expected}, so this is not an access token"
        ));
    }
    if !header.get("kid").is_some_and(Value::is_string) {
        problems.push("kid: is missing, so no key can be selected".to_owned());
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
    let of_scopes = policy.audiences.iter().map(|entry| &entry.audience);
    let known: Vec<_> = policy.audience.iter().chain(of_scopes).collect();
    if !audience
        .iter()
        .any(|one| known.iter().any(|known| one == *known))
    {
        let known = known
            .into_iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        problems.push(format!("aud: contains none of {known}"));
    }
    for name in ["sub", "client_id", "jti"] {
        if !claims.get(name).is_some_and(Value::is_string) {
            problems.push(format!("{name}: is missing, or not a string"));
        }
    }
}

/// Checks the times and returns the seconds until the token expires.
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
