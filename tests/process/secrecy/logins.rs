//! Refused and limited logins, and how the log names their accounts.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512, digest};
use serde_json::{Value, json};
use test_support::endpoints::LOGIN;
use test_support::scripted_upstream::keycloak::{TOKEN as GRANT, refusal};
use test_support::secrecy::{EMAIL, PASSWORD, SecrecyFixture, WRONG};
use test_support::wire::post;

use crate::GATEWAY;

const LIMITED: [(&str, &str); 1] = [("login_limits.account_failures", "2")];

#[tokio::test(flavor = "multi_thread")]
async fn limited_login_writes_no_password_no_email_address_and_no_unkeyed_hash() {
    let mut fixture = SecrecyFixture::start(GATEWAY, 2, &LIMITED).await;
    fixture.log_in(PASSWORD, 200);
    let refused = refusal(401, "invalid_grant", "Invalid user credentials");
    fixture.iam.on(GRANT, refused);
    for replica in 0..2 {
        for (password, status) in [(WRONG, 401), (WRONG, 401), (PASSWORD, 429), (WRONG, 429)] {
            let login = json!({"email": EMAIL, "password": password});
            fixture.post_json(replica, LOGIN, &login, status);
        }
    }
    let throttled = "auth_gateway_logins_throttled_total{limit=\"account\",iam=\"keycloak\"} 2";
    assert!(fixture.read_management().contains(throttled));
    let written = fixture.end();
    let lines = written
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut accounts: Vec<_> = lines
        .filter_map(|line| line["account"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(accounts.len(), 9);
    accounts.sort();
    accounts.dedup();
    // One hash for each process: it cannot be computed without the process's key.
    let [one, other] = &accounts[..] else {
        panic!("{accounts:?}");
    };
    for account in [one, other] {
        assert!(!unkeyed().contains(account), "{account}");
    }
    // The control: the list contains such hashes.
    let begin = digest(&SHA256, EMAIL.as_bytes());
    assert!(unkeyed().contains(&hex(&begin.as_ref()[..8])));
}

/// Hashes of the address that need no key.
fn unkeyed() -> String {
    let mut hashes = String::new();
    for algorithm in [&SHA1_FOR_LEGACY_USE_ONLY, &SHA256, &SHA384, &SHA512] {
        hashes += &hex(digest(algorithm, EMAIL.as_bytes()).as_ref());
        hashes += " ";
    }
    let mut quick = DefaultHasher::new();
    EMAIL.hash(&mut quick);
    hashes + &format!("{:016x}", quick.finish())
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    digits.collect::<Vec<_>>().concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn email_address_with_control_characters_is_never_written() {
    let mut fixture = SecrecyFixture::start(GATEWAY, 1, &LIMITED).await;
    fixture.log_in(PASSWORD, 200);
    let refused = refusal(401, "invalid_grant", "Invalid user credentials");
    fixture.iam.on(GRANT, refused);
    for (email, statuses) in [
        (format!("\u{1b}[31m{EMAIL}"), [400; 3]),
        (format!("{EMAIL}\r\n{{\"level\":\"ERROR\"}}"), [400; 3]),
        (format!("x\0{EMAIL}"), [400; 3]),
        (format!("x\u{9b}31m{EMAIL}"), [400; 3]),
        (format!("x\u{202e}\"\\{EMAIL}"), [401, 401, 429]),
        (format!("y\u{2028}{EMAIL}"), [401, 401, 429]),
    ] {
        for status in statuses {
            let login = json!({"email": email, "password": WRONG});
            fixture.post_json(0, LOGIN, &login, status);
        }
    }
    // Invalid login requests that contain the credentials.
    for body in [
        format!(r#"{{"email":"{EMAIL}","password":"{PASSWORD}"#),
        format!(r#"{{"email":["{EMAIL}"],"password":"{PASSWORD}"}}"#),
        format!(r#"{{"email":"{EMAIL}","password":{{"{PASSWORD}":1}}}}"#),
        format!(r#"{{"{PASSWORD}":1,"email":"{EMAIL}"}}"#),
        format!(r#"{{"email":"{EMAIL}","email":"{EMAIL}","password":"{PASSWORD}"}}"#),
        format!(r#""{PASSWORD}""#),
    ] {
        fixture.send(0, &post(LOGIN, &body), 400);
    }
    let written = fixture.end();
    for control in [
        "\u{1b}", "\u{9b}", "\u{202e}", "\u{2028}", "\0", "\\u001b", "\\u202e",
    ] {
        assert!(!written.contains(control), "{control:?}");
    }
}
