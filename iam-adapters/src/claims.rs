//! Claims of access tokens that the IAM states about a user: which members of its responses they are, and
//! their values.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use strum::{EnumString, IntoStaticStr, VariantNames};

use crate::error::{Detail, IamError};
use crate::name::Name as _;

/// The most claims of an IAM.
pub const CLAIMS_MAX: usize = 16;

/// The most bytes of the claims of a token, as JSON. Every request of an application carries its token.
pub const CLAIMS_BYTES_MAX: usize = 2048;

/// Claims that only the gateway states: those of RFC 7519 section 4.1 and RFC 9068 section 2.2, `sid`, and those
/// that change who may use a token or for whom (RFC 7800, RFC 8693). The claims for roles, groups and entitlements
/// (RFC 9068 section 2.2.3.1) are not among them: an IAM may state these.
const RESERVED: [&str; 17] = [
    "iss",
    "sub",
    "aud",
    "exp",
    "nbf",
    "iat",
    "jti",
    "client_id",
    "auth_time",
    "acr",
    "amr",
    "scope",
    "sid",
    "cnf",
    "act",
    "may_act",
    "azp",
];

/// The type of a claim.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, EnumString, IntoStaticStr, Serialize, VariantNames,
)]
#[serde(into = "&'static str")]
#[strum(serialize_all = "snake_case")]
pub enum ClaimType {
    /// A string.
    #[default]
    Text,
    /// A whole number of 53 bits at most, which every JSON library reads exactly.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// An array of strings. One string is a list of one.
    ListOfTexts,
}

/// Which member of an introspection response (RFC 7662) a claim is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { member = \"department\" }"
)]
pub struct ClaimSource {
    /// The name of the member, or with a leading `/` a JSON pointer (RFC 6901).
    pub member: String,
    /// The type of its value.
    #[serde(default, deserialize_with = "crate::choice::deserialize")]
    pub r#type: ClaimType,
    /// Whether a response without it is a fault. Otherwise the token lacks the claim.
    #[serde(default)]
    pub required: bool,
}

impl ClaimSource {
    /// The member of the response that is the value or contains it.
    pub(crate) fn outer_member(&self) -> &str {
        match self.member.strip_prefix('/') {
            Some(pointer) => pointer.split('/').next().unwrap_or_default(),
            None => &self.member,
        }
    }

    /// The value as a claim; `None`: it has another type.
    fn typed(&self, value: Value) -> Option<Value> {
        const EXACT: u64 = 1 << 53;
        let is_typed = match self.r#type {
            ClaimType::Text => value.is_string(),
            ClaimType::Integer => {
                let size = value.as_i64().map(i64::unsigned_abs);
                size.is_some_and(|size| size <= EXACT)
            }
            ClaimType::Boolean => value.is_boolean(),
            ClaimType::ListOfTexts => match &value {
                Value::String(_) => return Some(Value::Array(vec![value])),
                Value::Array(values) => values.iter().all(Value::is_string),
                _ => false,
            },
        };
        is_typed.then_some(value)
    }
}

/// The claims of an IAM: a table of the settings, from the name of a claim to its source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub struct ClaimSources(BTreeMap<String, ClaimSource>);

impl ClaimSources {
    /// No claims.
    pub const NONE: Self = Self(BTreeMap::new());

