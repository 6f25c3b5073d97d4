//! A running gateway reloads its keys by itself.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use test_support::endpoints::LOGIN;
use test_support::program::Program;
use test_support::wait::until_ok_blocking;
use test_support::wire::{ALICE, Connection, get, post};

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
        let answer = Connection::to(address).send(get(path)).answer().json();
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
        let login = Connection::to(fixture.public)
            .send(post(LOGIN, ALICE))
            .answer();
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

/// As Kubernetes updates a secret in a pod.
#[test]
fn swapped_mount_and_replaced_folder_are_detected() {
    let generation = |folder: &Path, name: &str| {
        let kid = generate(&folder.join(name), "signing");
        symlink(name, folder.join("..data_tmp")).expect("linked");
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).expect("renamed");
        let link = folder.join(format!("{kid}.jwk"));
        symlink(format!("..data/{kid}.jwk"), &link).expect("linked");
        (kid, link)
    };
    let mut first = (String::new(), PathBuf::new());
    let fixture = ReloadFixture::new(|folder| first = generation(folder, "..2026_01"));
    fixture.publishes(&[&first.0]);
    let (second, _) = generation(&fixture.signing, "..2026_02");
    fs::remove_file(&first.1).expect("removed");
    fs::remove_dir_all(fixture.signing.join("..2026_01")).expect("removed");
    fixture.publishes(&[&second]);

    let other = fixture.signing.with_file_name("other");
    let third = generate(&other, "signing");
    fs::rename(&fixture.signing, fixture.signing.with_file_name("aside")).expect("renamed");
    fs::rename(&other, &fixture.signing).expect("renamed");
    fixture.publishes(&[&third]);
    let fourth = generate(&fixture.signing, "signing");
    fixture.publishes(&[&third, &fourth]);
}

/// The key is in another folder.
#[test]
fn change_behind_a_link_is_detected() {
    let elsewhere = tempfile::tempdir().expect("a folder");
    let fixture = ReloadFixture::new(|folder| {
        let name = format!("{}.jwk", generate(elsewhere.path(), "signing"));
        fs::create_dir(folder).expect("a folder");
        symlink(elsewhere.path().join(&name), folder.join(&name)).expect("linked");
    });
    let file = fs::read_dir(elsewhere.path()).expect("a folder").next();
    let file = file.expect("a file").expect("a file").path();
    let good = fs::read(&file).expect("a key");
    fixture.has_a_reason("keys_unreadable", false);
    fs::write(&file, "").expect("written");
    fixture.has_a_reason("keys_unreadable", true);
    fs::write(&file, good).expect("written");
    fixture.has_a_reason("keys_unreadable", false);
}

/// The key ids and states that `keys list` prints, in the order of first use.
fn listed(folder: &Path) -> Vec<(String, String)> {
    let folder = folder.to_str().expect("text");
    let ended = GATEWAY.run(&["keys", "list", "--dir", folder], &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let key = |line: &str| {
        let kid = line[27..].split("  ").nth(1).expect("a kid").to_owned();
        (kid, line[18..27].trim().to_owned())
    };
    ended.out.lines().map(key).collect()
}

impl ReloadFixture {
    /// The `kid` in the header of a new access token.
    fn signs_with(&self) -> String {
        let send = |path, body: &str| {
            let answer = Connection::to(self.public).send(post(path, body)).answer();
            assert_eq!(answer.status, 200, "{answer:?}");
            answer.json()
        };
        let mut session = send(LOGIN, ALICE);
        session["grant_type"] = "session".into();
        let token = send("/api/v1/auth/token", &session.to_string());
        let token = token["access_token"].as_str().expect("a token").to_owned();
        let header = josekit::jwt::decode_header(token).expect("a header");
        let kid = header.claim("kid").and_then(Value::as_str);
        kid.expect("a kid").to_owned()
    }

    /// The `kid` of the signing key in use, as readiness and the metrics report it.
    fn reports(&self) -> String {
        let report = Connection::to(self.management)
            .send(get("/health/ready"))
            .answer()
            .json();
        let kid = report["keys"]["signing_kid"].as_str();
        let kid = kid.unwrap_or_else(|| panic!("no kid: {report}")).to_owned();
        let metrics = Connection::to(self.management)
            .send(get("/metrics"))
            .answer();
        let mut of_use = metrics
            .body
            .lines()
            .filter(|line| line.starts_with("auth_gateway_key_age_seconds{purpose=\"signing\""));
        let line = of_use.next().expect("a metric");
        assert!(line.contains(&format!("kid=\"{kid}\"")), "{line}");
        assert_eq!(of_use.next(), None);
        kid
    }
}

/// The runbook for a stolen key, step by step.
#[test]
fn new_key_is_listed_as_waiting_until_gateways_sign_with_it() {
    let mut stolen = String::new();
    let fixture = ReloadFixture::new(|folder| stolen = generate(folder, "signing"));
    fixture.publishes(&[&stolen]);
    let folder = fixture.signing.to_str().expect("text");
    let made = GATEWAY.run(
        &["keys", "generate", "--dir", folder, "--first-use", "now"],
        &[],
    );
    assert_eq!(made.code, Some(0), "{made:?}");
    let (path, _) = made.out.split_once("  ").expect("a path");
    let next = Path::new(path).file_stem().expect("a name");
    let next = next.to_str().expect("text").to_owned();
    fixture.publishes(&[&stolen, &next]);
    assert_eq!(fixture.signs_with(), stolen);
    let state = |kid: &String, state: &str| (kid.clone(), state.to_owned());
    assert_eq!(
        listed(&fixture.signing),
        [state(&stolen, "in use"), state(&next, "waiting")]
    );
    assert_eq!(fixture.reports(), stolen);

    let removed = GATEWAY.run(&["keys", "remove", "--dir", folder, "--kid", &stolen], &[]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    becomes(fixture.management, "/health/ready", |report| {
        report["keys"]["signing_kid"] == next
    });
    assert_eq!(fixture.signs_with(), next);
    assert_eq!(listed(&fixture.signing), [state(&next, "in use")]);
    assert_eq!(fixture.reports(), next);
}

#[test]
fn sealing_key_that_is_overdue_for_rotation_is_reported_at_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let (signing, sealing) = (folder.path().join("signing"), folder.path().join("sealing"));
    generate(&signing, "signing");
    let days = |days: i64| jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days);
    for (age, overdue) in [(31, false), (33, true)] {
        let _ = fs::remove_dir_all(&sealing);
        let (dir, first_use) = (sealing.to_str().expect("text"), days(age).to_string());
        let made = ["keys", "generate", "--use", "sealing", "--dir", dir];
        let ended = GATEWAY.run(&[&made[..], &["--first-use", &first_use]].concat(), &[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let mut program = GATEWAY.serve(&[
            ("keys.signing_dir", signing.to_str().expect("text")),
            ("keys.sealing_dir", dir),
        ]);
        let (_, management) = program.addresses();
        let report = Connection::to(management)
            .send(get("/health/ready"))
            .answer()
            .json();
        let codes: Vec<_> = report["reasons"]
            .as_array()
            .expect("reasons")
            .iter()
            .map(|reason| reason["code"].as_str().expect("text"))
            .collect();
        let expected: &[&str] = if overdue { &["sealing_key_old"] } else { &[] };
        assert_eq!(codes, expected, "{report}");
        if overdue {
            let kid = report["keys"]["sealing_kid"].as_str().expect("a kid");
            let logged = program.logged_with("code", "sealing_key_old");
            assert_eq!(logged["level"], "WARN");
            assert!(logged["message"].as_str().expect("text").contains(kid));
        }
    }
}
