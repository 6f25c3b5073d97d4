//! `[iam.<name>]`: the IAMs. Their common settings are here; those of an adapter are its own.

use std::num::NonZeroU32;
use std::time::Duration;

use iam_adapters::AllowedScopes;
use iam_adapters::registry::IamSettings;
use serde::{Deserialize, Serialize};

use super::known::join;
use super::permissions::PermissionSourceKind;
use super::problems::Problems;
use super::session::MAX_LIFETIME;
use super::{Settings, UpstreamSettings, list, login_limits};
use crate::gateway::iams::IamPolicy;
use crate::gateway::introspection_cache::Freshness;

/// The longest `subject_prefix`, in bytes.
const SUBJECT_PREFIX_MAX: usize = 64;

/// The settings of a section `[iam.<name>]` that all adapters have.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default)]
pub struct IamOptions {
    /// The adapter; `None`: the one with the name of the section.
    pub r#type: Option<String>,
    /// Logins with an address of one of these domains go to this IAM.
    #[serde(deserialize_with = "list::deserialize")]
    pub domains: Vec<String>,
    /// Logins with an address of a domain that no IAM has go to this IAM.
    pub default: bool,
    /// Whether sessions can begin. Otherwise the IAM serves only the sessions that exist.
    pub login: bool,
    /// What precedes the IAM's subject in `sub`.
    pub subject_prefix: String,
    /// The most that users of this IAM can get: scope names, and beginnings of them followed by `*`.
    #[serde(deserialize_with = "allowed_scopes")]
    pub allowed_scopes: Option<Vec<String>>,
    /// In place of `session.freshness`.
    #[serde(with = "humantime_serde::option")]
    pub freshness: Option<Duration>,
    /// In place of `session.max_lifetime`.
    #[serde(with = "humantime_serde::option")]
    pub max_lifetime: Option<Duration>,
    /// In place of `login_limits.rate`; 0: no bound.
    pub logins_per_second: Option<u32>,
    /// In place of `upstream.connect_deadline`.
    #[serde(with = "humantime_serde::option")]
    pub connect_deadline: Option<Duration>,
    /// In place of `upstream.login_deadline`.
    #[serde(with = "humantime_serde::option")]
    pub login_deadline: Option<Duration>,
    /// In place of `upstream.introspection_deadline`.
    #[serde(with = "humantime_serde::option")]
    pub introspection_deadline: Option<Duration>,
    /// In place of `upstream.logout_deadline`.
    #[serde(with = "humantime_serde::option")]
    pub logout_deadline: Option<Duration>,
    /// In place of `upstream.probe_deadline`.
    #[serde(with = "humantime_serde::option")]
    pub probe_deadline: Option<Duration>,
    /// In place of `upstream.login_concurrency`.
    pub login_concurrency: Option<usize>,
    /// In place of `upstream.introspection_concurrency`.
    pub introspection_concurrency: Option<usize>,
    /// In place of `upstream.logout_concurrency`.
    pub logout_concurrency: Option<usize>,
    /// In place of `upstream.probe_interval`.
    #[serde(with = "humantime_serde::option")]
    pub probe_interval: Option<Duration>,
}

fn allowed_scopes<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    list::deserialize(deserializer).map(Some)
}

impl Default for IamOptions {
    fn default() -> Self {
        Self {
            r#type: None,
            domains: Vec::new(),
            default: false,
            login: true,
            subject_prefix: String::new(),
            allowed_scopes: None,
            freshness: None,
            max_lifetime: None,
            logins_per_second: None,
            connect_deadline: None,
            login_deadline: None,
            introspection_deadline: None,
            logout_deadline: None,
            probe_deadline: None,
            login_concurrency: None,
            introspection_concurrency: None,
            logout_concurrency: None,
            probe_interval: None,
        }
    }
}

/// A section `[iam.<name>]`.
#[derive(Debug, Clone)]
pub struct IamSection {
    /// The name.
    pub name: String,
    /// The settings that all adapters have.
    pub options: IamOptions,
    /// The settings of the adapter.
    pub adapter: IamSettings,
}

impl IamSection {
    /// The section's key.
    fn key(&self) -> String {
        join("iam", &self.name)
    }

    /// A key of this section, or a line that begins with one. An adapter writes its keys as in a section
    /// with its own name.
    pub(crate) fn own_key(&self, line: &str) -> String {
        let rest = line.strip_prefix(&join("iam", self.adapter.name()));
        match rest.filter(|rest| rest.is_empty() || rest.starts_with(['.', ':'])) {
            Some(rest) => format!("{}{rest}", self.key()),
            None => line.to_owned(),
        }
    }

