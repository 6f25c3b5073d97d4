//! The section `[iam.ldap]` and its validation.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::{EnumString, IntoStaticStr, VariantNames};
use url::{Host, Url};

use super::{Ldap, NAME};
use crate::adapter::{IamAdapter, SetupError};
use crate::claims::ClaimSources;
use crate::clock::Clock;
use crate::settings::{AdapterSettings, SectionProblems, WELL_KNOWN, is_well_known};

/// The kind of directory: what its attributes and its results mean.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, EnumString, IntoStaticStr, Serialize, VariantNames,
)]
#[serde(into = "&'static str")]
#[strum(serialize_all = "kebab-case")]
pub enum Flavour {
    /// OpenLDAP with the overlays `ppolicy` and `memberof`.
    #[default]
    #[strum(serialize = "openldap")]
    OpenLdap,
    /// 389 Directory Server, also that of FreeIPA.
    #[strum(serialize = "389ds")]
    DirectoryServer389,
    /// Active Directory, also that of Samba.
    ActiveDirectory,
}

impl Flavour {
    /// Whether the values of this attribute are the 16 bytes of a GUID.
    pub(super) fn has_binary_subject(self, attribute: &str) -> bool {
        self == Self::ActiveDirectory && attribute.eq_ignore_ascii_case("objectGUID")
    }

    const fn schema(self) -> Schema<'static> {
        match self {
            Self::OpenLdap => Schema {
                users_filter: "(objectClass=inetOrgPerson)",
                email_attribute: "mail",
                subject_attribute: "entryUUID",
                password_changed_attribute: "pwdChangedTime",
                state_attributes: &["pwdAccountLockedTime", "pwdReset"],
                groups_filter: "(objectClass=groupOfNames)",
                password_policy: true,
            },
            Self::DirectoryServer389 => Schema {
                subject_attribute: "nsUniqueId",
                password_changed_attribute: "pwdUpdateTime",
                state_attributes: &["nsAccountLock", "pwdReset", "passwordExpirationTime"],
                ..Self::OpenLdap.schema()
            },
            Self::ActiveDirectory => Schema {
                users_filter: "(&(objectCategory=person)(objectClass=user))",
                email_attribute: "userPrincipalName",
                subject_attribute: "objectGUID",
                password_changed_attribute: "pwdLastSet",
                state_attributes: &["userAccountControl", "accountExpires", "pwdLastSet"],
                groups_filter: "(objectCategory=group)",
                password_policy: false,
            },
        }
    }
}

/// The settings that each flavour has a default for, with the values in effect.
#[derive(Serialize)]
pub(super) struct Schema<'s> {
    pub(super) users_filter: &'s str,
    pub(super) email_attribute: &'s str,
    pub(super) subject_attribute: &'s str,
    pub(super) password_changed_attribute: &'s str,
    /// The attributes by which the state of an account is known. Not a setting.
    #[serde(skip)]
    pub(super) state_attributes: &'static [&'static str],
    pub(super) groups_filter: &'s str,
    pub(super) password_policy: bool,
}

/// The section `[iam.ldap]`.
///
/// The `Debug` form has only what identifies the directory.
#[derive(Clone, derive_more::Debug, Deserialize, Serialize)]
#[debug("LdapSettings {{ issuer: {issuer:?}, .. }}")]
#[serde(deny_unknown_fields)]
pub struct LdapSettings {
    /// The servers, of which all have the same entries: `ldaps://`, `ldap://` or `ldapi://`.
    #[serde(deserialize_with = "crate::list::deserialize")]
    pub urls: Vec<Url>,
    /// The name of the directory in session tokens. Sessions end if it changes.
    pub issuer: String,
    /// The kind of directory.
    #[serde(default, deserialize_with = "crate::choice::deserialize")]
    pub flavour: Flavour,
    /// Whether connections by `ldap://` begin TLS before anything else is sent.
    #[serde(default)]
    pub start_tls: bool,
    /// PEM certificates to trust in addition to the machine's own.
    pub ca_file: Option<PathBuf>,
    /// The service account, which searches.
    pub bind_dn: String,
    /// Its password.
    #[serde(serialize_with = "crate::secret_file::serialize_hidden")]
    pub bind_password: Option<SecretString>,
    /// The file with its password.
    pub bind_password_file: Option<PathBuf>,
    /// The entry below which the users are.
    pub users_base: String,
    /// Which entries are users; `None`: that of the flavour.
    pub users_filter: Option<String>,
    /// The attribute with the e-mail address of a login; `None`: that of the flavour.
    pub email_attribute: Option<String>,
    /// The attribute with the immutable id of a user; `None`: that of the flavour.
    pub subject_attribute: Option<String>,
    /// The attribute with the time of the last change of the password; `None`: that of the flavour.
    pub password_changed_attribute: Option<String>,
    /// The entry below which the groups are; `None`: a user's groups are the values of `memberOf`.
    pub groups_base: Option<String>,
    /// Which entries are groups; `None`: that of the flavour.
    pub groups_filter: Option<String>,
    /// Whether the server must support the password policy control; `None`: unless it is Active Directory.
    pub password_policy: Option<bool>,
    /// Whether production may run without Redis, so that a logout has an effect at one replica only.
    #[serde(default)]
    pub accept_local_logout: bool,
    /// The claims of access tokens: attributes of the user's entry.
    #[serde(default)]
    pub claims: ClaimSources,
}

