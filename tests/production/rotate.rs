//! `keys rotate`, `keys list` and `keys remove`, as an operator and cron use them.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use tempfile::{TempDir, tempdir};
use test_support::files::write_private;
use test_support::program::Ended;

use crate::GATEWAY;

fn keys(verb: &str, folder: &Path, more: &[&str]) -> Ended {
    let folder = folder.to_str().expect("text");
    GATEWAY.run(&[&["keys", verb, "--dir", folder], more].concat(), &[])
}

#[track_caller]
fn done(ended: &Ended) -> Vec<&str> {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.out.lines().collect()
}

fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("a folder");
    let names = names.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = names
        .map(|name| name.into_string().expect("text"))
        .collect();
    names.sort();
    names
}

/// A folder with keys of these ages, in hours; returns their ids in the order of use.
fn aged(ages: &[i64], more: &[&str]) -> (TempDir, Vec<String>) {
    let folder = tempdir().expect("a folder");
    let kids = ages.iter().map(|hours| {
        let first_use = (Timestamp::now() - SignedDuration::from_hours(*hours)).to_string();
        let made = keys(
            "generate",
            folder.path(),
            &[&["--first-use", &first_use], more].concat(),
        );
        let path = done(&made)[0]
            .split("  ")
            .next()
            .expect("a path")
            .to_owned();
        let written = SystemTime::now() - Duration::from_secs(3600 * hours.unsigned_abs());
        let file = fs::File::open(&path).expect("a file");
        file.set_modified(written).expect("set");
        let name = Path::new(&path).file_stem().expect("a name");
        name.to_str().expect("text").to_owned()
    });
    let kids = kids.collect();
    (folder, kids)
}

/// The states of the keys in a folder, in the order of use.
fn states(folder: &Path) -> Vec<String> {
    let ended = keys("list", folder, &[]);
    let state = |line: &&str| line[18..27].trim().to_owned();
    done(&ended).iter().map(state).collect()
}