    /// The settings of `[upstream]` for this IAM.
    #[must_use]
    pub fn upstream(&self, common: &UpstreamSettings) -> UpstreamSettings {
        let own = &self.options;
        UpstreamSettings {
            connect_deadline: own.connect_deadline.unwrap_or(common.connect_deadline),
            login_deadline: own.login_deadline.unwrap_or(common.login_deadline),
            introspection_deadline: own
                .introspection_deadline
                .unwrap_or(common.introspection_deadline),
            logout_deadline: own.logout_deadline.unwrap_or(common.logout_deadline),
            probe_deadline: own.probe_deadline.unwrap_or(common.probe_deadline),
            login_concurrency: own.login_concurrency.unwrap_or(common.login_concurrency),
            introspection_concurrency: own
                .introspection_concurrency
                .unwrap_or(common.introspection_concurrency),
            logout_concurrency: own.logout_concurrency.unwrap_or(common.logout_concurrency),
            probe_interval: own.probe_interval.unwrap_or(common.probe_interval),
        }
    }

    /// The settings of this IAM for the gateway.
    #[must_use]
    pub fn policy(&self, settings: &Settings) -> IamPolicy {
        let own = &self.options;
        let domains = own.domains.iter();
        let allowed_scopes = own.allowed_scopes.as_ref();
        IamPolicy {
            domains: domains.map(|domain| domain.to_ascii_lowercase()).collect(),
            is_default: own.default,
            allows_logins: own.login,
            subject_prefix: own.subject_prefix.clone(),
            // Those that cannot be parsed are a problem of the configuration.
            allowed_scopes: allowed_scopes
                .map(|names| AllowedScopes::parse(names).unwrap_or_default()),
            freshness: Freshness {
                liveness: own.freshness.unwrap_or(settings.session.freshness),
                permissions: settings.permissions.ttl,
                stale_if_error: settings.stale_if_error,
            },
            session_max_lifetime: own.max_lifetime.unwrap_or(settings.session.max_lifetime),
            logins_per_second: own.logins_per_second.map_or_else(
                || settings.login_limits.rate_of(&self.adapter),
                NonZeroU32::new,
            ),
        }
    }

    fn check(&self, settings: &Settings, problems: &mut Problems) {
        let (key, own) = (|name: &str| join(&self.key(), name), &self.options);
        // Without the common settings, which have their own checks.
        self.upstream(&UpstreamSettings::default())
            .check(&self.key(), problems);
        if let Some(lifetime) = own.max_lifetime {
            problems.duration_within(&key("max_lifetime"), lifetime, MAX_LIFETIME);
        }
        let upstream = self.upstream(&settings.upstream);
        let freshness = own.freshness.unwrap_or(settings.session.freshness);
        if own.freshness.is_some() {
            let permissions = &settings.permissions;
            upstream.check_outlived_by(&key("freshness"), freshness, permissions, problems);
        } else if own.introspection_deadline.is_some() {
            let name = key("introspection_deadline");
            let decision = settings.permissions.decision_deadline();
            let longest = upstream.introspection_deadline + decision.unwrap_or_default();
            for (age_key, age) in [
                ("session.freshness", freshness),
                ("permissions.ttl", settings.permissions.ttl),
            ] {
                if age < longest {
                    problems.add(&name, format!("must be shorter than {age_key}"));
                }
            }
        }
        if settings.permissions.source == PermissionSourceKind::Groups
            && let Some(missing) = self.adapter.missing_for_groups()
        {
            let problem = "is missing: permissions.source = \"groups\" needs it";
            problems.add(&key(missing), problem);
        }
        if let Some(logins) = own.logins_per_second {
            login_limits::check_rate(&key("logins_per_second"), logins, problems);
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
pub(super) fn check(settings: &Settings, problems: &mut Problems) {
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
    let mut others = settings.iams.as_slice();
    while let Some((one, rest)) = others.split_first() {
        for other in rest {
            check_pair(one, other, problems);
        }
        others = rest;
    }
}

/// Each problem is about the second section and names the first one.
fn check_pair(one: &IamSection, other: &IamSection, problems: &mut Problems) {
    let mut add = |name: &str, problem: String| {
        problems.add(&join(&other.key(), name), problem);
    };
    let (first, second) = (&one.options, &other.options);
    let section = format!("[{}]", one.key());
    if first.subject_prefix == second.subject_prefix {
        add(
            "subject_prefix",
            format!(
                "{section} has the same: {:?}; two users could have the same sub",
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
                "{section} has {:?}: one is the beginning of the other, so a user of one IAM could \
                 have the sub of a user of the other",
                first.subject_prefix
            ),
        );
    }
    if first.default && second.default {
        add("default", format!("{section} is the default IAM already"));
    }
    if first.login && second.login {
        for domain in &second.domains {
            if first
                .domains
                .iter()
                .any(|own| own.eq_ignore_ascii_case(domain))
            {
                let problem = "has this domain too, and only one of them can have login = true";
                add("domains", format!("{domain}: {section} {problem}"));
            }
        }
    }
}

impl Settings {
    /// The settings of the adapter, if there is one IAM.
    #[must_use]
    pub fn only_iam(&self) -> Option<&IamSettings> {
        match &*self.iams {
            [only] => Some(&only.adapter),
            _ => None,
        }
    }

    /// Two IAMs with one issuer: their sessions could not be told apart. `issuers` are in the order of
    /// the sections.
    pub(crate) fn check_issuers(&self, issuers: &[&str], problems: &mut Problems) {
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
