//! The section `[iam.ldap]` and its validation.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::{EnumString, IntoStaticStr, VariantNames};
use url::{Host, Url};

use super::Ldap;
use crate::adapter::{IamAdapter, SetupError};
use crate::claims::ClaimSources;
use crate::client::certificates;
use crate::clock::Clock;
use crate::settings::AdapterSettings;

/// The section, as in the configuration.
pub(super) const SECTION: &str = "iam.ldap";

/// The kind of directory: what its attributes and its results mean.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Deserialize,
    Serialize,
    EnumString,
    IntoStaticStr,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Flavour {
    /// OpenLDAP with the overlays `ppolicy` and `memberof`.
    #[default]
    #[serde(rename = "openldap")]
    #[strum(serialize = "openldap")]
    OpenLdap,
    /// 389 Directory Server, also that of FreeIPA.
    #[serde(rename = "389ds")]
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

    /// The attributes by which the state of an account is known.
    pub(super) const fn state_attributes(self) -> &'static [&'static str] {
        match self {
            Self::OpenLdap => &["pwdAccountLockedTime", "pwdReset"],
            Self::DirectoryServer389 => &["nsAccountLock", "pwdReset", "passwordExpirationTime"],
            Self::ActiveDirectory => &["userAccountControl", "accountExpires", "pwdLastSet"],
        }
    }

    const fn users_filter(self) -> &'static str {
        match self {
            Self::OpenLdap | Self::DirectoryServer389 => "(objectClass=inetOrgPerson)",
            Self::ActiveDirectory => "(&(objectCategory=person)(objectClass=user))",
        }
    }

    const fn email_attribute(self) -> &'static str {
        match self {
            Self::OpenLdap | Self::DirectoryServer389 => "mail",
            Self::ActiveDirectory => "userPrincipalName",
        }
    }

    const fn subject_attribute(self) -> &'static str {
        match self {
            Self::OpenLdap => "entryUUID",
            Self::DirectoryServer389 => "nsUniqueId",
            Self::ActiveDirectory => "objectGUID",
        }
    }

    const fn password_changed_attribute(self) -> &'static str {
        match self {
            Self::OpenLdap => "pwdChangedTime",
            Self::DirectoryServer389 => "pwdUpdateTime",
            Self::ActiveDirectory => "pwdLastSet",
        }
    }

    const fn groups_filter(self) -> &'static str {
        match self {
            Self::OpenLdap | Self::DirectoryServer389 => "(objectClass=groupOfNames)",
            Self::ActiveDirectory => "(objectCategory=group)",
        }
    }
}

/// The section `[iam.ldap]`.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LdapSettings {
    /// The servers, of which all have the same entries: `ldaps://`, `ldap://` or `ldapi://`.
    #[serde(deserialize_with = "crate::list::deserialize")]
    pub urls: Vec<Url>,
    /// The name of the directory in session tokens. Sessions end if it changes.
    pub issuer: String,
    /// The kind of directory.
    #[serde(default)]
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
    pub(super) fn users_filter(&self) -> &str {
        self.users_filter
            .as_deref()
            .unwrap_or(self.flavour.users_filter())
    }

    pub(super) fn groups_filter(&self) -> &str {
        self.groups_filter
            .as_deref()
            .unwrap_or(self.flavour.groups_filter())
    }

    pub(super) fn email_attribute(&self) -> &str {
        self.email_attribute
            .as_deref()
            .unwrap_or(self.flavour.email_attribute())
    }

    pub(super) fn subject_attribute(&self) -> &str {
        self.subject_attribute
            .as_deref()
            .unwrap_or(self.flavour.subject_attribute())
    }

    pub(super) fn password_changed_attribute(&self) -> &str {
        let default = self.flavour.password_changed_attribute();
        self.password_changed_attribute
            .as_deref()
            .unwrap_or(default)
    }

    pub(super) fn needs_password_policy(&self) -> bool {
        let default = self.flavour != Flavour::ActiveDirectory;
        self.password_policy.unwrap_or(default)
    }
}

