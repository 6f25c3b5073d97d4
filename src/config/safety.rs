//! Refuses settings that are unsafe in production, or unsafe on a network.

use std::net::SocketAddr;

use iam_adapters::files::Exposed;

use super::problems::Problems;
use super::source::SettingsFile;
use super::{AuditDestination, Environment, Settings};

impl Settings {
    /// Whether access tokens are signed with a private key that is published.
    #[must_use]
    pub fn uses_published_signing_key(&self) -> bool {
        self.published_signing_keys().next().is_some()
    }

    /// The settings that select a published key.
    fn published_signing_keys(&self) -> impl Iterator<Item = String> {
        self.iams.iter().filter_map(|iam| {
            let setting = iam.adapter.public_credentials().signing_key_set_by?;
            Some(iam.own_key(setting))
        })
    }
}

/// Refuses unsafe settings.
pub(super) fn check(settings: &Settings, problems: &mut Problems) {
    let production = settings.environment == Environment::Production;
    for iam in &settings.iams {
        for problem in iam.adapter.problems(production) {
            problems.add_lines(&iam.own_key(&problem));
        }
    }
    if settings.keys.signing_dir.is_some() {
        for setting in settings.published_signing_keys() {
            problems.add(&setting, "cannot be true if keys.signing_dir is set");
        }
    }
    settings.management.check(production, problems);
    settings.traces.check(production, problems);
    if let Some(redis) = &settings.redis {
        redis.check(production, problems);
    }
    if production {
        check_production(settings, problems);
    } else {
        check_reach(settings, problems);
    }
}

/// Refuses a settings file for production that contains a secret, even if the environment overrides
/// it, and that every user of the machine may read.
pub(super) fn check_file(
    settings: &Settings,
    file: &SettingsFile,
    secrets: &[String],
    problems: &mut Problems,
) {
    if settings.environment != Environment::Production || secrets.is_empty() {
        return;
    }
    if let Err(exposed) = Exposed::refuse(&file.path, file.mode) {
        let held = secrets.join(" and ");
        problems.add(
            &file.path.display().to_string(),
            format!("holds {held}, and {exposed}"),
        );
    }
}

fn check_production(settings: &Settings, problems: &mut Problems) {
    for key in settings.keys.made_at_start() {
        problems.add(
            key,
            "is missing; production requires stored keys (`auth-gateway keys generate` makes them)",
        );
    }
    let has_audit_log = settings.audit.destination != AuditDestination::None;
    if (settings.redis.is_some() || has_audit_log) && settings.keys.identifier_key.is_none() {
        problems.add(
            "keys.identifier_key_file",
            "is missing; production with Redis or an audit log requires a key of identifiers, which all replicas \
             share (`auth-gateway init --output FILE` makes it)",
        );
    }
    if !settings.http.public_url.is_https() {
        problems.add("http.public_url", "must begin with https:// in production");
    }
}

/// Refuses ephemeral keys and published credentials if a listener is reachable from other machines.
fn check_reach(settings: &Settings, problems: &mut Problems) {
    let reached = |listen: SocketAddr| !listen.ip().to_canonical().is_loopback();
    let mut open = Vec::new();
    if reached(settings.http.listen) {
        open.push(("http.listen", settings.http.listen));
    }
    let iams = settings.iams.iter();
    let public: Vec<_> = iams
        .map(|iam| (iam, iam.adapter.public_credentials()))
        .collect();
    let open_administration = public.iter().any(|(_, public)| public.open_administration);
    if reached(settings.management.listen) && open_administration {
        open.push(("management.listen", settings.management.listen));
    }
    let accounts = public.iter().filter_map(|(iam, public)| {
        let setting = iam.own_key(public.accounts_replaced_by?);
        Some(format!("{setting} (or another IAM)"))
    });
    let keys = settings.keys.made_at_start().map(str::to_owned);
    let missing: Vec<_> = keys.chain(accounts).collect();
    if !missing.is_empty() {
        let mut missing = missing.join(", ");
        if let Some(setting) = settings.published_signing_keys().next() {
            missing = format!("{missing}, and remove {setting}, which is public");
        }
        for (key, listen) in open {
            problems.add(
                key,
                format!("{listen} can be reached from other machines; for that also set {missing}"),
            );
        }
    }
}
