//! What is fine on a desk and nowhere else.

use std::net::SocketAddr;

use iam_adapters::files::Exposed;

use super::layers::SettingsFile;
use super::problems::Problems;
use super::{Environment, IamSettings, Settings};

const FIXED_SIGNING_KEY: &str = "iam.mock.fixed_signing_key";

/// Refuses what is unsafe where the gateway runs.
pub(super) fn check(settings: &Settings, problems: &mut Problems) {
    let production = settings.environment == Environment::Production;
    for problem in settings.iam.problems(production) {
        problems.add_lines(&problem);
    }
    if settings.iam.fixed_signing_key() && settings.keys.signing_dir.is_some() {
        problems.add(
            FIXED_SIGNING_KEY,
            "cannot be true where keys.signing_dir is set: one of the two signs",
        );
    }
    settings.management.check(production, problems);
    if let Some(redis) = &settings.revocations.redis {
        redis.check(production, problems);
    }
    if production {
        check_production(settings, problems);
    } else {
        check_reach(settings, problems);
    }
}

/// Refuses a file for production that holds a secret, even one that the environment overrides, and
/// that everybody on the machine may read.
pub(super) fn check_file(settings: &Settings, file: &SettingsFile, problems: &mut Problems) {
    if settings.environment != Environment::Production || file.secrets.is_empty() {
        return;
    }
    if let Err(exposed) = Exposed::refuse(&file.path, file.mode) {
        let held = file.secrets.join(" and ");
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
            "is missing; in production keys are kept (`auth-gateway keys generate` makes them)",
        );
    }
    if !settings.http.public_url.is_https() {
        problems.add("http.public_url", "must begin with https:// in production");
    }
}

/// What was made up at start, or is printed in every manual, protects nothing from the network.
fn check_reach(settings: &Settings, problems: &mut Problems) {
    let reached = |listen: SocketAddr| !listen.ip().to_canonical().is_loopback();
    let mut open = Vec::new();
    if reached(settings.http.listen) {
        open.push(("http.listen", settings.http.listen));
    }
    // Whoever reaches the mock's controls can do what its API can, and more.
    if reached(settings.management.listen) && matches!(settings.iam, IamSettings::Mock(_)) {
        open.push(("management.listen", settings.management.listen));
    }
    let mut missing: Vec<_> = settings.keys.made_at_start().collect();
    if matches!(&settings.iam, IamSettings::Mock(mock) if mock.users_file.is_none()) {
        missing.push("iam.mock.users_file (or another IAM)");
    }
    if !missing.is_empty() {
        let mut missing = missing.join(", ");
        if settings.iam.fixed_signing_key() {
            missing =
                format!("{missing}, and leave out {FIXED_SIGNING_KEY}, which everybody knows");
        }
        for (key, listen) in open {
            problems.add(
                key,
                format!("{listen} can be reached from other machines; for that also set {missing}"),
            );
        }
    }
}
