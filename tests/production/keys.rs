//! `keys`: key files that replicas share, generated before they are used.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde_json::Value;
use test_support::files::write_private;

use crate::GATEWAY;

/// The default of `keys.jwks_max_age`, and the allowed difference of clocks.
const SEEN_BY_ALL: i64 = 300 + 60;

fn now() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    i64::try_from(now.as_secs()).expect("a time")
}

/// Generates a key; returns its file and its printed first use.
fn generate(folder: &Path, more: &[&str]) -> (PathBuf, Timestamp) {
    let folder = folder.to_str().expect("text");
    let ended = GATEWAY.run(
        &[&["keys", "generate", "--dir", folder], more].concat(),
        &[],
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let line = ended.out.trim();
    let (path, rest) = line.split_once("  used from ").expect(line);
    let time = rest.strip_suffix(" on").expect(line);
    (path.into(), time.parse().expect(line))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

fn list(folder: &Path) -> Vec<Vec<String>> {
    let ended = GATEWAY.run(
        &["keys", "list", "--dir", folder.to_str().expect("text")],
        &[],
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let columns = |line: &str| {
        let columns = line.split("  ").map(str::trim);
        columns
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
            .collect()
    };
    ended.out.lines().map(columns).collect()
}

#[test]
fn generated_key_file_belongs_to_its_owner_only_and_has_the_given_first_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, first_use) = generate(folder.path(), &["--first-use", "2030-01-31T13:00:00+01:00"]);
    assert_eq!(first_use, "2030-01-31T12:00:00Z".parse().expect("a time"));
    assert_eq!(read(&path)["first_use"], "2030-01-31T12:00:00Z");
    let mode = fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(path.parent(), Some(folder.path()));
}

#[test]
fn first_key_is_used_at_once_and_a_further_one_after_publication() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("made/on/the/way");
    for purpose in ["signing", "sealing"] {
        let before = now();
        let (_, first) = generate(&folder, &["--use", purpose]);
        assert!(
            (before..=now()).contains(&first.as_second()),
            "{purpose}: {first}"
        );
        let before = now() + SEEN_BY_ALL;
        let (path, second) = generate(&folder, &["--use", purpose]);
        assert!(
            (before..=now() + SEEN_BY_ALL).contains(&second.as_second()),
            "{purpose}: {second}"
        );
        let written: Timestamp = read(&path)["first_use"]
            .as_str()
            .expect("text")
            .parse()
            .expect("a time");
        assert_eq!(written.as_second(), second.as_second());
    }
    // Gateways delay its use, whatever its file contains.
    let before = now() + SEEN_BY_ALL;
    let (path, forced) = generate(&folder, &["--first-use", "now"]);
    assert!((before..=now() + SEEN_BY_ALL).contains(&forced.as_second()));
    let written: Timestamp = read(&path)["first_use"]
        .as_str()
        .expect("text")
        .parse()
        .expect("a time");
    assert!(written.as_second() <= now());
}

#[test]
fn list_marks_for_each_purpose_the_key_in_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    assert_eq!(
        list(folder)[0][0],
        format!("no keys in {}", folder.display())
    );

    for (more, first_use) in [
        (&["--alg", "EdDSA"][..], "2020-01-01T00:00:00Z"),
        (&[], "2021-01-01T00:00:00Z"),
        (&["--alg", "ES256"], "2100-01-01T00:00:00Z"),
        (&["--use", "sealing"], "2100-01-01T00:00:00Z"),
        (&["--use", "sealing"], "2101-01-01T00:00:00Z"),
    ] {
        let (path, _) = generate(folder, &[more, &["--first-use", first_use]].concat());
        let written = Timestamp::now().min(first_use.parse().expect("a time"));
        let file = fs::File::open(path).expect("a file");
        file.set_modified(written.into()).expect("set");
    }
    let listed: Vec<_> = list(folder)
        .into_iter()
        .map(|columns| columns[..4].join(" "))
        .collect();
    assert_eq!(
        listed,
        [
            "signing EdDSA retired 2020-01-01T00:00:00Z",
            "signing ES256 in use 2021-01-01T00:00:00Z",
            "signing ES256 waiting 2100-01-01T00:00:00Z",
            // Before the first use of every key, the first one: a gateway needs a key.
            "sealing A256GCM in use 2100-01-01T00:00:00Z",
            "sealing A256GCM waiting 2101-01-01T00:00:00Z",
        ]
    );
}

#[test]
fn folder_with_an_invalid_file_is_reported_and_receives_no_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("broken.jwk");
    write_private(&path, "canary");
    for command in ["list", "generate", "rotate"] {
        let ended = GATEWAY.run(
            &[
                "keys",
                command,
                "--dir",
                folder.path().to_str().expect("text"),
            ],
            &[],
        );
        assert_eq!(ended.code, Some(64), "{ended:?}");
        assert!(ended.err.contains("broken.jwk"), "{}", ended.err);
        assert!(!ended.everything().contains("canary"));
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}
