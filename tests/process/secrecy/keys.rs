//! Key files that are added, removed and broken while a gateway runs, and the commands for them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::Value;
use test_support::secrecy::{PASSWORD, SecrecyFixture};

use crate::GATEWAY;

const CANARY: &str = "canary-in-a-key-file-0123456789a";

/// Adds the private members of all keys to the secrets.
fn watch(fixture: &mut SecrecyFixture, purpose: &str) {
    for entry in fs::read_dir(fixture.key_folder(purpose)).expect("a folder") {
        let text = fs::read(entry.expect("a file").path()).expect("a file");
        let key: Value = serde_json::from_slice(&text).expect("JSON");
        for member in ["d", "k", "p", "q", "dp", "dq", "qi"] {
            if let Some(secret) = key[member].as_str() {
                fixture.add_secret("a private member of a key", secret);
            }
        }
    }
}

/// Writes a file atomically, with this mode.
fn put(path: &Path, text: &str, mode: u32) {
    let draft = path.with_extension("draft");
    fs::write(&draft, text).expect("written");
    fs::set_permissions(&draft, fs::Permissions::from_mode(mode)).expect("set");
    fs::rename(draft, path).expect("renamed");
}

fn command(fixture: &mut SecrecyFixture, verb: &str, more: &[&str], code: i32) {
    let folder = fixture.key_folder("signing");
    let folder = folder.to_str().expect("text");
    let ended = GATEWAY.run(&[&["keys", verb, "--dir", folder], more].concat(), &[]);
    assert_eq!(ended.code, Some(code), "{verb} {more:?}: {ended:?}");
    fixture.record_text(ended.everything());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_rotated_and_removed_at_run_time_are_never_written() {
    let mut fixture = SecrecyFixture::start(GATEWAY, 1, &[("keys.reload_interval", "1s")]).await;
    fixture.log_in(PASSWORD, 200);
    for (verb, more) in [
        ("rotate", &["--every", "0s"][..]),
        ("rotate", &["--every", "0s"]),
        ("generate", &["--alg", "EdDSA", "--first-use", "now"]),
        ("generate", &["--alg", "RS256", "--first-use", "now"]),
        ("list", &[]),
    ] {
        command(&mut fixture, verb, more, 0);
        watch(&mut fixture, "signing");
    }
    fixture.wait_for("auth_gateway_keys{purpose=\"signing\"} 4");
    let names = fs::read_dir(fixture.key_folder("signing")).expect("a folder");
    let kids: Vec<_> = names
        .map(|entry| entry.expect("a file").path())
        .map(|path| path.file_stem().expect("a name").to_owned())
        .collect();
    assert_eq!(kids.len(), 4);
    for kid in kids {
        let kid = kid.to_str().expect("text");
        let folder = fixture.key_folder("signing");
        let folder = folder.to_str().expect("text");
        // Some are still needed, and the error does not contain them.
        let ended = GATEWAY.run(&["keys", "remove", "--dir", folder, "--kid", kid], &[]);
        fixture.record_text(ended.everything());
    }
    command(&mut fixture, "remove", &["--kid", CANARY], 64);
    let written = fixture.end();
    assert!(written.contains("keys reloaded"));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_key_file_is_reported_by_its_name_only() {
    let mut fixture = SecrecyFixture::start(GATEWAY, 1, &[("keys.reload_interval", "1s")]).await;
    fixture.add_secret("what a key file holds", CANARY);
    fixture.log_in(PASSWORD, 200);
    let secret = BASE64.encode(CANARY);
    let first = fs::read_dir(fixture.key_folder("sealing"))
        .expect("a folder")
        .next();
    let good = fs::read_to_string(first.expect("a key").expect("a file").path()).expect("text");
    let sealing = |kid: &str, alg: &str, first_use: &str| {
        format!(
            r#"{{"kty":"oct","kid":"{kid}","alg":"{alg}","use":"enc","k":"{secret}","first_use":"{first_use}"}}"#
        )
    };
    let point = BASE64.encode(CANARY);
    let signing = |curve: &str| {
        format!(
            r#"{{"kty":"EC","crv":"{curve}","kid":"a","alg":"ES256","d":"{secret}","x":"{point}","y":"{point}","first_use":"2026-01-01T00:00:00Z"}}"#
        )
    };
    let time = "2026-01-01T00:00:00Z";
    for (purpose, text, mode) in [
        ("sealing", format!(r#"{{"kty":"oct","k":"{CANARY}"#), 0o600),
        ("sealing", CANARY.to_owned(), 0o600),
        ("sealing", sealing("a", "A256GCM", CANARY), 0o600),
        ("sealing", sealing("a", CANARY, time), 0o600),
        (
            "sealing",
            sealing(&format!("{CANARY} "), "A256GCM", time),
            0o600,
        ),
        (
            "sealing",
            sealing("a", "A256GCM", time).replace(&secret, &secret[..20]),
            0o600,
        ),
        (
            "sealing",
            sealing("a", "A256GCM", time).replace("oct", CANARY),
            0o600,
        ),
        ("sealing", sealing("a", "A256GCM", time), 0o644),
        // The id of a key in use for another key, and one key twice.
        ("sealing", sealing(&kid(&good), "A256GCM", time), 0o600),
        ("sealing", good.clone(), 0o600),
        ("signing", signing("P-256"), 0o600),
        ("signing", signing(CANARY), 0o600),
        ("signing", sealing("a", "A256GCM", time), 0o600),
    ] {
        let path = fixture.key_folder(purpose).join("broken.jwk");
        put(&path, &text, mode);
        fixture.wait_for("keys_unreadable\",\"message\"");
        let folder = fixture.key_folder(purpose);
        let folder = folder.to_str().expect("text");
        for verb in ["list", "rotate", "generate"] {
            let ended = GATEWAY.run(&["keys", verb, "--dir", folder, "--use", purpose], &[]);
            fixture.record_text(ended.everything());
        }
        let kept = [("keys.sealing_dir", folder), ("keys.signing_dir", folder)];
        let ended = GATEWAY.run(&["check"], &kept);
        assert_eq!(ended.code, Some(64), "{ended:?}");
        fixture.record_text(ended.everything());
        fs::remove_file(&path).expect("removed");
        fixture.wait_for("\"reasons\":[]");
    }
    let written = fixture.end();
    assert!(written.contains("broken.jwk"), "the file is named");
}

fn kid(key: &str) -> String {
    let key: Value = serde_json::from_str(key).expect("JSON");
    key["kid"].as_str().expect("text").to_owned()
}