    /// The claims and their sources, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ClaimSource)> {
        self.0.iter().map(|(name, source)| (name.as_str(), source))
    }

    /// All problems, each as one line.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.0.len() > CLAIMS_MAX {
            problems.push(format!("has more than {CLAIMS_MAX} claims"));
        }
        for (name, source) in self.iter() {
            if RESERVED.contains(&name) {
                problems.push(format!("`{name}` is a claim of the gateway"));
            }
            if name.is_empty() || name.chars().any(char::is_control) {
                problems.push(format!("{name:?} is not a name of a claim"));
            }
            if source.member.trim_start_matches('/').is_empty() {
                problems.push(format!("`{name}` needs the member that it is"));
            }
        }
        problems
    }

    /// The claims in an introspection response.
    ///
    /// # Errors
    ///
    /// [`IamError::UnreadableSession`] if one has another type or is required and missing, or if all are too long.
    pub fn read(&self, response: &Value) -> Result<Claims, IamError> {
        self.read_with(|source| member(response, &source.member).cloned())
    }

    /// The claims with the value that `find` has for each.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub(crate) fn read_with(
        &self,
        find: impl Fn(&ClaimSource) -> Option<Value>,
    ) -> Result<Claims, IamError> {
        let mut claims = String::new();
        for (name, source) in self.iter() {
            let Some(value) = find(source) else {
                if source.required {
                    return Err(unreadable(
                        name,
                        format_args!("`{}` is missing", source.member),
                    ));
                }
                continue;
            };
            let Some(value) = source.typed(value) else {
                let expected = source.r#type.name().replace('_', " ");
                let what = format_args!("`{}` is not of the type {expected}", source.member);
                return Err(unreadable(name, what));
            };
            claims.push(',');
            claims.push_str(&Value::from(name).to_string());
            claims.push(':');
            claims.push_str(&value.to_string());
            if claims.len() > CLAIMS_BYTES_MAX {
                let what = format_args!("the claims are longer than {CLAIMS_BYTES_MAX} bytes");
                return Err(unreadable(name, what));
            }
        }
        // They are cached for every user, and their weight is their length.
        claims.shrink_to_fit();
        Ok(Claims(claims.into()))
    }
}

/// The member of a response with this name or, with a leading `/`, at this JSON pointer (RFC 6901); `None`: it is
/// missing or null.
pub(crate) fn member<'r>(response: &'r Value, name: &str) -> Option<&'r Value> {
    let value = if name.starts_with('/') {
        response.pointer(name)
    } else {
        response.get(name)
    };
    value.filter(|value| !value.is_null())
}

/// Shows nothing of the value, which is personal data.
fn unreadable(claim: &str, what: fmt::Arguments<'_>) -> IamError {
    IamError::UnreadableSession(Detail::from(format!(
        "the introspection response, for the claim `{claim}`: {what}"
    )))
}

/// The claims of one user, as members of a JSON object with a comma before each, so that issuing a token only
/// copies them. Personal data, so the `Debug` form does not contain it.
#[derive(Clone, derive_more::Debug, PartialEq, Eq, Default)]
#[debug("Claims([REDACTED])")]
pub struct Claims(Cow<'static, str>);

impl Claims {
    /// No claims.
    pub const NONE: Self = Self(Cow::Borrowed(""));

    /// The claims in this text; `None` if it is not one of [`Claims::as_members`].
    #[must_use]
    pub fn from_members(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        object(text)
            .filter(|claims| !claims.is_empty())
            .map(|_| Self(text.to_owned().into()))
    }

    /// Members of a JSON object, with a comma before each.
    #[must_use]
    pub fn as_members(&self) -> &str {
        &self.0
    }

    /// The claims by name.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        object(&self.0).unwrap_or_default()
    }

    /// Their size on the heap in bytes, for the weight of a cache entry.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.0.len()
    }
}

