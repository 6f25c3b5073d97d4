//! Reloading a folder of a running gateway: completely, or not at all.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use tempfile::{TempDir, tempdir};

use super::*;

const NOW: u64 = 1_800_000_000;
const TIMES: Times = Times {
    max_age: Duration::from_secs(300),
    lifetime: Duration::ZERO,
};
const EDDSA: KeyPurpose = KeyPurpose::Signing(Algorithm::EdDsa);

/// A folder with one signing key, and its key store.
struct Fixture {
    folder: TempDir,
    key_store: KeyStore<SigningKey>,
    first: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let first = write_new(folder.path(), &generate(EDDSA, time(0)).unwrap()).unwrap();
        let key_store = KeyStore::open(folder.path().to_owned(), at(NOW), TIMES).unwrap();
        Self {
            folder,
            key_store,
            first,
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn reload(&self) -> Option<Reloaded> {
        self.key_store.reload(at(NOW))
    }

    fn kids(&self) -> Vec<String> {
        let key_set = self.key_store.key_set();
        key_set.iter().map(|key| key.kid().to_owned()).collect()
    }

    /// Asserts that the folder is refused with one report and unchanged keys, and accepted after the
    /// repair.
    fn assert_refused(&self, expected: &str, repair: impl FnOnce()) {
        let (kids, refused) = (self.kids(), self.key_store.refused());
        for _ in 0..3 {
            assert_eq!(self.reload(), None);
            let problem = self.key_store.problem().unwrap();
            assert!(problem.contains(expected), "{problem}");
            assert!(problem.contains(self.path().to_str().unwrap()), "{problem}");
        }
        assert_eq!(
            self.key_store.refused(),
            refused + 1,
            "{expected}: counted once"
        );
        assert_eq!(self.kids(), kids);
        let signature = self.key_store.key_set().current(at(NOW)).sign(b"text");
        assert!(signature.is_some());
        repair();
        self.reload();
        assert_eq!(self.key_store.problem(), None, "{expected}");
        assert_eq!(self.kids(), kids);
    }
}

#[test]
fn unchanged_folder_is_not_reloaded() {
    let fixture = Fixture::new();
    assert_eq!(fixture.reload(), None);
    fs::write(fixture.path().join("README"), "no key").unwrap();
    assert_eq!(fixture.reload(), None);
    assert_eq!(
        (fixture.key_store.taken(), fixture.key_store.refused()),
        (0, 0)
    );
}

#[test]
fn new_key_is_loaded_and_removed_key_is_dropped() {
    let fixture = Fixture::new();
    let next = generate(EDDSA, time(1_900_000_000)).unwrap();
    write_new(fixture.path(), &next).unwrap();
    let kids = [fixture.kids(), vec![next.kid().to_owned()]].concat();
    let taken = Reloaded {
        kids: kids.clone(),
        delayed: vec![],
    };
    assert_eq!(fixture.reload(), Some(taken));
    assert_eq!(fixture.kids(), kids);
    remove(&fixture.first).unwrap();
    let taken = fixture.reload().unwrap();
    assert_eq!(taken.kids, [next.kid()]);
    assert_eq!(fixture.kids(), [next.kid()]);
    assert_eq!(
        fixture.key_store.key_set().current(at(NOW)).kid(),
        next.kid()
    );
    assert_eq!(fixture.key_store.taken(), 2);
}

#[test]
fn reload_reports_a_key_whose_use_is_delayed() {
    let fixture = Fixture::new();
    let next = generate(EDDSA, time(1)).unwrap();
    write_new(fixture.path(), &next).unwrap();
    let begins = time(i64::try_from(NOW).unwrap() + 360);
    let delayed = vec![(next.kid().to_owned(), begins)];
    assert_eq!(fixture.reload().unwrap().delayed, delayed);
}

#[test]
fn invalid_file_does_not_replace_valid_keys() {
    let fixture = Fixture::new();
    let whole = generated(EDDSA).to_string();
    let path = fixture.path().join("broken.jwk");
    let broken = |text: &[u8]| {
        put(fixture.path(), "broken.jwk", &Value::Null);
        fs::write(&path, text).unwrap();
    };
    let remove_file = || fs::remove_file(&path).unwrap();
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        broken(&whole.as_bytes()[..cut]);
        fixture.assert_refused("broken.jwk: not a JWK", remove_file);
    }
    broken(b"\xff\xfe\0");
    fixture.assert_refused("broken.jwk: not a JWK", remove_file);
    broken(generated(KeyPurpose::Sealing).to_string().as_bytes());
    fixture.assert_refused("broken.jwk: alg is not", remove_file);
    let mut unknown = generated(EDDSA);
    unknown["alg"] = json!("ES512");
    broken(unknown.to_string().as_bytes());
    fixture.assert_refused("broken.jwk: alg is not", remove_file);
    let weak = with_file_members(&Jwk::generate_rsa_key(1024).unwrap(), "RS256");
    broken(weak.to_string().as_bytes());
    fixture.assert_refused("broken.jwk: an RSA key needs", remove_file);
    let mut crossed = generated(EDDSA);
    crossed["x"] = generated(EDDSA)["x"].clone();
    broken(crossed.to_string().as_bytes());
    fixture.assert_refused("broken.jwk: ", remove_file);
}

