//! `[iam.<name>]`: the IAMs. Their common settings are here; those of an adapter are its own.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use iam_adapters::AllowedScopes;
use iam_adapters::registry::IamSettings;

use super::errors::ConfigErrors;
use super::known::join;
use super::login_limits::LOGINS;
use super::permissions::PermissionSourceKind;
use super::section::section;
use super::{SessionSettings, Settings, UpstreamSettings};
use auth_gateway_core::iams::IamPolicy;
use auth_gateway_core::introspection_cache::Freshness;

/// The longest `subject_prefix`, in bytes.
const SUBJECT_PREFIX_MAX: usize = 64;

section! {
    /// The settings of a section `[iam.<name>]` that all adapters have, besides those of `[session]` and
    /// `[upstream]`.
    pub struct IamOptions {
        /// The adapter; `None`: the one with the name of the section.
        pub r#type: Option<String> = None;
        /// Logins with an address of one of these domains go to this IAM.
        #[serde(deserialize_with = "iam_adapters::list::deserialize")]
        pub domains: Vec<String> = Vec::new();
        /// Logins with an address of a domain that no IAM has go to this IAM.
        pub default: bool = false;
        /// Whether sessions can begin. Otherwise the IAM serves only the sessions that exist.
        pub login: bool = true;
        /// What precedes the IAM's subject in `sub`.
        pub subject_prefix: String = String::new();
        /// The most that users of this IAM can get: scope names, and beginnings of them followed by `*`.
        #[serde(deserialize_with = "allowed_scopes")]
        pub allowed_scopes: Option<Vec<String>> = None;
        /// In place of `login_limits.rate`; 0: no bound.
        pub logins_per_second: Option<u32> = None, in LOGINS;
    }
}

fn allowed_scopes<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    iam_adapters::list::deserialize(deserializer).map(Some)
}

#[derive(Debug, Clone)]
pub struct IamSection {
    pub name: String,
    /// The names of the settings of `[session]` and `[upstream]` in whose place the section has its own.
    pub(super) replaced: BTreeSet<String>,
    pub options: IamOptions,
    /// Those of `[session]`, or its own in their place.
    pub session: SessionSettings,
    /// Those of `[upstream]`, or its own in their place.
    pub upstream: UpstreamSettings,
    pub adapter: IamSettings,
}

impl IamSection {
    /// The section.
    pub(crate) fn key(&self) -> String {
        join("iam", &self.name)
    }

    /// The key of a setting of this common section, or of the IAM's own in its place.
    fn key_of(&self, common: &str, name: &str) -> String {
        if self.replaced.contains(name) {
            join(&self.key(), name)
        } else {
            join(common, name)
        }
    }

    /// The settings of this IAM for the gateway.
    pub fn policy(&self, settings: &Settings) -> IamPolicy {
        let own = &self.options;
        let domains = own.domains.iter();
        let allowed_scopes = own.allowed_scopes.as_ref();
        IamPolicy {
            domains: domains.map(|domain| domain.to_lowercase()).collect(),
            is_default: own.default,
            allows_logins: own.login,
            subject_prefix: own.subject_prefix.clone(),
            // Those that cannot be parsed are a problem of the configuration.
            allowed_scopes: allowed_scopes
                .map(|names| AllowedScopes::parse(names).unwrap_or_default()),
            freshness: Freshness {
                liveness: self.session.freshness,
                permissions: settings.permissions.ttl,
                stale_if_error: settings.stale_if_error,
            },
            session_max_lifetime: self.session.max_lifetime,
            logins_per_second: (own.logins_per_second)
                .or(settings.login_limits.rate)
                .and_then(NonZeroU32::new),
            claims: self.adapter.claims().clone(),
        }
    }

