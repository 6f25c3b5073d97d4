use tempfile::{TempDir, tempdir};

use super::*;
use crate::keys::{Times, lead, write_new};

fn at(seconds: u64) -> Moment {
    Moment {
        unix: Duration::from_secs(seconds),
        monotonic: Duration::ZERO,
    }
}

fn first_use(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

const NOW: u64 = 1_800_000_000;
const TIMES: Times = Times {
    max_age: Duration::from_secs(300),
    lifetime: Duration::from_secs(5_000),
};

/// Folders with one key each, and the keys.
struct Fixture {
    folder: TempDir,
    keys: Keys,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let first_use = first_use(NOW.cast_signed() - 1_000);
        let new = |name, purpose| {
            let path = folder.path().join(name);
            write_new(&path, &generate(purpose, first_use).unwrap()).unwrap();
            path
        };
        let signing = new("signing", KeyPurpose::Signing(Algorithm::Es256));
        let sealing = new("sealing", KeyPurpose::Sealing);
        let keys = Keys::new(
            KeyStore::open(signing, at(NOW), TIMES).unwrap(),
            KeyStore::open(sealing, at(NOW), TIMES).unwrap(),
            Arc::new(IdentifierKey::new(b"a key")),
        );
        Self { folder, keys }
    }

    /// Adds a sealing key that is not used yet. Returns its id.
    fn add_sealing_key(&self) -> String {
        let key = generate(KeyPurpose::Sealing, first_use(NOW.cast_signed() + 1_000)).unwrap();
        write_new(&self.folder.path().join("sealing"), &key).unwrap();
        self.keys.sealing.reload(at(NOW)).unwrap();
        key.kid().to_owned()
    }

    /// The names of the keys in use: for signing, for sealing and of identifiers.
    fn used_names(&self) -> [String; 3] {
        let [used, _] = self.keys.names(at(NOW));
        used.try_into().unwrap()
    }

    /// The warnings after a comparison with these statements, and the number of invalid ones.
    fn compared(&self, statements: &[&str]) -> (Vec<KeyWarning>, usize) {
        let invalid = self.keys.compare(statements.iter().copied(), at(NOW));
        (self.keys.warnings(at(NOW)), invalid)
    }
}

fn missing(purpose: &'static str, is_here: bool, kids: &[&str]) -> KeyWarning {
    KeyWarning::Missing {
        purpose,
        is_here,
        kids: kids.iter().map(|&kid| kid.to_owned()).collect(),
    }
}

#[test]
fn keys_that_other_replicas_use_and_that_are_missing_here_are_a_warning_until_they_are_here() {
    let fixture = Fixture::new();
    let differ = [
        "used signing k1",
        "used sealing s2",
        "used sealing s1",
        "used identifier i1",
    ];
    let warnings = vec![
        missing("signing", true, &["k1"]),
        missing("sealing", true, &["s1", "s2"]),
        missing("identifier", true, &["i1"]),
    ];
    let text = "keys.identifier_key of this replica lacks identifier keys that another";
    assert!(warnings[2].to_string().contains(text), "{}", warnings[2]);
    assert_eq!(fixture.compared(&differ), (warnings, 0));
    assert!(fixture.keys.differ(IDENTIFIERS));
    let used = fixture.used_names().map(|name| format!("used {name}"));
    let used = used.each_ref().map(String::as_str);
    assert_eq!(fixture.compared(&used), (Vec::new(), 0));
    assert!(!fixture.keys.differ(IDENTIFIERS));
}

#[test]
fn key_in_use_here_that_another_replica_lacks_is_a_warning() {
    let fixture = Fixture::new();
    let [_, sealing, _] = fixture.used_names();
    let (_, kid) = sealing.split_once(' ').unwrap();
    let (there, of_the_other_purpose) = (
        format!("missing {sealing}"),
        format!("missing signing {kid}"),
    );
    let elsewhere = missing("sealing", false, &[kid]);
    let compared = fixture.compared(&[&there, &of_the_other_purpose]);
    assert_eq!(compared, (vec![elsewhere], 0));
}

#[test]
fn key_that_is_not_used_yet_is_no_difference_at_either_side() {
    let fixture = Fixture::new();
    let waiting = fixture.add_sealing_key();
    let [used, all] = fixture.keys.names(at(NOW));
    let name = format!("sealing {waiting}");
    assert!(all.contains(&name) && !used.contains(&name));
    // Another replica uses it already, or lacks it.
    let statements = [format!("used {name}"), format!("missing {name}")];
    let statements = statements.each_ref().map(String::as_str);
    assert_eq!(fixture.compared(&statements), (Vec::new(), 0));
}

/// Another replica that lacks it refuses its sessions, and cannot revoke them. Where it was stolen, the replica that
/// still has it accepts what its thief seals.
#[test]
fn key_that_was_used_before_is_a_difference_until_its_sessions_have_expired() {
    let fixture = Fixture::new();
    let [_, before, _] = fixture.used_names();
    fixture.add_sealing_key();
    let statement = format!("missing {before}");
    let differ_at = |now| {
        let invalid = fixture
            .keys
            .compare([statement.as_str()].into_iter(), at(now));
        assert_eq!(invalid, 0);
        let [used, stored] = fixture.keys.names(at(now));
        assert!(stored.contains(&before), "at {now}");
        assert_eq!(
            used.contains(&before),
            fixture.keys.differ(SealingKey::PURPOSE)
        );
        used.contains(&before)
    };
    let begins = NOW + 1_000;
    let expired = begins + (TIMES.lifetime + lead(TIMES.max_age)).as_secs();
    for (now, differs) in [
        (NOW, true),
        (begins, true),
        (expired - 1, true),
        (expired, false),
    ] {
        assert_eq!(differ_at(now), differs, "at {now}");
    }
}

#[test]
fn statements_that_no_replica_makes_are_skipped_and_counted() {
    let fixture = Fixture::new();
    let long = format!("used sealing {}", "a".repeat(65));
    let invalid = [
        "",
        "used",
        "used sealing",
        "used sealing ",
        "used sealing a b",
        "used sealing ../a",
        "used sealing a\u{1b}[31m",
        "used other a",
        "using sealing a",
        long.as_str(),
    ];
    assert_eq!(fixture.compared(&invalid), (Vec::new(), invalid.len()));
}

#[test]
fn ephemeral_keys_are_in_use_at_once_and_unique() {
    let [one, other] = [(); 2].map(|()| Keys::ephemeral(at(1_800_000_000)).unwrap());
    let kid = |keys: &Keys| keys.signing.key_set().current(at(0)).kid().to_owned();
    assert_ne!(kid(&one), kid(&other));
    assert_eq!(
        age_seconds(one.sealing.key_set().current(at(0)), at(1_800_000_000)),
        0
    );
}