/// The object of members with a comma before each.
fn object(text: &str) -> Option<Map<String, Value>> {
    let members = text.strip_prefix(',')?;
    serde_json::from_str(&format!("{{{members}}}")).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sources(table: &Value) -> ClaimSources {
        serde_json::from_value(table.clone()).unwrap()
    }

    fn read(table: &Value, response: &Value) -> Result<Value, String> {
        let claims = sources(table)
            .read(response)
            .map_err(|error| format!("{error:#}"))?;
        let members = claims.as_members().trim_start_matches(',');
        Ok(serde_json::from_str(&format!("{{{members}}}")).unwrap())
    }

    #[test]
    fn claim_has_the_value_of_its_member_or_pointer_in_its_type() {
        let table = json!({
            "email": {"member": "email"},
            "age": {"member": "/attributes/age/0", "type": "integer"},
            "verified": {"member": "email_verified", "type": "boolean"},
            "groups": {"member": "groups", "type": "list_of_texts"},
            "one": {"member": "email", "type": "list_of_texts"},
            "a/b": {"member": "/a~1b"},
            "absent": {"member": "absent"},
            "null": {"member": "null"},
        });
        let response = json!({
            "email": "a\"b@example.test", "attributes": {"age": [-7]}, "email_verified": false,
            "groups": ["x", "y"], "a/b": "é", "null": null, "other": "not asked for",
        });
        assert_eq!(
            read(&table, &response).unwrap(),
            json!({
                "email": "a\"b@example.test", "age": -7, "verified": false, "groups": ["x", "y"],
                "one": ["a\"b@example.test"], "a/b": "é",
            })
        );
    }

    #[test]
    fn value_of_another_type_and_a_missing_required_one_are_faults_that_name_the_claim_and_no_value()
     {
        for (source, response, what) in [
            (
                json!({"member": "m"}),
                json!({"m": 4711}),
                "is not of the type text",
            ),
            (
                json!({"member": "m", "type": "integer"}),
                json!({"m": "4711"}),
                "integer",
            ),
            (
                json!({"member": "m", "type": "integer"}),
                json!({"m": 4711.5}),
                "integer",
            ),
            (
                json!({"member": "m", "type": "integer"}),
                json!({"m": 9_007_199_254_740_993_u64}),
                "integer",
            ),
            (
                json!({"member": "m", "type": "boolean"}),
                json!({"m": "4711"}),
                "boolean",
            ),
            (
                json!({"member": "m", "type": "list_of_texts"}),
                json!({"m": ["x", 4711]}),
                "list of texts",
            ),
            (
                json!({"member": "m", "required": true}),
                json!({"other": 4711}),
                "`m` is missing",
            ),
            (
                json!({"member": "m", "required": true}),
                json!({"m": null}),
                "`m` is missing",
            ),
            (
                json!({"member": "m"}),
                json!({"m": "4711".repeat(600)}),
                "longer than 2048 bytes",
            ),
        ] {
            let fault = read(&json!({"claim": source}), &response).unwrap_err();
            assert!(fault.contains("`claim`") && fault.contains(what), "{fault}");
            assert!(!fault.contains("4711"), "{fault}");
        }
    }

    #[test]
    fn claims_of_the_gateway_and_more_than_sixteen_are_refused() {
        for reserved in [
            "iss",
            "sub",
            "aud",
            "scope",
            "sid",
            "client_id",
            "cnf",
            "act",
        ] {
            let problems = sources(&json!({reserved: {"member": "m"}})).problems();
            assert_eq!(
                problems,
                [format!("`{reserved}` is a claim of the gateway")]
            );
        }
        let many: serde_json::Map<_, _> = (0..17)
            .map(|number| (format!("c{number}"), json!({"member": "m"})))
            .collect();
        assert_eq!(
            sources(&many.into()).problems(),
            ["has more than 16 claims"]
        );
        assert_eq!(sources(&json!({"c": {"member": "/"}})).problems().len(), 1);
        assert_eq!(
            sources(&json!({"groups": {"member": "groups"}}))
                .problems()
                .len(),
            0
        );
    }

    #[test]
    fn members_are_read_back_and_nothing_else_is() {
        let claims = sources(&json!({"a": {"member": "a"}}))
            .read(&json!({"a": "x"}))
            .unwrap();
        assert_eq!(Claims::from_members(claims.as_members()), Some(claims));
        assert_eq!(Claims::from_members(""), Some(Claims::default()));
        for other in [r#""a":1"#, ",", r#","a""#, r#","a":1}{"#, r#",,"a":1"#] {
            assert_eq!(Claims::from_members(other), None, "{other}");
        }
    }
}