    fn check(&self, settings: &Settings, problems: &mut ConfigErrors) {
        let (key, own) = (|name: &str| join(&self.key(), name), &self.options);
        own.check_ranges(key, problems);
        (self.session).check_ranges(|name| self.key_of("session", name), problems);
        (self.upstream).check_ranges(|name| self.key_of("upstream", name), problems);
        let (upstream, permissions) = (&self.upstream, &settings.permissions);
        let freshness = self.session.freshness;
        let decision = permissions.decision_deadline();
        let has_own_freshness = self.replaced.contains("freshness");
        if has_own_freshness {
            upstream.check_outlived_by(&key("freshness"), freshness, decision, problems);
        }
        if self.replaced.contains("introspection_deadline") {
            let common_freshness = (!has_own_freshness).then_some(("session.freshness", freshness));
            let ages = common_freshness.into_iter();
            for (age_key, age) in ages.chain([("permissions.ttl", permissions.ttl)]) {
                if age < upstream.introspection_deadline + decision.unwrap_or_default() {
                    let problem = format!("must not be longer than {age_key}");
                    problems.add(&key("introspection_deadline"), problem);
                }
            }
        }
        if settings.permissions.source == PermissionSourceKind::Groups
            && let Some(missing) = self.adapter.missing_for_groups()
        {
            let problem = "is missing: permissions.source = \"groups\" needs it";
            problems.add(&key(missing), problem);
        }
        if settings.permissions.source == PermissionSourceKind::Iam
            && !self.adapter.has_permissions()
        {
            let problem = format!(
                "must be groups or http: [{}] has no permissions",
                self.key()
            );
            problems.add("permissions.source", problem);
        }
        let is_visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let prefix = &own.subject_prefix;
        if prefix.len() > SUBJECT_PREFIX_MAX || !is_visible(prefix) {
            problems.add(
                &key("subject_prefix"),
                format!("must be at most {SUBJECT_PREFIX_MAX} visible ASCII characters"),
            );
        }
        for domain in &own.domains {
            let is_domain = |part: char| !part.is_whitespace() && part != '@' && !part.is_control();
            if domain.is_empty() || !domain.chars().all(is_domain) {
                problems.add(
                    &key("domains"),
                    "must be domains such as corp.example, as after the @ of an e-mail address",
                );
            }
        }
        if let Some(names) = &own.allowed_scopes
            && let Err(invalid) = AllowedScopes::parse(names)
        {
            problems.add(&key("allowed_scopes"), invalid.to_string());
        }
    }
}

/// Checks the sections, each by itself and all together.
pub(super) fn check(settings: &Settings, problems: &mut ConfigErrors) {
    for name in settings.permissions.groups.iams() {
        if !settings.iams.iter().any(|iam| iam.name == name) {
            let problem = format!("iam = {name:?}: there is no section [iam.{name}]");
            problems.add("permissions.groups", problem);
        }
    }
    for iam in &settings.iams {
        iam.check(settings, problems);
    }
    if settings.iams.len() < 2 {
        return;
    }
    for iam in &settings.iams {
        let own = &iam.options;
        if own.login && !own.default && own.domains.is_empty() {
            problems.add(
                &iam.key(),
                "no login reaches this IAM: set its domains, default = true or login = false",
            );
        }
    }
    for (at, other) in settings.iams.iter().enumerate() {
        for one in settings.iams.iter().take(at) {
            check_pair(one, other, problems);
        }
    }
}

/// Each problem is about the second section and names the first one.
fn check_pair(one: &IamSection, other: &IamSection, problems: &mut ConfigErrors) {
    let mut add = |name: &str, problem: String| {
        problems.add(&join(&other.key(), name), problem);
    };
    let (first, second) = (&one.options, &other.options);
    let section = format!("[{}]", one.key());
    if first.subject_prefix == second.subject_prefix {
        add(
            "subject_prefix",
            format!(
                "{section} has the same: {:?}; two IAMs can use the same id for different users",
                first.subject_prefix
            ),
        );
    } else if !first.subject_prefix.is_empty()
        && !second.subject_prefix.is_empty()
        && (first.subject_prefix.starts_with(&second.subject_prefix)
            || second.subject_prefix.starts_with(&first.subject_prefix))
    {
        // An empty prefix is allowed: the IAM with it is the operator's own.
        add(
            "subject_prefix",
            format!(
                "{section} has {:?}: one is the beginning of the other, and two users can get the same sub",
                first.subject_prefix
            ),
        );
    }
    if first.default && second.default {
        add("default", format!("{section} is the default IAM already"));
    }
    if first.login && second.login {
        for domain in &second.domains {
            let mut own = first.domains.iter();
            if own.any(|own| own.to_lowercase() == domain.to_lowercase()) {
                let problem = "has this domain too, and only one of them can have login = true";
                add("domains", format!("{domain}: {section} {problem}"));
            }
        }
    }
}

impl Settings {
    /// Two IAMs with one issuer: their sessions could not be told apart. `issuers` are in the order of
    /// the sections.
    pub(crate) fn check_issuers(&self, issuers: &[&str], problems: &mut ConfigErrors) {
        let sections: Vec<_> = self.iams.iter().zip(issuers).collect();
        for (at, (iam, issuer)) in sections.iter().enumerate() {
            let before = sections.iter().take(at);
            for (other, _) in before.filter(|(_, other)| other == issuer) {
                let other = other.key();
                problems.add(
                    &iam.key(),
                    format!("[{other}] has the same issuer, {issuer}"),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
