//! Introspection responses (RFC 7662 section 2.2), whose members are selected by settings.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::claims;
use crate::clock::Moment;
use crate::error::{IamError, Misconfiguration};
use crate::json::UniqueMembers;
use crate::logout_token::SKEW_MAX;
use crate::oauth2_client::{seconds, shown_issuer};
use crate::types::Subject;

/// The 200 of the introspection endpoint.
pub(super) struct IntrospectionClaims {
    active: bool,
    /// Optional: RFC 7662 requires only `active`.
    client_id: Option<String>,
    issuer: Option<String>,
    claims: Value,
}

impl<'de> Deserialize<'de> for IntrospectionClaims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let UniqueMembers(claims) = UniqueMembers::deserialize(deserializer)?;
        let text = |name: &str| match claims.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(D::Error::custom("a member is not a text")),
        };
        Ok(Self {
            active: claims
                .get("active")
                .and_then(Value::as_bool)
                .ok_or_else(|| D::Error::custom("active is not a boolean"))?,
            client_id: text("client_id")?,
            issuer: text("iss")?,
            claims,
        })
    }
}

impl IntrospectionClaims {
    /// The whole response.
    pub(super) const fn members(&self) -> &Value {
        &self.claims
    }

    /// Whether the token is active by all members of the response. A token after its `exp` is not, even
    /// if `active` is `true`, because it never becomes valid again. Another issuer or client, and a
    /// token before its `nbf`, are faults: they do not say that the session has ended.
    pub(super) fn is_active(
        &self,
        issuer: &str,
        client_id: &str,
        now: Moment,
    ) -> Result<bool, IamError> {
        if !self.active {
            return Ok(false);
        }
        if self.issuer.as_ref().is_some_and(|named| named != issuer) {
            return Err(IamError::misconfigured(
                Misconfiguration::Issuer,
                format!(
                    "the introspection response names {}, not {issuer}",
                    shown_issuer(self.issuer.as_deref().unwrap_or_default())
                ),
            ));
        }
        if self
            .client_id
            .as_ref()
            .is_some_and(|named| named != client_id)
        {
            return Err(IamError::Unreadable(
                "the introspection response is about another client".into(),
            ));
        }
        let (now, skew) = (now.unix_seconds(), SKEW_MAX.as_secs());
        if self
            .time("nbf")?
            .is_some_and(|begin| begin > now.saturating_add(skew))
        {
            return Err(IamError::Unreadable(
                "the introspected token is not valid yet: compare the clocks".into(),
            ));
        }
        let end = self.time("exp")?;
        Ok(end.is_none_or(|end| end.saturating_add(skew) > now))
    }

    /// A time (RFC 7519 section 2: `NumericDate`), if the response has it.
    fn time(&self, name: &str) -> Result<Option<u64>, IamError> {
        match self.claims.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => seconds(value).map(Some).ok_or_else(|| {
                IamError::Unreadable(format!("{name} in the introspection response").into())
            }),
        }
    }

    /// The member with this name, or at this JSON pointer (RFC 6901), which begins with `/`; `None`: it is
    /// missing or null.
    fn claim(&self, name: &str) -> Option<&Value> {
        claims::member(&self.claims, name)
    }

    /// Whether the response has the claim.
    pub(super) fn has(&self, claim: &str) -> bool {
        self.claim(claim).is_some()
    }

    /// The subject: a text or an integer; `None`: neither, or missing.
    pub(super) fn subject(&self, claim: &str) -> Option<Subject> {
        let subject = match self.claim(claim) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) if number.is_u64() => Some(number.to_string()),
            _ => None,
        };
        subject.and_then(Subject::new)
    }

    /// The names in a text with spaces between them (RFC 7662: `scope`) or in an array. A missing claim
    /// has none.
    pub(super) fn names(&self, claim: &str) -> Result<Vec<&str>, IamError> {
        let names = match self.claim(claim) {
            None => Some(Vec::new()),
            Some(Value::String(text)) => Some(text.split_ascii_whitespace().collect()),
            Some(Value::Array(names)) => names.iter().map(Value::as_str).collect(),
            Some(_) => None,
        };
        names.ok_or_else(|| {
            IamError::Unreadable(
                "the permissions in the introspection response are neither text nor a list of texts: \
                 check permissions_claim".into(),
            )
        })
    }

    /// The texts in an array, or those between the delimiters in a text, which may contain spaces;
    /// `None`: neither. A missing claim is an empty array.
    pub(super) fn groups(&self, claim: &str, delimiter: Option<&str>) -> Option<Vec<String>> {
        match self.claim(claim) {
            None => Some(Vec::new()),
            Some(Value::Array(names)) => names
                .iter()
                .map(|name| name.as_str().map(str::to_owned))
                .collect(),
            Some(Value::String(text)) => {
                let names = text.split(delimiter?).map(str::trim);
                let names = names.filter(|name| !name.is_empty());
                Some(names.map(str::to_owned).collect())
            }
            Some(_) => None,
        }
    }

    /// The time until `exp`, counted from `iat` if the server's clock is ahead.
    pub(super) fn lifetime(&self, now: Moment) -> Result<Option<Duration>, IamError> {
        let now = now.unix_seconds();
        let issued = self.claims.get("iat").and_then(seconds);
        let from = issued.map_or(now, |issued| issued.max(now));
        let end = self.time("exp")?;
        Ok(end.map(|end| Duration::from_secs(end.saturating_sub(from))))
    }
}
