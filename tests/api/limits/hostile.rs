//! Unusual email addresses and passwords: each is refused, and the IAM receives it unchanged or not
//! at all.

use super::Scenario;

/// Text with a meaning for a directory, a database, a shell, a log or a terminal.
const TEXTS: [&str; 44] = [
    "alice",
    "Alice",
    "*",
    "*)(uid=*",
    "admin)(&",
    "*)(|(objectClass=*)",
    "\\00",
    "\\2a",
    "\\",
    "cn=admin,dc=example",
    "a,b+c=d;e<f>g#h",
    "\"quoted name\"",
    "'",
    "' OR '1'='1",
    "'; DROP TABLE users; --",
    "\" or \"\"=\"",
    "{$gt: ''}",
    "${jndi:ldap://x}",
    "{{7*7}}",
    "<script>alert(1)</script>",
    "%00",
    "%0d%0aSet-Cookie:a=b",
    "%s%n%x",
    "$(id)",
    "`id`",
    "| id",
    "../../etc/passwd",
    "a&username=bob",
    "a+b",
    "a%40b",
    " leading",
    "trailing ",
    "in side",
    "\u{a0}",
    "\u{430}lice",
    "\u{3b1}lice",
    "ａｌｉｃｅ",
    "alıce",
    "e\u{301}",
    "\u{202e}ecila",
    "\u{200b}",
    "\u{feff}alice",
    "😀👩\u{200d}👩\u{200d}👧",
    "xn--alice-cua",
];

/// Control characters of both blocks, alone and inside text.
fn controls() -> impl Iterator<Item = char> {
    ('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}')
}

fn fixture() -> Scenario {
    Scenario::new(&[
        ("login_limits.account_failures", "0"),
        ("login_limits.address_failures", "0"),
    ])
}

#[tokio::test]
async fn invalid_email_address_is_a_400_without_a_call_to_the_iam() {
    let fixture = fixture();
    let mut emails: Vec<String> = [
        "",
        "@",
        "@@",
        "alice",
        "alice@",
        "@example.test",
        "alice@@example.test",
        "alice@evil@example.test",
        "alice@example.test@evil.test",
        "alice@example.test,bob@example.test@x",
        "\"a@b\"@example.test",
        "ａｌｉｃｅ＠example.test",
    ]
    .map(str::to_owned)
    .to_vec();
    for control in controls() {
        emails.push(format!("alice{control}@example.test"));
        emails.push(format!("alice@example.test{control}"));
        emails.push(format!("{control}alice@example.test"));
    }
    emails.push(format!("{}@example.test", "a".repeat(309)));
    emails.push(format!("alice@{}", "é".repeat(158)));
    for email in emails {
        let answer = fixture.log_in_as(&email, "alice-pass").await;
        answer.is_error(400, "invalid_request");
        assert_eq!(fixture.take_logins(), [], "{email:?}");
    }
    let longest = format!("{}@example.test", "a".repeat(307));
    assert_eq!(longest.len(), 320);
    fixture
        .log_in_as(&longest, "x")
        .await
        .is_error(401, "invalid_grant");
    let huge = format!("{}@example.test", "a".repeat(64 * 1024));
    fixture
        .log_in_as(&huge, "x")
        .await
        .is_error(413, "invalid_request");
    assert_eq!(fixture.take_logins().len(), 1);
}

#[tokio::test]
async fn every_password_reaches_the_iam_unchanged() {
    let fixture = fixture();
    let mut passwords = vec![
        "p".to_owned(),
        "x".repeat(8),
        "x".repeat(63),
        "x".repeat(64),
        "x".repeat(65),
        "x".repeat(256),
        "x".repeat(1_024),
        "😀".repeat(64),
        "😀".repeat(256),
        " ".repeat(64),
        "ALICE-PASS".to_owned(),
        "alice-pas".to_owned(),
    ];
    passwords.extend(controls().map(String::from));
    for text in TEXTS {
        passwords.push(text.to_owned());
        for control in ['\0', '\r', '\n', '\u{85}'] {
            passwords.push(format!("alice-pass{control}{text}"));
        }
        passwords.push(format!("{text}alice-pass"));
    }
    assert!(passwords.len() >= 300, "{}", passwords.len());
    for password in passwords {
        let answer = fixture.log_in_as("alice@example.test", &password).await;
        answer.is_error(401, "invalid_grant");
        let logins = fixture.take_logins();
        assert_eq!(logins.len(), 1, "{password:?}");
        assert_eq!(logins[0].1, password);
    }
}

#[tokio::test]
async fn empty_or_too_long_password_does_not_reach_the_iam() {
    let fixture = fixture();
    fixture
        .log_in_as("alice@example.test", "")
        .await
        .is_error(401, "invalid_grant");
    for password in ["x".repeat(1_025), "😀".repeat(257)] {
        let answer = fixture.log_in_as("alice@example.test", &password).await;
        answer.is_error(400, "invalid_request");
    }
    assert_eq!(fixture.take_logins(), []);
}