/// Only what identifies the directory.
impl fmt::Debug for LdapSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LdapSettings")
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

impl AdapterSettings for LdapSettings {
    fn name(&self) -> &'static str {
        super::NAME
    }

    fn problems(&self, production: bool) -> Vec<String> {
        let mut problems = Vec::new();
        let mut add = |problem: &str| problems.push(format!("{SECTION}.{problem}"));
        if self.urls.is_empty() {
            add("urls: at least one server is needed");
        }
        for url in &self.urls {
            match url.scheme() {
                "ldap" if production && !self.start_tls => {
                    add("urls: must be ldaps in production, or start_tls must be true");
                }
                "ldaps" | "ldapi" | "ldap" => {}
                _ => add("urls: must be ldaps, ldap or ldapi"),
            }
            let has_tls = url.scheme() == "ldaps" || self.start_tls;
            if has_tls && matches!(url.host(), Some(Host::Ipv6(_))) {
                add("urls: with TLS a server must have a name or an IPv4 address");
            }
            let is_bare = url.username().is_empty()
                && url.password().is_none()
                && matches!(url.path(), "" | "/")
                && url.query().is_none()
                && url.fragment().is_none();
            if !is_bare || url.host_str().is_none_or(str::is_empty) {
                add("urls: must have a host and nothing else but a port");
            }
        }
        for (key, text) in [
            ("issuer", Some(&self.issuer)),
            ("bind_dn", Some(&self.bind_dn)),
            ("users_base", Some(&self.users_base)),
            ("groups_base", self.groups_base.as_ref()),
        ] {
            if text.is_some_and(String::is_empty) {
                add(&format!("{key}: must not be empty"));
            }
        }
        // An empty password makes the bind anonymous (RFC 4513 section 5.1.2).
        let password = self.bind_password.as_ref().map(ExposeSecret::expose_secret);
        if password.is_none_or(str::is_empty) {
            add("bind_password: is needed, or bind_password_file");
        }
        for (key, filter) in [
            ("users_filter", self.users_filter()),
            ("groups_filter", self.groups_filter()),
        ] {
            if ldap3::parse_filter(filter).is_err() {
                add(&format!("{key}: is no filter in the form of RFC 4515"));
            }
        }
        for (key, name) in [
            ("email_attribute", self.email_attribute()),
            ("subject_attribute", self.subject_attribute()),
            (
                "password_changed_attribute",
                self.password_changed_attribute(),
            ),
        ] {
            if !is_attribute(name) {
                add(&format!("{key}: is no name of an attribute"));
            }
        }
        for problem in self.claims.problems() {
            add(&format!("claims: {problem}"));
        }
        for (claim, source) in self.claims.iter() {
            if !is_attribute(&source.member) {
                add(&format!(
                    "claims: the member of `{claim}` is no name of an attribute"
                ));
            }
        }
        if let Err(problem) = certificates(self.ca_file.as_deref()) {
            add(&problem.to_string());
        }
        problems
    }

    fn connect(
        &self,
        clock: Arc<dyn Clock>,
        connect_deadline: Duration,
    ) -> Result<Arc<dyn IamAdapter>, SetupError> {
        Ok(Arc::new(Ldap::new(self, connect_deadline, clock)?))
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
        json!({
            "users_filter": self.users_filter(),
            "email_attribute": self.email_attribute(),
            "subject_attribute": self.subject_attribute(),
            "password_changed_attribute": self.password_changed_attribute(),
            "groups_filter": self.groups_filter(),
            "password_policy": self.needs_password_policy(),
        })
    }
}

/// Whether a text can be the name of an attribute (RFC 4512 section 1.4), perhaps with options.
fn is_attribute(text: &str) -> bool {
    let is_name = |character: char| {
        character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.' | ';')
    };
    !text.is_empty() && text.chars().all(is_name)
}

#[cfg(test)]
mod tests;