#[test]
fn overwritten_or_emptied_key_stays_in_use() {
    let fixture = Fixture::new();
    let good = fs::read(&fixture.first).unwrap();
    let repair = || fs::write(&fixture.first, &good).unwrap();
    fs::write(&fixture.first, "").unwrap();
    fixture.assert_refused("not a JWK", repair);
    fs::write(&fixture.first, &good[..good.len() / 2]).unwrap();
    fixture.assert_refused("not a JWK", repair);
    let mut other = generated(EDDSA);
    other["kid"] = json!(fixture.kids()[0]);
    fs::write(&fixture.first, other.to_string()).unwrap();
    fixture.assert_refused("is not the one that had this id before", repair);
}

#[test]
fn file_with_wrong_permissions_or_type_is_refused() {
    let fixture = Fixture::new();
    fs::set_permissions(&fixture.first, Permissions::from_mode(0o644)).unwrap();
    let repair = || fs::set_permissions(&fixture.first, Permissions::from_mode(0o400)).unwrap();
    fixture.assert_refused(
        "every user may read or change it (mode 0644); run: chmod o-rw ",
        repair,
    );
    let path = fixture.path().join("folder.jwk");
    fs::create_dir(&path).unwrap();
    fixture.assert_refused("folder.jwk: not a file", || fs::remove_dir(&path).unwrap());
    symlink("nowhere", fixture.path().join("link.jwk")).unwrap();
    fixture.assert_refused("link.jwk", || {
        fs::remove_file(fixture.path().join("link.jwk")).unwrap();
    });
}

#[test]
fn two_keys_with_one_id_are_refused() {
    let fixture = Fixture::new();
    fs::copy(&fixture.first, fixture.path().join("copy.jwk")).unwrap();
    fixture.assert_refused("two keys have the id", || {
        fs::remove_file(fixture.path().join("copy.jwk")).unwrap();
    });
}

#[test]
fn last_key_cannot_be_removed() {
    let fixture = Fixture::new();
    let good = fs::read(&fixture.first).unwrap();
    fs::remove_file(&fixture.first).unwrap();
    fixture.assert_refused("no key: at least one", || {
        fs::write(&fixture.first, &good).unwrap();
        fs::set_permissions(&fixture.first, Permissions::from_mode(0o600)).unwrap();
    });
}

