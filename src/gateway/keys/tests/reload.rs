//! A folder that changes under a running gateway: taken whole, or not at all.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use tempfile::{TempDir, tempdir};

use super::*;

const NOW: u64 = 1_800_000_000;
const MAX_AGE: Duration = Duration::from_secs(300);
const EDDSA: KeyPurpose = KeyPurpose::Signing(Algorithm::EdDsa);

/// A folder with one signing key, and the store that was opened on it.
struct Room {
    folder: TempDir,
    key_store: KeyStore<SigningKey>,
    first: PathBuf,
}

impl Room {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let first = write_new(folder.path(), &generate(EDDSA, time(0)).unwrap()).unwrap();
        let key_store = KeyStore::open(folder.path().to_owned(), at(NOW), MAX_AGE).unwrap();
        Self {
            folder,
            key_store,
            first,
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn reload(&self) -> Option<Taken> {
        self.key_store.reload(at(NOW))
    }

    fn kids(&self) -> Vec<String> {
        let key_set = self.key_store.key_set();
        key_set.iter().map(|key| key.kid().to_owned()).collect()
    }

    /// The folder as it is now is refused, told once, and the keys stay as they were. Then it is
    /// put right, and that is noticed too.
    fn refuses(&self, told: &str, mend: impl FnOnce()) {
        let (kids, refused) = (self.kids(), self.key_store.refused());
        for _ in 0..3 {
            assert_eq!(self.reload(), None);
            let problem = self.key_store.problem().unwrap();
            assert!(problem.contains(told), "{problem}");
            assert!(problem.contains(self.path().to_str().unwrap()), "{problem}");
        }
        assert_eq!(
            self.key_store.refused(),
            refused + 1,
            "{told}: counted once"
        );
        assert!(self.key_store.is_behind());
        assert_eq!(self.kids(), kids);
        let signature = self.key_store.key_set().current(at(NOW)).sign(b"text");
        assert!(signature.is_some());
        mend();
        self.reload();
        assert_eq!(self.key_store.problem(), None, "{told}");
        assert_eq!(self.kids(), kids);
    }
}

#[test]
fn a_folder_that_did_not_change_is_left_alone() {
    let room = Room::new();
    assert_eq!(room.reload(), None);
    fs::write(room.path().join("README"), "no key").unwrap();
    assert_eq!(room.reload(), None);
    assert_eq!((room.key_store.taken(), room.key_store.refused()), (0, 0));
}

#[test]
fn a_new_key_is_taken_and_a_removed_one_is_gone() {
    let room = Room::new();
    let next = generate(EDDSA, time(1_900_000_000)).unwrap();
    write_new(room.path(), &next).unwrap();
    let kids = [room.kids(), vec![next.kid().to_owned()]].concat();
    let taken = Taken {
        kids: kids.clone(),
        held_back: vec![],
    };
    assert_eq!(room.reload(), Some(taken));
    assert_eq!(room.kids(), kids);
    remove(&room.first).unwrap();
    let taken = room.reload().unwrap();
    assert_eq!(taken.kids, [next.kid()]);
    assert_eq!(room.kids(), [next.kid()]);
    assert_eq!(room.key_store.key_set().current(at(NOW)).kid(), next.kid());
    assert_eq!(room.key_store.taken(), 2);
}

#[test]
fn a_key_that_is_held_back_is_told() {
    let room = Room::new();
    let next = generate(EDDSA, time(1)).unwrap();
    write_new(room.path(), &next).unwrap();
    let begins = time(i64::try_from(NOW).unwrap() + 360);
    let held_back = vec![(next.kid().to_owned(), begins)];
    assert_eq!(room.reload().unwrap().held_back, held_back);
}

#[test]
fn no_broken_file_ever_replaces_a_good_set() {
    let room = Room::new();
    let whole = generated(EDDSA).to_string();
    let path = room.path().join("broken.jwk");
    let broken = |text: &[u8]| {
        put(room.path(), "broken.jwk", &Value::Null);
        fs::write(&path, text).unwrap();
    };
    let taken_away = || fs::remove_file(&path).unwrap();
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        broken(&whole.as_bytes()[..cut]);
        room.refuses("broken.jwk: not a JWK", taken_away);
    }
    broken(b"\xff\xfe\0");
    room.refuses("broken.jwk: not a JWK", taken_away);
    broken(generated(KeyPurpose::Sealing).to_string().as_bytes());
    room.refuses("broken.jwk: alg is not", taken_away);
    let mut unknown = generated(EDDSA);
    unknown["alg"] = json!("ES512");
    broken(unknown.to_string().as_bytes());
    room.refuses("broken.jwk: alg is not", taken_away);
    let weak = dressed(&Jwk::generate_rsa_key(1024).unwrap(), "RS256");
    broken(weak.to_string().as_bytes());
    room.refuses("broken.jwk: an RSA key needs", taken_away);
    let mut crossed = generated(EDDSA);
    crossed["x"] = generated(EDDSA)["x"].clone();
    broken(crossed.to_string().as_bytes());
    room.refuses("broken.jwk: ", taken_away);
}

