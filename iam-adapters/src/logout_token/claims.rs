//! The claims of a logout token (section 2.4), and their validation (section 2.6).

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::jws::present;
use super::{Ended, InvalidLogoutToken, LogoutNotice};
use crate::clock::Moment;
use crate::json::{UniqueMembers, object};
use crate::types::Subject;

/// How long after its issue a token is accepted. Keycloak's tokens have this lifetime, and are sent
/// immediately.
pub const AGE_MAX: Duration = Duration::from_secs(120);

/// How far the IAM's clock may be ahead of the gateway's. A clock that is behind is covered by
/// [`AGE_MAX`].
pub const SKEW_MAX: Duration = Duration::from_secs(60);

const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// Deserialized directly from the JSON, so that a repeated member, a number in a string and `null` are
/// refused.
#[derive(Deserialize)]
struct LogoutClaims {
    iss: String,
    aud: LogoutAudience,
    iat: u64,
    jti: String,
    events: UniqueMembers,
    /// Required by the specification since 2022. For an older IAM only `iat` is checked.
    #[serde(default, deserialize_with = "given")]
    exp: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    nbf: Option<u64>,
    #[serde(default, deserialize_with = "given")]
    sid: Option<String>,
    #[serde(default, deserialize_with = "given")]
    sub: Option<String>,
    #[serde(default, deserialize_with = "present")]
    nonce: bool,
}

/// RFC 7519 section 4.1.3.
#[derive(Deserialize)]
#[serde(untagged)]
enum LogoutAudience {
    One(String),
    Many(Vec<String>),
}

impl LogoutAudience {
    fn names(&self, audience: &str) -> bool {
        match self {
            Self::One(one) => one == audience,
            Self::Many(many) => many.iter().any(|one| one == audience),
        }
    }
}

fn given<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// The issuer in the claims of a token whose signature is not verified.
pub(super) fn issuer(claims: &[u8]) -> Result<String, InvalidLogoutToken> {
    #[derive(Deserialize)]
    struct Issuer {
        iss: String,
    }
    let claims: Issuer = object(claims).map_err(|_| InvalidLogoutToken::Claims)?;
    Ok(claims.iss)
}

/// Validates the claims of a token whose signature is verified.
pub(super) fn check(
    claims: &[u8],
    issuer: &str,
    audience: &str,
    now: Moment,
) -> Result<LogoutNotice, InvalidLogoutToken> {
    let claims: LogoutClaims = object(claims).map_err(|_| InvalidLogoutToken::Claims)?;
    let now = now.unix_seconds();
    let latest = now.saturating_add(SKEW_MAX.as_secs());
    if claims.iss != issuer {
        return Err(InvalidLogoutToken::Issuer);
    }
    if !claims.aud.names(audience) {
        return Err(InvalidLogoutToken::Audience);
    }
    if claims.iat > latest || now.saturating_sub(claims.iat) > AGE_MAX.as_secs() {
        return Err(InvalidLogoutToken::Time);
    }
    if claims.exp.is_some_and(|exp| exp <= now) || claims.nbf.is_some_and(|nbf| nbf > latest) {
        return Err(InvalidLogoutToken::Expired);
    }
    match claims.events.get(EVENT) {
        Some(Value::Object(_)) => {}
        Some(_) => return Err(InvalidLogoutToken::Claims),
        None => return Err(InvalidLogoutToken::Event),
    }
    if claims.nonce {
        return Err(InvalidLogoutToken::Nonce);
    }
    if [Some(&claims.jti), claims.sid.as_ref(), claims.sub.as_ref()]
        .into_iter()
        .flatten()
        .any(String::is_empty)
    {
        return Err(InvalidLogoutToken::Claims);
    }
    let ended = match (claims.sid, claims.sub.and_then(Subject::new)) {
        (Some(id), _) => Ended::Session(id),
        (None, Some(subject)) => Ended::AllOf(subject),
        (None, None) => return Err(InvalidLogoutToken::NoSubject),
    };
    Ok(LogoutNotice {
        ended,
        issued_at: claims.iat,
        jti: claims.jti,
    })
}
