//! A running gateway reloads its keys by itself.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use test_support::endpoints::LOGIN;
use test_support::program::Program;
use test_support::wait::until_ok_blocking;
use test_support::wire::{ALICE, fetch, get, post};

use crate::GATEWAY;

/// A gateway with key folders.
struct ReloadFixture {
    _folder: TempDir,
    signing: PathBuf,
    program: Program,
    public: SocketAddr,
    management: SocketAddr,
}

fn generate(folder: &Path, purpose: &str) -> String {
    let folder = folder.to_str().expect("text");
    let ended = GATEWAY.run(
        &["keys", "generate", "--dir", folder, "--use", purpose],
        &[],
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let path = ended.out.split("  ").next().expect("a path");
    let name = path.rsplit('/').next().expect("a name");
    name.trim_end_matches(".jwk").to_owned()
}

/// Waits until the document at this path fulfils the condition.
#[track_caller]
fn becomes(address: SocketAddr, path: &str, wanted: impl Fn(&Value) -> bool) {
    until_ok_blocking(path, || {
        let answer = fetch(address, get(path)).json();
        if wanted(&answer) { Ok(()) } else { Err(answer) }
    });
}

impl ReloadFixture {
    /// `lay` writes the first signing key to this folder.
    fn new(lay: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let signing = folder.path().join("signing");
        let sealing = folder.path().join("sealing");
        lay(&signing);
        generate(&sealing, "sealing");
        let mut program = GATEWAY.serve(&[
            ("keys.signing_dir", signing.to_str().expect("text")),
            ("keys.sealing_dir", sealing.to_str().expect("text")),
            ("keys.reload_interval", "1s"),
        ]);
        let (public, management) = program.addresses();
        Self {
            _folder: folder,
            signing,
            program,
            public,
            management,
        }
    }

    /// Waits until the gateway publishes these keys.
    #[track_caller]
    fn publishes(&self, kids: &[&str]) {
        becomes(self.public, "/.well-known/jwks.json", |answer| {
            let keys = answer["keys"].as_array().expect("keys").iter();
            keys.map(|key| key["kid"].as_str().expect("text"))
                .eq(kids.iter().copied())
        });
    }

    fn has_a_reason(&self, code: &str, wanted: bool) {
        becomes(self.management, "/health/ready", |report| {
            let mut reasons = report["reasons"].as_array().expect("reasons").iter();
            reasons.any(|reason| reason["code"] == code) == wanted
        });
    }
}

#[test]
fn added_and_removed_keys_are_detected() {
    let mut first = String::new();
    let mut fixture = ReloadFixture::new(|folder| first = generate(folder, "signing"));
    fixture.publishes(&[&first]);
    let next = generate(&fixture.signing, "signing");
    fixture.publishes(&[&first, &next]);
    let line = fixture.program.logged("keys reloaded");
    assert_eq!(line["purpose"], "signing");
    assert_eq!(line["kids"], format!("{first} {next}"));
    fs::remove_file(fixture.signing.join(format!("{first}.jwk"))).expect("removed");
    fixture.publishes(&[&next]);
}

#[test]
fn broken_file_and_its_repair_are_reported_once_each() {
    let mut first = String::new();
    let fixture = ReloadFixture::new(|folder| first = generate(folder, "signing"));
    let path = fixture.signing.join("broken.jwk");
    for text in ["", "{\"kty\""] {
        fs::write(&path, text).expect("written");
        fixture.has_a_reason("keys_unreadable", true);
        fixture.publishes(&[&first]);
        let login = fetch(fixture.public, post(LOGIN, ALICE));
        assert_eq!(login.status, 200);
        fs::remove_file(&path).expect("removed");
        fixture.has_a_reason("keys_unreadable", false);
    }
    let log = fixture.program.stop().log();
    let about = |level: &str| {
        let of_keys = log.iter().filter(|line| line["code"] == "keys_unreadable");
        of_keys.filter(|line| line["level"] == level).count()
    };
    assert_eq!((about("WARN"), about("INFO")), (2, 2), "{log:#?}");
}
