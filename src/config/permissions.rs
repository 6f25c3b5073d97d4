//! `[permissions]`: permissions of users.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Clock;
use iam_adapters::client::{ClientError, UpstreamClient, address_problems};
use iam_adapters::name::Name as _;
use iam_adapters::permission_source::{GroupTable, PermissionSource, PolicyServer};
use iam_adapters::resilient::CallLimit;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::errors::ConfigErrors;
use super::known::join;
use super::management::{BEARER_TOKEN, is_bearer_token};
use super::section::section;
use super::server_url::ServerUrl;
use super::session::AGES;
use super::upstream::UpstreamSettings;

section! {
    pub struct PermissionSettings {
        /// How old cached permissions may be when an access token is issued.
        #[serde(with = "humantime_serde")]
        pub ttl: Duration = Duration::from_secs(60), in AGES;
        #[serde(deserialize_with = "iam_adapters::choice::deserialize")]
        pub source: PermissionSourceKind = PermissionSourceKind::default();
        /// The table of [`PermissionSourceKind::Groups`].
        pub groups: GroupTable = GroupTable::default();
        /// The address of the decision for [`PermissionSourceKind::Http`].
        pub url: Option<ServerUrl> = None;
        /// The bearer token for that address, if it requires one.
        #[serde(serialize_with = "iam_adapters::secret_file::serialize_hidden")]
        pub token: Option<SecretString> = None;
        pub token_file: Option<PathBuf> = None;
        /// PEM certificates to trust in addition to the machine's own.
        pub ca_file: Option<PathBuf> = None;
        /// How long a decision may take.
        #[serde(with = "humantime_serde")]
        pub deadline: Duration = Duration::from_millis(500),
            in Duration::from_millis(1)..=Duration::from_secs(60);
        /// The most concurrent decisions.
        pub concurrency: usize = 128, in 1..=100_000;
    }
}

/// Where permissions come from.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, EnumString, IntoStaticStr, Serialize, VariantNames,
)]
#[serde(into = "&'static str")]
#[strum(serialize_all = "lowercase")]
pub enum PermissionSourceKind {
    /// The IAM.
    #[default]
    Iam,
    /// A table of the IAM's groups.
    Groups,
    /// A policy server.
    Http,
}

impl PermissionSettings {
    pub(super) fn check(
        &self,
        upstream: &UpstreamSettings,
        production: bool,
        problems: &mut ConfigErrors,
    ) {
        let decision = self.decision_deadline();
        upstream.check_outlived_by("permissions.ttl", self.ttl, decision, problems);
        self.check_ranges(|name| join("permissions", name), problems);
        let (groups, http) = (PermissionSourceKind::Groups, PermissionSourceKind::Http);
        for (key, is_set, of) in [
            ("groups", !self.groups.is_empty(), groups),
            ("url", self.url.is_some(), http),
            ("token", self.token.is_some(), http),
            ("ca_file", self.ca_file.is_some(), http),
        ] {
            if is_set && self.source != of {
                let message = format!("is used only with permissions.source = \"{}\"", of.name());
                problems.add(&format!("permissions.{key}"), message);
            }
        }
        match (self.source, &self.url) {
            (PermissionSourceKind::Groups, _) if self.groups.is_empty() => problems.add(
                "permissions.groups",
                "is missing: no user would have a permission",
            ),
            (PermissionSourceKind::Http, None) => problems.add("permissions.url", "is missing"),
            (PermissionSourceKind::Http, Some(url)) => {
                let must_be_https = production && !url.is_local();
                for problem in address_problems("permissions.url", url, must_be_https) {
                    problems.add_lines(&problem);
                }
            }
            (PermissionSourceKind::Iam | PermissionSourceKind::Groups, _) => {}
        }
        if let Some(token) = &self.token
            && !is_bearer_token(token.expose_secret())
        {
            problems.add("permissions.token", BEARER_TOKEN);
        }
    }

    /// The deadline of the decision that follows an introspection; `None`: there is none.
    pub(super) const fn decision_deadline(&self) -> Option<Duration> {
        match self.source {
            PermissionSourceKind::Iam | PermissionSourceKind::Groups => None,
            PermissionSourceKind::Http => Some(self.deadline),
        }
    }

