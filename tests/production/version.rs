//! `--version`, and how `build.rs` finds the commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::GATEWAY;

/// The compiled build script.
struct BuildScript {
    folder: TempDir,
}

impl BuildScript {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition", "2024", "-o"]);
        rustc.arg(folder.path().join("build")).arg(source);
        assert!(rustc.status().expect("rustc").success());
        Self { folder }
    }

    /// The commit in this folder, and the files whose change makes cargo run the script again.
    fn run(&self, folder: &Path, named: Option<&str>) -> (String, Vec<PathBuf>) {
        self.run_for("release", folder, named)
    }

    fn run_for(&self, profile: &str, folder: &Path, named: Option<&str>) -> (String, Vec<PathBuf>) {
        let mut script = Command::new(self.folder.path().join("build"));
        script.env("PROFILE", profile);
        script.current_dir(folder).env_remove("AUTH_GATEWAY_COMMIT");
        if let Some(named) = named {
            script.env("AUTH_GATEWAY_COMMIT", named);
        }
        let output = script.output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        let values =
            |key: &'static str| text.lines().filter_map(move |line| line.strip_prefix(key));
        let mut commits = values("cargo::rustc-env=AUTH_GATEWAY_COMMIT=");
        let commit = commits.next().expect("a commit").to_owned();
        let watched = values("cargo::rerun-if-changed=").map(|file| folder.join(file));
        (commit, watched.collect())
    }
}

/// Runs Git without the settings of this machine.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(folder).args(arguments);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{role}_NAME"), "test");
        git.env(format!("GIT_{role}_EMAIL"), "test@example.test");
    }
    let output = git.output().expect("git");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout)
        .expect("text")
        .trim()
        .to_owned()
}

/// A folder with a build script that cargo can watch, as in the sources of the project.
fn sources(parent: &Path, name: &str) -> PathBuf {
    let folder = parent.join(name);
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("build.rs"), "").expect("written");
    folder
}

#[test]
fn commit_is_that_of_the_checkout_and_every_change_of_it_is_noticed() {
    let script = BuildScript::new();
    let parent = tempfile::tempdir().expect("a folder");
    let main = sources(parent.path(), "main");
    git(&main, &["init", "--quiet"]);
    let commit = |folder: &Path| git(folder, &["commit", "--quiet", "--allow-empty", "-m", "a"]);
    commit(&main);
    git(
        &main,
        &["worktree", "add", "--quiet", "--detach", "../worktree"],
    );
    let worktree = parent.path().join("worktree");
    commit(&worktree);
    for folder in [&main, &worktree] {
        let (before, watched) = script.run(folder, None);
        let head = git(folder, &["rev-parse", "HEAD"]);
        assert_eq!(before, head[..12]);
        let contents = || -> Vec<_> {
            watched
                .iter()
                .map(|file| fs::read(file).expect("a file"))
                .collect()
        };
        let unchanged = contents();
        // A commit with the same tree at the same second would be the same commit.
        git(folder, &["commit", "--quiet", "--allow-empty", "-m", "b"]);
        assert_ne!(contents(), unchanged, "{watched:?}");
        assert_ne!(script.run(folder, None).0, before);
        let (debug, watched) = script.run_for("debug", folder, None);
        assert_eq!(debug, "unknown");
        assert_eq!(watched, [folder.join("build.rs")]);
    }
}

#[test]
fn sources_without_a_repository_name_their_commit_or_it_is_unknown() {
    let script = BuildScript::new();
    let other = tempfile::tempdir().expect("a folder");
    git(other.path(), &["init", "--quiet"]);
    git(
        other.path(),
        &["commit", "--quiet", "--allow-empty", "-m", "a"],
    );
    let unpacked = sources(other.path(), "unpacked");
    let long = "0123456789abcdef0123456789abcdef01234567";
    for (named, commit) in [
        (None, "unknown"),
        (Some(""), "unknown"),
        (Some("abcdef123456"), "abcdef123456"),
        (Some(long), "0123456789ab"),
    ] {
        let (found, watched) = script.run(&unpacked, named);
        assert_eq!(found, commit, "{named:?}");
        // Cargo runs the script each time if one does not exist.
        assert!(watched.iter().all(|file| file.exists()), "{watched:?}");
    }
}

#[test]
fn version_has_the_commit() {
    let ended = GATEWAY.run(&["--version"], &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (version, commit) = (auth_gateway::VERSION, auth_gateway::COMMIT);
    let expected = format!("auth-gateway {version} (commit {commit})\n");
    assert_eq!(ended.out, expected);
    let is_hash = commit.len() == 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_hash || commit == "unknown", "{commit}");
}
