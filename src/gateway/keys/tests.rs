use std::path::Path;

use josekit::jwk::Jwk;
use serde_json::{Value, json};

use super::folder::{Folder, invalid};
use super::*;

mod folder;
mod lead;
mod plan;
mod refused;
mod reload;
mod rotation;
mod wycheproof;

const PURPOSES: [KeyPurpose; 4] = [
    KeyPurpose::Signing(Algorithm::Es256),
    KeyPurpose::Signing(Algorithm::EdDsa),
    KeyPurpose::Signing(Algorithm::Rs256),
    KeyPurpose::Sealing,
];

/// The members that must never be published (RFC 7518 section 6).
const PRIVATE: [&str; 9] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k", "first_use"];

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn at(seconds: u64) -> Moment {
    Moment {
        unix: Duration::from_secs(seconds),
        monotonic: Duration::ZERO,
    }
}

/// A new key as it stands in its file.
fn generated(purpose: KeyPurpose) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let path = write_new(dir.path(), &generate(purpose, time(0)).unwrap()).unwrap();
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A key of josekit's making, with what a file needs beside it.
fn dressed(jwk: &Jwk, algorithm: &str) -> Value {
    let mut jwk = Value::Object(jwk.as_ref().clone());
    jwk["alg"] = json!(algorithm);
    jwk["kid"] = json!("k1");
    jwk["first_use"] = json!("2026-01-01T00:00:00Z");
    jwk
}

fn parsed(jwk: &Value) -> Result<KeyFile, KeyError> {
    KeyFile::parse(jwk.to_string().as_bytes())
}

fn load<K: Kept>(dir: &Path) -> Result<KeySet<K>, KeyError> {
    let keys = Folder::read(dir)?.keys()?;
    KeySet::new(keys).map_err(|reason| invalid(dir, reason))
}

fn load_signing(dir: &Path) -> Result<KeySet<SigningKey>, KeyError> {
    load(dir)
}

fn load_sealing(dir: &Path) -> Result<KeySet<SealingKey>, KeyError> {
    load(dir)
}

/// Whether a key can be used for its own or any purpose.
fn usable(jwk: &Value) -> bool {
    parsed(jwk).is_ok_and(|file| file.to_signing().is_ok() || file.to_sealing().is_ok())
}

fn put(dir: &Path, name: &str, jwk: &Value) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = dir.join(name);
    std::fs::write(&path, jwk.to_string()).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}