    /// The source of permissions; `None`: the IAM. Makes no connection. Adds a problem if a file
    /// cannot be used; other problems have been found before.
    pub(crate) fn source(
        &self,
        connect_deadline: Duration,
        clock: &Arc<dyn Clock>,
        problems: &mut ConfigErrors,
    ) -> Option<PermissionSource> {
        match self.source {
            PermissionSourceKind::Iam => None,
            PermissionSourceKind::Groups => Some(PermissionSource::Groups(self.groups.clone())),
            PermissionSourceKind::Http => {
                let url = (**self.url.as_ref()?).clone();
                let ca_file = self.ca_file.as_deref();
                let client =
                    UpstreamClient::new(connect_deadline, ca_file, None, Arc::clone(clock));
                let failed =
                    |error: &ClientError| problems.add_lines(&format!("permissions.{error}"));
                let server = PolicyServer {
                    url,
                    token: self.token.clone(),
                    client: client.inspect_err(failed).ok()?,
                };
                let limit = CallLimit {
                    deadline: self.deadline,
                    concurrency: self.concurrency,
                };
                Some(PermissionSource::Http(Box::new(server), limit))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_tests::{load_text, problems};

    #[test]
    fn each_source_needs_its_settings_and_excludes_those_of_the_others() {
        let table = "groups = [{ group = 'a', scopes = ['s'] }]\n";
        let url = "url = 'http://127.0.0.1:8181/v1/data/gateway/scopes'\n";
        for (section, problem) in [
            (String::new(), None),
            (format!("source = 'groups'\n{table}"), None),
            (format!("source = 'http'\n{url}"), None),
            (format!("source = 'http'\n{url}token = 'abc'\n"), None),
            (
                "source = 'ldap'".to_owned(),
                Some("permissions.source: expected `iam`"),
            ),
            (
                "source = 'groups'".to_owned(),
                Some("permissions.groups: is missing"),
            ),
            (
                "source = 'http'".to_owned(),
                Some("permissions.url: is missing"),
            ),
            (
                table.to_owned(),
                Some("permissions.groups: is used only with"),
            ),
            (url.to_owned(), Some("permissions.url: is used only with")),
            (
                format!("source = 'groups'\n{table}token = 'abc'\n"),
                Some("permissions.token: is used only with"),
            ),
            (
                format!(
                    "source = 'groups'\n{}",
                    table.replace("{ ", "{ iam = 'sample', ")
                ),
                None,
            ),
            (
                format!(
                    "source = 'groups'\n{}",
                    table.replace("{ ", "{ iam = 'corp', ")
                ),
                Some("permissions.groups: iam = \"corp\": there is no section [iam.corp]"),
            ),
            (
                "source = 'groups'\ngroups = [{ group = 'cn=', scopes = [] }]".to_owned(),
                Some("permissions.groups: line 1: group has a `=`"),
            ),
            (
                "source = 'groups'\ngroups = [{ group = 'a', scope = 's' }]".to_owned(),
                Some("permissions.groups: "),
            ),
            (
                "source = 'http'\nurl = 'ftp://a/b'".to_owned(),
                Some("permissions.url: must be http or https"),
            ),
            (
                "source = 'http'\nurl = 'http://u:canary@a/b'".to_owned(),
                Some("permissions.url: must hold no credentials"),
            ),
            (
                format!("source = 'http'\n{url}ttl = '2s'\n"),
                Some(
                    "permissions.ttl: must not be shorter than upstream.introspection_deadline and",
                ),
            ),
            (
                format!("source = 'http'\n{url}concurrency = 0\n"),
                Some("permissions.concurrency: "),
            ),
        ] {
            let loaded = load_text(&format!("[permissions]\n{section}"), &[]);
            match (loaded, problem) {
                (Ok(settings), None) => {
                    let shown = format!("{settings:?}");
                    assert!(!shown.contains("gateway/scopes"), "{shown}");
                }
                (Err(invalid), Some(problem)) => {
                    let [found] = &invalid.problems[..] else {
                        panic!("{section}: {invalid}");
                    };
                    assert!(found.starts_with(problem), "{section}: {found}");
                    assert!(!found.contains("canary"), "{found}");
                }
                (loaded, _) => panic!("{section}: {loaded:?}"),
            }
        }
    }

    #[test]
    fn table_of_groups_needs_the_claim_with_the_groups_of_an_oauth2_server() {
        let iam =
            "[iam.oauth2]\nissuer = 'https://login.test'\nclient_id = 'c'\nclient_secret = 's'\n";
        let table =
            "[permissions]\nsource = 'groups'\ngroups = [{ group = 'a', scopes = ['s'] }]\n";
        let problem =
            "iam.oauth2.groups_claim: is missing: permissions.source = \"groups\" needs it";
        assert_eq!(problems(&format!("{iam}{table}"), &[]), [problem]);
        let claim = "groups_claim = 'groups'\n";
        assert_eq!(problems(&format!("{iam}{claim}{table}"), &[]), [""; 0]);
        assert_eq!(problems(iam, &[]), [""; 0]);
    }

    #[test]
    fn policy_server_of_production_is_addressed_by_https_except_on_this_machine() {
        let mut settings = PermissionSettings {
            source: PermissionSourceKind::Http,
            ..PermissionSettings::default()
        };
        for (url, valid) in [
            ("https://policy.example.test/", true),
            ("http://127.0.0.1:8181/", true),
            ("http://[::1]:8181/", true),
            ("http://localhost/", true),
            ("http://policy.example.test/", false),
        ] {
            settings.url = Some(url.to_owned().try_into().unwrap());
            let mut problems = ConfigErrors::default();
            settings.check(&UpstreamSettings::default(), true, &mut problems);
            let checked = problems.into_result(Some(()), |_| None);
            assert_eq!(checked.is_ok(), valid, "{url}");
        }
    }
}