#[test]
fn repeated_rotate_makes_each_key_once() {
    let parent = tempdir().expect("a folder");
    let folder = parent.path().join("made/with/it");
    assert!(done(&keys("rotate", &folder, &[]))[0].contains("used from"));
    for _ in 0..2 {
        let ended = keys("rotate", &folder, &[]);
        assert!(done(&ended)[0].contains("not yet old enough"), "{ended:?}");
    }
    assert!(done(&keys("rotate", &folder, &["--every", "0s"]))[0].contains("used from"));
    for _ in 0..2 {
        let ended = keys("rotate", &folder, &["--every", "0s"]);
        assert!(done(&ended)[0].contains("waits until"), "{ended:?}");
    }
    assert_eq!(states(&folder), ["in use", "waiting"]);
    for name in files(&folder) {
        let mode = fs::metadata(folder.join(&name))
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn directory_of_sealing_keys_receives_no_signing_key_unasked() {
    let (folder, _) = aged(&[1_000], &["--use", "sealing"]);
    let before = files(folder.path());
    for verb in ["generate", "rotate"] {
        let ended = keys(verb, folder.path(), &[]);
        assert_eq!(ended.code, Some(64), "{ended:?}");
        assert!(ended.err.contains("--use sealing"), "{}", ended.err);
        assert_eq!(files(folder.path()), before, "{verb}");
    }
    done(&keys("rotate", folder.path(), &["--use", "sealing"]));
    done(&keys("generate", folder.path(), &["--use", "signing"]));
    assert_eq!(states(folder.path()).len(), before.len() + 2);
}

#[test]
fn rotate_names_a_directory_that_cannot_be_used() {
    let parent = tempdir().expect("a folder");
    let file = parent.path().join("file");
    fs::write(&file, "").expect("written");
    for directory in [file.join("signing"), file] {
        let ended = keys("rotate", &directory, &["--use", "signing"]);
        assert_eq!(ended.code, Some(64), "{ended:?}");
        let name = directory.to_str().expect("text");
        assert!(ended.err.contains(name), "{}", ended.err);
    }
}

#[test]
fn two_rotations_at_once_make_one_key() {
    let (folder, _) = aged(&[1_000], &[]);
    let rotations: Vec<_> = (0..4)
        .map(|_| {
            let folder = folder.path().to_owned();
            std::thread::spawn(move || keys("rotate", &folder, &[]))
        })
        .collect();
    for rotation in rotations {
        done(&rotation.join().expect("an end"));
    }
    assert_eq!(states(folder.path()), ["in use", "waiting"]);
}

#[test]
fn rotated_key_keeps_the_algorithm_and_is_used_after_publication() {
    let (folder, _) = aged(&[1_000], &["--alg", "EdDSA"]);
    let before = Timestamp::now();
    let made = keys("rotate", folder.path(), &["--jwks-max-age", "1h"]);
    let line = done(&made)[0].to_owned();
    let (path, rest) = line.split_once("  used from ").expect("a time");
    let time: Timestamp = rest.trim_end_matches(" on").parse().expect("a time");
    let lead = time.as_second() - before.as_second();
    assert!((3_660..3_720).contains(&lead), "{lead}");
    let text = fs::read_to_string(path).expect("a file");
    assert!(text.contains("EdDSA"));
    let (folder, _) = aged(&[1_000], &["--alg", "EdDSA"]);
    let made = keys("rotate", folder.path(), &["--alg", "RS256"]);
    let path = done(&made)[0]
        .split("  ")
        .next()
        .expect("a path")
        .to_owned();
    assert!(fs::read_to_string(path).expect("a file").contains("RS256"));
}

#[test]
fn sealing_key_is_kept_for_the_lifetime_of_every_iam() {
    for (lifetime, kept) in [("24h", 1), ("30days", 2)] {
        let (folder, _) = aged(&[100, 30], &["--use", "sealing"]);
        let settings = [
            ("session.max_lifetime", "24h"),
            ("iam.keycloak.url", "https://iam.test"),
            ("iam.keycloak.realm", "shop"),
            ("iam.keycloak.client_id", "auth-gateway"),
            ("iam.keycloak.client_secret", "secret"),
            ("iam.keycloak.max_lifetime", lifetime),
        ];
        let name = folder.path().to_str().expect("text");
        let arguments = ["keys", "rotate", "--dir", name, "--use", "sealing"];
        done(&GATEWAY.run(&arguments, &settings));
        assert_eq!(files(folder.path()).len(), kept, "{lifetime}");
    }
}

#[test]
fn rotate_removes_retired_keys_and_no_others() {
    let (folder, kids) = aged(&[100, 3, 1], &[]);
    assert_eq!(states(folder.path()), ["retired", "honoured", "in use"]);
    let ended = keys("rotate", folder.path(), &[]);
    let line = format!("{}.jwk  removed: no longer needed", kids[0]);
    assert!(
        done(&ended).iter().any(|printed| printed.ends_with(&line)),
        "{ended:?}"
    );
    assert_eq!(states(folder.path()), ["honoured", "in use"]);
    keys("rotate", folder.path(), &["--token-lifetime", "5m"]);
    assert_eq!(states(folder.path()), ["in use"]);
    // Sealing keys are accepted for as long as sessions live.
    let (folder, _) = aged(&[100, 30, 10], &["--use", "sealing"]);
    assert_eq!(states(folder.path()), ["retired", "honoured", "in use"]);
    done(&keys("rotate", folder.path(), &["--use", "sealing"]));
    assert_eq!(states(folder.path()), ["honoured", "in use"]);
}

#[test]
fn rotate_keeps_the_key_whose_successor_came_too_late() {
    let (folder, kids) = aged(&[100, 48], &["--use", "sealing"]);
    let late = folder.path().join(format!("{}.jwk", kids[1]));
    let late = fs::File::open(late).expect("a file");
    late.set_modified(SystemTime::now()).expect("set");
    assert_eq!(states(folder.path()), ["in use", "starting"]);
    done(&keys("rotate", folder.path(), &["--use", "sealing"]));
    assert_eq!(files(folder.path()).len(), 2);
}

#[test]
fn rotate_with_a_configuration_uses_its_folders_and_times() {
    let (signing, _) = aged(&[1_000, 2], &[]);
    let (sealing, _) = aged(&[1_000, 2], &["--use", "sealing"]);
    let config = signing.path().join("gateway.toml");
    let text = format!(
        "[keys]\nsigning_dir = {:?}\nsealing_dir = {:?}\n[token]\nlifetime = \"5m\"\n[session]\nmax_lifetime = \"1h\"\n",
        signing.path(),
        sealing.path()
    );
    fs::write(&config, text).expect("written");
    let config = config.to_str().expect("text");
    let ended = GATEWAY.run(
        &["keys", "rotate", "--config", config, "--every", "1h"],
        &[],
    );
    assert_eq!(done(&ended).len(), 4, "{ended:?}");
    for folder in [signing.path(), sealing.path()] {
        assert_eq!(states(folder), ["in use", "waiting"]);
    }
    let ended = GATEWAY.run(&["keys", "rotate"], &[]);
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.err.contains("--dir"), "{}", ended.err);
}

/// A folder of each kind, with a key of it that is old enough to be replaced.
fn due() -> [TempDir; 2] {
    let (signing, _) = aged(&[1_000], &[]);
    let (sealing, _) = aged(&[1_000], &["--use", "sealing"]);
    [signing, sealing]
}

#[test]
fn rotate_makes_no_key_if_one_of_the_folders_cannot_be_used() {
    let [signing, sealing] = due();
    let broken = sealing.path().join("broken.jwk");
    write_private(&broken, "no key");
    let [signing_dir, sealing_dir] = [&signing, &sealing].map(TempDir::path);
    let ended = GATEWAY.run(
        &["keys", "rotate"],
        &[
            ("keys.signing_dir", signing_dir.to_str().expect("text")),
            ("keys.sealing_dir", sealing_dir.to_str().expect("text")),
        ],
    );
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.err.contains("broken.jwk"), "{}", ended.err);
    assert_eq!(files(signing_dir).len(), 1);
}

