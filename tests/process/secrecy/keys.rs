//! Key files that are added, removed and broken while a gateway runs, and the commands for them.

use std::fs;

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
