//! Keys as files in a folder.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use tempfile::tempdir;

use super::*;

const EDDSA: KeyPurpose = KeyPurpose::Signing(Algorithm::EdDsa);

#[test]
fn written_key_is_read_back_unchanged() {
    for purpose in PURPOSES {
        let dir = tempdir().unwrap();
        let first_use = "2026-11-21T02:50:41.5Z".parse().unwrap();
        let made = generate(purpose, first_use).unwrap();
        let path = write_new(dir.path(), &made).unwrap();
        assert_eq!(path, dir.path().join(format!("{}.jwk", made.kid())));
        let (read_from, read) = read_dir(dir.path()).unwrap().remove(0);
        assert_eq!(read_from, path);
        assert_eq!(read.kid(), made.kid());
        assert_eq!(read.first_use(), first_use);
        assert_eq!(read.purpose(), Some(purpose));
        if purpose == KeyPurpose::Sealing {
            let key_set = load_sealing(dir.path()).unwrap();
            assert_eq!(key_set.current(at(0)).kid(), made.kid());
            assert!(load_signing(dir.path()).is_err());
        } else {
            let key = load_signing(dir.path()).unwrap();
            let published = key.current(at(0)).public_jwk();
            let signing = SigningKey::from_file(&made).unwrap();
            assert_eq!(published, signing.public_jwk());
            assert!(load_sealing(dir.path()).is_err());
        }
    }
}

#[test]
fn new_key_file_is_readable_only_by_its_owner_and_leaves_no_draft() {
    let parent = tempdir().unwrap();
    let dir = parent.path().join("made/with/it");
    let path = write_new(&dir, &generate(EDDSA, time(0)).unwrap()).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn new_key_file_belongs_to_the_owner_of_the_folder_also_if_root_makes_it() {
    let dir = tempdir().unwrap();
    // Only root can give the folder away. Others are its owner in any case.
    let _ = chown(dir.path(), Some(65_534), None);
    let owner = |path: &Path| fs::metadata(path).unwrap().uid();
    // The others are made.
    for folder in [".", "keys/signing", "keys/sealing"] {
        let folder = dir.path().join(folder);
        let path = write_new(&folder, &generate(EDDSA, time(0)).unwrap()).unwrap();
        assert_eq!(owner(&folder), owner(dir.path()));
        assert_eq!(owner(&path), owner(dir.path()));
    }
    assert_eq!(owner(&dir.path().join("keys")), owner(dir.path()));
}

#[test]
fn existing_key_file_is_never_replaced() {
    let dir = tempdir().unwrap();
    let key = generate(EDDSA, time(0)).unwrap();
    let path = dir.path().join(format!("{}.jwk", key.kid()));
    fs::write(&path, "precious").unwrap();
    assert!(matches!(write_new(dir.path(), &key), Err(KeyError::Io(..))));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn key_file_that_every_user_may_read_or_change_is_refused_by_name() {
    let dir = tempdir().unwrap();
    let path = write_new(dir.path(), &generate(EDDSA, time(0)).unwrap()).unwrap();
    for (mode, fine) in [
        (0o600, true),
        (0o440, true),
        (0o644, false),
        (0o604, false),
        (0o602, false),
    ] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let read = load_signing(dir.path());
        assert_eq!(read.is_ok(), fine, "{mode:o}");
        if let Err(refused) = read {
            assert!(refused.to_string().contains(path.to_str().unwrap()));
        }
    }
}

#[test]
fn folder_to_which_every_user_can_add_files_is_refused_also_with_a_sticky_bit() {
    let dir = tempdir().unwrap();
    write_new(dir.path(), &generate(EDDSA, time(0)).unwrap()).unwrap();
    for (mode, fine) in [
        (0o700, true),
        (0o1775, true),
        (0o777, false),
        (0o1777, false),
    ] {
        fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        let read = load_signing(dir.path());
        assert_eq!(read.is_ok(), fine, "{mode:o}");
        if let Err(refused) = read {
            let chmod = format!("chmod o-w {}, or mount it read-only", dir.path().display());
            assert!(refused.to_string().contains(&chmod), "{refused}");
        }
    }
}

#[test]
fn key_file_of_another_user_is_refused_with_its_owner() {
    let dir = tempdir().unwrap();
    let path = write_new(dir.path(), &generate(EDDSA, time(0)).unwrap()).unwrap();
    // Only root can give a file away. Others are its owner themselves.
    let _ = chown(&path, Some(65_534), None);
    let owner = fs::metadata(&path).unwrap().uid();
    let read = |user| {
        Folder::read_as(user, dir.path())
            .unwrap()
            .keys::<SigningKey>()
    };
    assert!(read(owner).is_ok());
    let path = path.display();
    let begin = format!("{path}: it belongs to user {owner}, and not to root");
    let remedy = format!(", as whom this program runs; run it as user {owner}");
    let other = owner + 1;
    for (user, expected) in [
        (
            other,
            format!(
                "{begin} or to user {other}{remedy} or, if the key is yours, run: chown {other} {path}"
            ),
        ),
        // Not `chown 0`: the gateway could not read the key then.
        (0, format!("{begin}{remedy}")),
    ] {
        let refused = read(user).err().unwrap().to_string();
        assert_eq!(refused, expected);
    }
}

#[test]
fn folder_with_one_invalid_file_is_refused_with_its_name() {
    let dir = tempdir().unwrap();
    write_new(dir.path(), &generate(EDDSA, time(0)).unwrap()).unwrap();
    let whole = generated(EDDSA).to_string();
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        put(dir.path(), "broken.jwk", &Value::Null);
        fs::write(dir.path().join("broken.jwk"), &whole[..cut]).unwrap();
        let refused = load_signing(dir.path()).err().unwrap().to_string();
        assert!(refused.contains("broken.jwk"), "{refused}");
    }
    fs::write(dir.path().join("broken.jwk"), format!("{whole} x")).unwrap();
    assert!(load_signing(dir.path()).is_err());
    fs::write(dir.path().join("broken.jwk"), whole + &" ".repeat(40_000)).unwrap();
    let padded = load_signing(dir.path()).map(|key_set| key_set.count());
    assert_eq!(
        padded.ok(),
        Some(2),
        "only white space lies beyond the bound"
    );
}

#[test]
fn empty_or_missing_folder_is_refused_by_name() {
    let dir = tempdir().unwrap();
    for path in [dir.path().to_owned(), dir.path().join("missing")] {
        let refused = load_sealing(&path).err().unwrap().to_string();
        assert!(refused.contains(path.to_str().unwrap()), "{refused}");
    }
}

#[test]
fn hidden_files_and_files_of_other_kinds_are_ignored() {
    let dir = tempdir().unwrap();
    write_new(dir.path(), &generate(EDDSA, time(0)).unwrap()).unwrap();
    for name in [
        ".half.draft",
        ".hidden.jwk",
        "._copy.jwk",
        ".jwk",
        "README",
        "key.jwk.bak",
        "key.JWK",
        "jwk",
    ] {
        fs::write(dir.path().join(name), "no key").unwrap();
    }
    fs::create_dir(dir.path().join("folder")).unwrap();
    assert_eq!(load_signing(dir.path()).unwrap().count(), 1);
}