impl LdapSettings {
    pub(super) fn schema(&self) -> Schema<'_> {
        let default = self.flavour.schema();
        Schema {
            users_filter: self.users_filter.as_deref().unwrap_or(default.users_filter),
            email_attribute: self
                .email_attribute
                .as_deref()
                .unwrap_or(default.email_attribute),
            subject_attribute: self
                .subject_attribute
                .as_deref()
                .unwrap_or(default.subject_attribute),
            password_changed_attribute: self
                .password_changed_attribute
                .as_deref()
                .unwrap_or(default.password_changed_attribute),
            state_attributes: default.state_attributes,
            groups_filter: self
                .groups_filter
                .as_deref()
                .unwrap_or(default.groups_filter),
            password_policy: self.password_policy.unwrap_or(default.password_policy),
        }
    }
}

impl AdapterSettings for LdapSettings {
    fn name(&self) -> &'static str {
        NAME
    }

    fn problems(&self, section: &str, production: bool) -> Vec<String> {
        let mut problems = SectionProblems::new(section, production);
        if self.urls.is_empty() {
            problems.add("urls: at least one server is needed");
        }
        for url in &self.urls {
            match url.scheme() {
                "ldap" if production && !self.start_tls => {
                    problems.add("urls: must be ldaps in production, or start_tls must be true");
                }
                "ldaps" | "ldapi" | "ldap" => {}
                _ => problems.add("urls: must be ldaps, ldap or ldapi"),
            }
            let has_tls = url.scheme() == "ldaps" || self.start_tls;
            if has_tls && matches!(url.host(), Some(Host::Ipv6(_))) {
                problems.add("urls: with TLS a server must have a name or an IPv4 address");
            }
            let is_bare = url.username().is_empty()
                && url.password().is_none()
                && matches!(url.path(), "" | "/")
                && url.query().is_none()
                && url.fragment().is_none();
            if !is_bare || url.host_str().is_none_or(str::is_empty) {
                problems.add("urls: must have a host and nothing else but a port");
            }
        }
        problems.not_empty("issuer", Some(&self.issuer));
        problems.not_empty("bind_dn", Some(&self.bind_dn));
        problems.not_empty("users_base", Some(&self.users_base));
        problems.not_empty("groups_base", self.groups_base.as_ref());
        // An empty password makes the bind anonymous (RFC 4513 section 5.1.2).
        let password = self.bind_password.as_ref().map(ExposeSecret::expose_secret);
        if password.is_none_or(str::is_empty) {
            problems.add("bind_password: is needed, or bind_password_file");
        }
        if production && self.bind_password.as_ref().is_some_and(is_well_known) {
            problems.add(format_args!("bind_password: {WELL_KNOWN}"));
        }
        let schema = self.schema();
        for (key, filter) in [
            ("users_filter", schema.users_filter),
            ("groups_filter", schema.groups_filter),
        ] {
            // The library also accepts one without parentheses, which is none within `(&…)`.
            if !filter.starts_with('(') || ldap3::parse_filter(filter).is_err() {
                problems.add(format_args!("{key}: is no filter in the form of RFC 4515"));
            }
        }
        if self.groups_filter.is_some() && self.groups_base.is_none() {
            problems.add("groups_filter: is used only with groups_base");
        }
        for (key, name) in [
            ("email_attribute", schema.email_attribute),
            ("subject_attribute", schema.subject_attribute),
            (
                "password_changed_attribute",
                schema.password_changed_attribute,
            ),
        ] {
            if !is_attribute(name) {
                problems.add(format_args!("{key}: is no name of an attribute"));
            }
        }
        for (claim, source) in self.claims.iter() {
            if !is_attribute(&source.member) {
                problems.add(format_args!(
                    "claims: the member of `{claim}` is no name of an attribute"
                ));
            }
        }
        problems.common(self.ca_file.as_deref(), &self.claims);
        problems.found
    }

    fn connect(
        &self,
        section: &str,
        clock: Arc<dyn Clock>,
        connect_deadline: Duration,
        _: Option<&Arc<dyn IamAdapter>>,
    ) -> Result<Arc<dyn IamAdapter>, SetupError> {
        self.check(section)?;
        Ok(Arc::new(Ldap::new(section, self, connect_deadline, clock)?))
    }

    fn claims(&self) -> &ClaimSources {
        &self.claims
    }

    fn has_permissions(&self) -> bool {
        false
    }

    fn needs_redis(&self) -> bool {
        !self.accept_local_logout
    }

    fn derived(&self) -> Value {
        json!(self.schema())
    }
}

/// Whether a text can be the name of an attribute (RFC 4512 section 1.4, and `_`, which some servers allow), perhaps with
/// options. An OID is none: servers answer with the name.
fn is_attribute(text: &str) -> bool {
    let is_name =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | ';');
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.chars().all(is_name)
}

#[cfg(test)]
mod tests;
