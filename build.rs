//! Gives the build the commit that it was made from, as `AUTH_GATEWAY_COMMIT`.
//!
//! A debug build does not ask Git, so that a commit does not cause a build of everything.

#![expect(clippy::disallowed_methods, reason = "cargo passes the environment")]

use std::env;
use std::path::Path;
use std::process::Command;

/// As many characters of the hash as identify a commit in a large repository.
const LENGTH: usize = 12;

fn main() {
    // Sources without a repository, such as those of a package or an image, name the commit themselves.
    println!("cargo::rerun-if-env-changed=AUTH_GATEWAY_COMMIT");
    let named = env::var("AUTH_GATEWAY_COMMIT").ok();
    let named = named.filter(|commit| !commit.is_empty());
    let commit = named.or_else(head).unwrap_or_else(|| "unknown".to_owned());
    let commit: String = commit.chars().take(LENGTH).collect();
    println!("cargo::rustc-env=AUTH_GATEWAY_COMMIT={commit}");
}

/// The commit that is checked out; `None` without a repository, and in a debug build.
fn head() -> Option<String> {
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // A folder above may be the repository of something else.
    if !is_release || !Path::new(".git").exists() {
        println!("cargo::rerun-if-changed=build.rs");
        return None;
    }
    // Git appends a line to this file whenever HEAD changes. A missing one would run this each time.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    let log = log.filter(|log| Path::new(log).exists());
    println!(
        "cargo::rerun-if-changed={}",
        log.as_deref().unwrap_or("build.rs")
    );
    git(&["rev-parse", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
