//! Refuses settings that are unsafe in production, or unsafe on a network.

use std::net::SocketAddr;

use iam_adapters::files::Exposed;
use iam_adapters::settings::{WELL_KNOWN, is_well_known};

use super::errors::ConfigErrors;
use super::source::SettingsFile;
use super::{AllowedOrigin, AuditDestination, Environment, Settings};

pub(super) fn check(settings: &Settings, problems: &mut ConfigErrors) {
    let production = settings.environment == Environment::Production;
    for iam in &settings.iams {
        for problem in iam.adapter.problems(&iam.key(), production) {
            problems.add_lines(&problem);
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
        check_reach(settings, "http.listen", settings.http.listen, problems);
    }
}

/// Refuses a settings file for production that contains a secret, even if the environment overrides
/// it, and that every user of the machine may read.
pub(super) fn check_file(
    settings: &Settings,
    file: &SettingsFile,
    secrets: &[String],
    problems: &mut ConfigErrors,
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

fn check_production(settings: &Settings, problems: &mut ConfigErrors) {
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
    let redis = settings.redis.as_ref();
    let sentinel = redis.and_then(|redis| redis.sentinel.as_ref());
    // Those of an IAM are refused by its adapter.
    for (key, secret) in [
        ("management.token", settings.management.token.as_ref()),
        ("permissions.token", settings.permissions.token.as_ref()),
        ("keys.identifier_key", settings.keys.identifier_key.as_ref()),
        (
            "redis.password",
            redis.and_then(|redis| redis.password.as_ref()),
        ),
        (
            "redis.sentinel.password",
            sentinel.and_then(|sentinel| sentinel.password.as_ref()),
        ),
    ] {
        if secret.is_some_and(is_well_known) {
            problems.add(key, WELL_KNOWN);
        }
    }
    for iam in &settings.iams {
        if settings.redis.is_none() && iam.adapter.needs_redis() {
            problems.add(
                &iam.key(),
                "needs [redis] in production: the IAM can end no session, so a logout has an effect at one replica \
                 only; accept_local_logout = true accepts that",
            );
        }
    }
    if !settings.http.public_url.is_https() {
        problems.add("http.public_url", "must begin with https:// in production");
    }
    let origins = &settings.http.cors.allowed_origins;
    if !origins.iter().all(AllowedOrigin::is_https) {
        problems.add(
            "http.cors.allowed_origins",
            "must begin with https:// in production",
        );
    }
}

/// Refuses ephemeral keys if the public listener is reachable from other machines. `key` is what sets its address.
pub(crate) fn check_reach(
    settings: &Settings,
    key: &str,
    listen: SocketAddr,
    problems: &mut ConfigErrors,
) {
    let missing: Vec<_> = settings.keys.made_at_start().collect();
    if !listen.ip().to_canonical().is_loopback() && !missing.is_empty() {
        let missing = missing.join(", ");
        problems.add(
            key,
            format!("{listen} can be reached from other machines; for that also set {missing}"),
        );
    }
}
