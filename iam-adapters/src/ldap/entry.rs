//! What an entry of a directory states about a user.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

use ldap3::SearchEntry;
use serde_json::Value;
use uuid::Uuid;

use super::{Flavour, GROUPS_MAX, MEMBER_OF, too_many_groups};
use crate::claims::{ClaimSource, ClaimType};
use crate::error::{IamError, Refusal};
use crate::types::Subject;

/// 1601-01-01, where the times of Active Directory begin, in seconds before 1970.
const FILETIME_EPOCH: u64 = 11_644_473_600;

/// The times of Active Directory are in steps of 100 ns.
const FILETIME_PER_SECOND: u64 = 10_000_000;

/// One entry, with the names of its attributes in lower case: they are not case-sensitive (RFC 4512 section 2.5).
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) dn: String,
    attributes: HashMap<String, Vec<Vec<u8>>>,
}

impl From<SearchEntry> for Entry {
    fn from(entry: SearchEntry) -> Self {
        let texts = entry.attrs.into_iter();
        let texts = texts.map(|(name, values)| {
            let values = values.into_iter().map(String::into_bytes).collect();
            (name, values)
        });
        let attributes = texts.chain(entry.bin_attrs);
        Self {
            dn: entry.dn,
            attributes: attributes
                .map(|(name, values): (_, Vec<_>)| (name.to_ascii_lowercase(), values))
                .collect(),
        }
    }
}

impl Entry {
    /// The values of an attribute that are text.
    pub(super) fn texts(&self, attribute: &str) -> impl Iterator<Item = &str> {
        let values = self.attributes.get(&attribute.to_ascii_lowercase());
        let values = values.into_iter().flatten();
        values.filter_map(|value| str::from_utf8(value).ok())
    }

    /// The value of an attribute that has one, or else the first.
    pub(super) fn text(&self, attribute: &str) -> Option<&str> {
        self.texts(attribute).next()
    }

    /// The groups in `memberOf`.
    ///
    /// # Errors
    ///
    /// [`IamError::UnreadableSession`] if there are more than [`GROUPS_MAX`], or more than the server states at once.
    pub(super) fn member_of(&self) -> Result<Vec<String>, IamError> {
        // Active Directory then states the first ones, under a name with their range (MS-ADTS section 3.1.1.3.1.3.3).
        if self
            .attributes
            .keys()
            .any(|name| name.starts_with("memberof;range="))
        {
            let problem =
                "the server states only a part of memberOf: the user is in too many groups";
            return Err(IamError::UnreadableSession(problem.into()));
        }
        let groups: Vec<_> = self.texts(MEMBER_OF).map(str::to_owned).collect();
        if groups.len() > GROUPS_MAX {
            return Err(too_many_groups());
        }
        Ok(groups)
    }

    /// The immutable id of the user. An `objectGUID` becomes the text that Windows shows.
    ///
    /// # Errors
    ///
    /// [`IamError::UnreadableSession`] if the entry has not exactly one usable value.
    pub(super) fn subject(&self, attribute: &str, flavour: Flavour) -> Result<Subject, IamError> {
        let values = self.attributes.get(&attribute.to_ascii_lowercase());
        let value = match values.map(Vec::as_slice) {
            Some([value]) if flavour.has_binary_subject(attribute) => guid_text(value),
            Some([value]) => String::from_utf8(value.clone()).ok(),
            _ => None,
        };
        value.and_then(Subject::new).ok_or_else(|| {
            let problem = format!("the entry has no single value of subject_attribute {attribute}");
            IamError::UnreadableSession(problem.into())
        })
    }