#[test]
fn rotate_whose_output_is_closed_rotates_all_folders() {
    let [signing, sealing] = due();
    let [signing_dir, sealing_dir] = [&signing, &sealing].map(TempDir::path);
    let mut rotate = GATEWAY.command(
        &["keys", "rotate"],
        &[
            ("keys.signing_dir", signing_dir.to_str().expect("text")),
            ("keys.sealing_dir", sealing_dir.to_str().expect("text")),
        ],
    );
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let ended = rotate.stdout(writer).stderr(Stdio::null()).status();
    assert_eq!(ended.expect("an end").code(), Some(70));
    for folder in [signing_dir, sealing_dir] {
        assert_eq!(files(folder).len(), 2, "{}", folder.display());
    }
}

#[test]
fn successor_that_a_refused_removal_proposes_has_the_algorithm_of_the_key() {
    for (more, proposed) in [
        (&["--alg", "ES256"][..], " --use signing --first-use now"),
        (
            &["--alg", "EdDSA"],
            " --use signing --alg EdDSA --first-use now",
        ),
        (&["--use", "sealing"], " --use sealing --first-use now"),
    ] {
        let (folder, kids) = aged(&[10], more);
        let refused = keys("remove", folder.path(), &["--kid", &kids[0]]);
        assert_eq!(refused.code, Some(64), "{refused:?}");
        assert!(refused.err.contains(proposed), "{}", refused.err);
    }
}

#[test]
fn key_is_removed_only_if_another_can_replace_it() {
    let (folder, kids) = aged(&[100, 10], &[]);
    let remove = |kid: &str| keys("remove", folder.path(), &["--kid", kid]);
    let refused = remove("unknown");
    assert_eq!(refused.code, Some(64), "{refused:?}");
    let refused = remove(&kids[1]);
    assert_eq!(refused.code, Some(64), "{refused:?}");
    assert!(refused.err.contains("--first-use now"), "{}", refused.err);
    assert_eq!(files(folder.path()).len(), 2);
    done(&keys("generate", folder.path(), &["--first-use", "now"]));
    let removed = remove(&kids[1]);
    assert!(done(&removed)[0].ends_with("  removed"), "{removed:?}");
    done(&remove(&kids[0]));
    assert_eq!(states(folder.path()), ["in use"]);
}
