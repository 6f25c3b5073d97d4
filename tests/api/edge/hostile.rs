//! JSON that is built to break a parser.

use test_support::endpoints::{LOGIN, LOGOUT, TOKEN};
use test_support::wire::{ALICE, post};

use super::{gateway, refused, send};

/// As deep or as wide as the largest body allows.
fn hostile_bodies() -> Vec<String> {
    let deep = 8_000;
    let keys = (0..1_500)
        .map(|n| format!("\"k{n}\":0,"))
        .collect::<Vec<_>>()
        .concat();
    vec![
        "[".repeat(deep),
        format!("{}{}", "[".repeat(deep), "]".repeat(deep)),
        "{\"a\":".repeat(deep / 4),
        format!("{{\"email\":{}", "[".repeat(deep)),
        format!("{{\"x\":{}{}}}", "[".repeat(deep), "]".repeat(deep)),
        format!("{{{}\"email\":\"a@example.test\"}}", keys),
        format!("{{\"email\":{}}}", "9".repeat(deep)),
        format!("{{\"email\":1e{}}}", "9".repeat(deep)),
        format!("{{\"email\":\"{}", "\\".repeat(deep)),
    ]
}

#[test]
fn deep_or_wide_json_is_refused() {
    let gateway = gateway();
    for body in hostile_bodies() {
        for path in [LOGIN, TOKEN, LOGOUT] {
            refused(
                path,
                &send(&gateway, post(path, &body)),
                400,
                "invalid_request",
            );
        }
    }
    let keys = (0..100_000)
        .map(|n| format!("\"k{n}\":0,"))
        .collect::<Vec<_>>()
        .concat();
    let answer = send(&gateway, post(LOGIN, &format!("{{{keys}\"a\":0}}")));
    refused(LOGIN, &answer, 413, "invalid_request");
    assert_eq!(send(&gateway, post(LOGIN, ALICE)).status, 200);
}

#[test]
fn text_that_is_not_unicode_is_a_400_and_unusual_unicode_is_a_401() {
    let gateway = gateway();
    let password = |text: &str| format!(r#"{{"email":"alice@example.test","password":"{text}"}}"#);
    for text in [
        r"\ud800",
        r"\udc00",
        r"\ud800x",
        r"\ud800\ud800",
        r"\u12",
        r"\x41",
        "\u{1}",
        "\n",
    ] {
        let answer = send(&gateway, post(LOGIN, &password(text)));
        refused(LOGIN, &answer, 400, "invalid_request");
    }
    for text in [
        r"\u0000",
        r"alice-pass\u0000",
        r"\ud83d\ude00",
        "\u{feff}",
        "\u{202e}",
        "'; --",
        "{{7*7}}",
    ] {
        let answer = send(&gateway, post(LOGIN, &password(text)));
        refused(LOGIN, &answer, 401, "invalid_grant");
    }
    let escaped = "alice-pass".chars();
    let escaped = escaped.map(|c| format!("\\u{:04x}", u32::from(c)));
    let escaped = escaped.collect::<Vec<_>>().concat();
    assert_eq!(send(&gateway, post(LOGIN, &password(&escaped))).status, 200);
}