#[test]
fn missing_folder_is_refused_and_its_replacement_is_read() {
    let parent = tempdir().unwrap();
    let path = parent.path().join("keys");
    let key = generate(EDDSA, time(0)).unwrap();
    write_new(&path, &key).unwrap();
    let key_store: KeyStore<SigningKey> = KeyStore::open(path.clone(), at(NOW), TIMES).unwrap();
    fs::rename(&path, parent.path().join("aside")).unwrap();
    for _ in 0..2 {
        assert_eq!(key_store.reload(at(NOW)), None);
        assert!(
            key_store
                .problem()
                .unwrap()
                .contains(path.to_str().unwrap())
        );
    }
    assert_eq!(key_store.refused(), 1);
    let other = generate(EDDSA, time(0)).unwrap();
    write_new(&path, &other).unwrap();
    assert_eq!(key_store.reload(at(NOW)).unwrap().kids, [other.kid()]);
    assert_eq!(key_store.problem(), None);
}

#[test]
fn changed_problem_is_counted_again() {
    let fixture = Fixture::new();
    fs::write(&fixture.first, "").unwrap();
    fixture.reload();
    fs::write(&fixture.first, "{").unwrap();
    fixture.reload();
    assert_eq!(fixture.key_store.refused(), 1, "the same message");
    fs::remove_file(&fixture.first).unwrap();
    fixture.reload();
    assert_eq!(fixture.key_store.refused(), 2);
}

/// Kubernetes swaps `..data` first, and corrects the links afterwards.
#[test]
fn swap_of_a_kubernetes_mount_is_followed() {
    let dir = tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let generation = |name: &str, mode| {
        let folder = dir.path().join(name);
        let key = generate(EDDSA, time(0)).unwrap();
        let path = write_new(&folder, &key).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        symlink(name, dir.path().join("..data_tmp")).unwrap();
        fs::rename(dir.path().join("..data_tmp"), dir.path().join("..data")).unwrap();
        let kid = key.kid().to_owned();
        (kid.clone(), dir.path().join(format!("{kid}.jwk")))
    };
    let link = |kid: &str, path: &Path| symlink(format!("..data/{kid}.jwk"), path).unwrap();
    let (old, old_link) = generation("..2026_01", 0o440);
    link(&old, &old_link);
    let key_store: KeyStore<SigningKey> =
        KeyStore::open(dir.path().to_owned(), at(NOW), TIMES).unwrap();
    let (new, new_link) = generation("..2026_02", 0o400);
    assert_eq!(key_store.reload(at(NOW)), None);
    assert!(
        key_store.problem().unwrap().contains(&old),
        "the link is broken"
    );
    link(&new, &new_link);
    fs::remove_file(&old_link).unwrap();
    fs::remove_dir_all(dir.path().join("..2026_01")).unwrap();
    assert_eq!(key_store.reload(at(NOW)).unwrap().kids, [new]);
    assert_eq!(key_store.problem(), None);
}

/// A key whose parser panics for the id `panic`.
#[derive(Debug)]
struct PanickingKey(SigningKey);

impl Key for PanickingKey {
    const PURPOSE: &'static str = "signing";

    fn from_file(file: &KeyFile) -> Result<Self, KeyError> {
        assert_ne!(file.kid(), "panic");
        SigningKey::from_file(file).map(Self)
    }

    fn derivation_key(&self) -> &DerivationKey {
        self.0.derivation_key()
    }

    fn is_same(&self, before: &Self) -> bool {
        self.0.is_same(&before.0)
    }
}

#[test]
fn file_that_makes_the_library_panic_is_refused() {
    let fixture = Fixture::new();
    let key_store: KeyStore<PanickingKey> =
        KeyStore::open(fixture.path().to_owned(), at(NOW), TIMES).unwrap();
    let mut panicking = generated(EDDSA);
    panicking["kid"] = json!("panic");
    put(fixture.path(), "panic.jwk", &panicking);
    assert_eq!(key_store.reload(at(NOW)), None);
    let problem = key_store.problem().unwrap();
    assert!(
        problem.ends_with("panic.jwk: the JOSE library panics on this key"),
        "{problem}"
    );
    fs::remove_file(fixture.path().join("panic.jwk")).unwrap();
    key_store.reload(at(NOW));
    assert_eq!(key_store.problem(), None);
}