#[test]
fn a_key_in_use_that_is_overwritten_or_emptied_stays_in_use() {
    let room = Room::new();
    let good = fs::read(&room.first).unwrap();
    let mend = || fs::write(&room.first, &good).unwrap();
    fs::write(&room.first, "").unwrap();
    room.refuses("not a JWK", mend);
    fs::write(&room.first, &good[..good.len() / 2]).unwrap();
    room.refuses("not a JWK", mend);
    let mut other = generated(EDDSA);
    other["kid"] = json!(room.kids()[0]);
    fs::write(&room.first, other.to_string()).unwrap();
    room.refuses("is not the one that had this id before", mend);
}

#[test]
fn what_nobody_may_read_and_what_everybody_may_is_refused() {
    let room = Room::new();
    fs::set_permissions(&room.first, Permissions::from_mode(0o644)).unwrap();
    let mend = || fs::set_permissions(&room.first, Permissions::from_mode(0o400)).unwrap();
    room.refuses(
        "every user may read or change it (mode 0644); run: chmod o-rw ",
        mend,
    );
    let path = room.path().join("folder.jwk");
    fs::create_dir(&path).unwrap();
    room.refuses("folder.jwk: not a file", || fs::remove_dir(&path).unwrap());
    symlink("nowhere", room.path().join("link.jwk")).unwrap();
    room.refuses("link.jwk", || {
        fs::remove_file(room.path().join("link.jwk")).unwrap();
    });
}

#[test]
fn two_keys_of_one_id_are_refused() {
    let room = Room::new();
    fs::copy(&room.first, room.path().join("copy.jwk")).unwrap();
    room.refuses("two keys have the id", || {
        fs::remove_file(room.path().join("copy.jwk")).unwrap();
    });
}

#[test]
fn the_last_key_cannot_be_taken_away() {
    let room = Room::new();
    let good = fs::read(&room.first).unwrap();
    fs::remove_file(&room.first).unwrap();
    room.refuses("no key: at least one", || {
        fs::write(&room.first, &good).unwrap();
        fs::set_permissions(&room.first, Permissions::from_mode(0o600)).unwrap();
    });
}

#[test]
fn a_folder_that_is_gone_is_refused_and_another_in_its_place_is_read() {
    let parent = tempdir().unwrap();
    let path = parent.path().join("keys");
    let key = generate(EDDSA, time(0)).unwrap();
    write_new(&path, &key).unwrap();
    let key_store: KeyStore<SigningKey> = KeyStore::open(path.clone(), at(NOW), MAX_AGE).unwrap();
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
fn a_problem_that_becomes_another_is_counted_again() {
    let room = Room::new();
    fs::write(&room.first, "").unwrap();
    room.reload();
    fs::write(&room.first, "{").unwrap();
    room.reload();
    assert_eq!(room.key_store.refused(), 1, "the same words");
    fs::remove_file(&room.first).unwrap();
    room.reload();
    assert_eq!(room.key_store.refused(), 2);
}

/// Kubernetes swaps `..data` first, and puts the links right afterwards.
#[test]
fn a_mount_of_kubernetes_is_followed_through_its_swap() {
    let dir = tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
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
        KeyStore::open(dir.path().to_owned(), at(NOW), MAX_AGE).unwrap();
    let (new, new_link) = generation("..2026_02", 0o400);
    assert_eq!(key_store.reload(at(NOW)), None);
    assert!(
        key_store.problem().unwrap().contains(&old),
        "the link leads nowhere"
    );
    link(&new, &new_link);
    fs::remove_file(&old_link).unwrap();
    fs::remove_dir_all(dir.path().join("..2026_01")).unwrap();
    assert_eq!(key_store.reload(at(NOW)).unwrap().kids, [new]);
    assert_eq!(key_store.problem(), None);
}

/// A key that makes the library panic when its file says so.
#[derive(Debug)]
struct Bomb(SigningKey);

impl Dated for Bomb {
    fn kid(&self) -> &str {
        self.0.kid()
    }

    fn first_use(&self) -> Timestamp {
        self.0.first_use()
    }
}

impl Kept for Bomb {
    const PURPOSE: &'static str = "signing";

    fn from_file(file: &KeyFile) -> Result<Self, KeyError> {
        assert_ne!(file.kid(), "bomb");
        file.to_signing().map(Self)
    }

    fn is_same(&self, before: &Self) -> bool {
        self.0.is_same(&before.0)
    }
}

#[test]
fn a_file_that_makes_the_library_panic_is_refused_like_any_other() {
    let room = Room::new();
    let key_store: KeyStore<Bomb> =
        KeyStore::open(room.path().to_owned(), at(NOW), MAX_AGE).unwrap();
    let mut bomb = generated(EDDSA);
    bomb["kid"] = json!("bomb");
    put(room.path(), "bomb.jwk", &bomb);
    assert_eq!(key_store.reload(at(NOW)), None);
    let problem = key_store.problem().unwrap();
    assert!(
        problem.ends_with("bomb.jwk: the key makes its reader panic"),
        "{problem}"
    );
    fs::remove_file(room.path().join("bomb.jwk")).unwrap();
    key_store.reload(at(NOW));
    assert_eq!(key_store.problem(), None);
}