    /// Why the user may have no sessions at this time since 1970: the account is disabled or has expired, or the password
    /// must be changed first. `None` also with a temporary lock: otherwise wrong passwords of others would end sessions.
    ///
    /// # Errors
    ///
    /// [`IamError::UnreadableSession`] if the entry lacks what each entry has: the service account may not read it.
    pub(super) fn refusal(
        &self,
        flavour: Flavour,
        now: Duration,
    ) -> Result<Option<Refusal>, IamError> {
        let is_true = |attribute| {
            self.text(attribute)
                .is_some_and(|it| it.eq_ignore_ascii_case("TRUE"))
        };
        let (disabled, incomplete) = match flavour {
            Flavour::OpenLdap => (
                // Locked by an administrator. Other times are locks that pass.
                self.text("pwdAccountLockedTime") == Some("000001010000Z"),
                is_true("pwdReset"),
            ),
            Flavour::DirectoryServer389 => (
                is_true("nsAccountLock"),
                is_true("pwdReset")
                    || self.text("passwordExpirationTime") == Some("19700101000000Z"),
            ),
            Flavour::ActiveDirectory => {
                const ACCOUNT_DISABLE: u64 = 2;
                let number = |attribute: &str| self.text(attribute)?.parse::<u64>().ok();
                let needed = |attribute: &str| {
                    number(attribute).ok_or_else(|| {
                        let problem = format!(
                            "the entry has no number {attribute}: check the rights of bind_dn"
                        );
                        IamError::UnreadableSession(problem.into())
                    })
                };
                let is_disabled = needed("userAccountControl")? & ACCOUNT_DISABLE != 0;
                // 0 and the largest number mean never.
                let expires_at =
                    number("accountExpires").filter(|it| !matches!(it, 0 | 0x7fff_ffff_ffff_ffff));
                let now = (now.as_secs() + FILETIME_EPOCH) * FILETIME_PER_SECOND;
                let has_expired = expires_at.is_some_and(|it| it <= now);
                (is_disabled || has_expired, needed("pwdLastSet")? == 0)
            }
        };
        if disabled {
            return Ok(Some(Refusal::Disabled));
        }
        Ok(incomplete.then_some(Refusal::Incomplete))
    }

    /// The value of a claim as JSON, in the type of the claim if it can be. All others stay text, which
    /// `ClaimSources::read_with` refuses. `None`: the attribute has no value.
    pub(super) fn claim(&self, source: &ClaimSource) -> Option<Value> {
        let mut values = self.texts(&source.member).map(|text| match source.r#type {
            ClaimType::Integer => text
                .parse::<i64>()
                .map_or_else(|_| text.into(), Value::from),
            ClaimType::Boolean if text.eq_ignore_ascii_case("TRUE") => true.into(),
            ClaimType::Boolean if text.eq_ignore_ascii_case("FALSE") => false.into(),
            ClaimType::Boolean | ClaimType::Text | ClaimType::ListOfTexts => Value::from(text),
        });
        if source.r#type != ClaimType::ListOfTexts {
            return values.next();
        }
        // A directory has sets and states them in any order (RFC 4512 section 2.5.1).
        let mut values: Vec<_> = values.collect();
        values.sort_by_cached_key(Value::to_string);
        (!values.is_empty()).then_some(Value::Array(values))
    }
}

/// Compares the last change of the password in an entry with that at the beginning of a session. It is greater if the
/// password was changed, and less if the server lags behind the one where the session began. Times of one attribute
/// have one form: digits of one length, or a `GeneralizedTime`, which sorts as text (RFC 4517 section 3.3.13). A user
/// whose password was never changed has none.
pub(super) fn compare(of_entry: Option<&str>, of_session: Option<&str>) -> Ordering {
    let key = |text: &str| {
        let text = text.trim_end_matches('Z');
        let whole = text.split('.').next().unwrap_or(text).len();
        (whole, text.to_owned())
    };
    of_entry.map(key).cmp(&of_session.map(key))
}

/// Whether the definition of an attribute type (RFC 4512 section 4.1.2) has this name first, which is that in entries.
pub(super) fn defines(definition: &str, attribute: &str) -> bool {
    let name = attribute.split(';').next().unwrap_or_default();
    let first = definition.split('\'').nth(1);
    first.is_some_and(|first| first.eq_ignore_ascii_case(name))
}

/// The text of an `objectGUID`, as Windows shows it: the first three groups are little-endian.
fn guid_text(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.try_into().ok()?;
    Some(Uuid::from_bytes_le(bytes).to_string())
}

/// The value of an `objectGUID` in a filter, each byte escaped (RFC 4515 section 3); `None`: the text is none.
pub(super) fn guid_filter(text: &str) -> Option<String> {
    let bytes = Uuid::try_parse(text).ok()?.to_bytes_le();
    Some(bytes.map(|byte| format!("\\{byte:02x}")).concat())
}

#[cfg(test)]
mod tests;
