//! Refused and limited logins, and how the log names their accounts.

use serde_json::json;
use test_support::endpoints::LOGIN;
use test_support::scripted_upstream::keycloak::{TOKEN as GRANT, refusal};
use test_support::secrecy::{EMAIL, PASSWORD, SecrecyFixture, WRONG};
use test_support::wire::post;

use crate::GATEWAY;

/// A one-time password, and one that is no valid text.
const OTP: [&str; 2] = ["canary-otp-755224", "canary-otp-755224-\n"];

const LIMITED: [(&str, &str); 1] = [("login_limits.account_failures", "2")];

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

#[tokio::test(flavor = "multi_thread")]
async fn one_time_password_is_never_written() {
    let settings = [
        ("audit.destination", "stdout"),
        ("login_limits.account_failures", "0"),
    ];
    let mut fixture = SecrecyFixture::start(GATEWAY, 1, &settings).await;
    fixture.add_secret("the one-time password", OTP[0]);
    let login = |otp: &str| json!({"email": EMAIL, "password": PASSWORD, "otp": otp});
    fixture.post_json(0, LOGIN, &login(OTP[0]), 200);
    let sent = fixture.iam.requests_to(GRANT);
    assert!(sent.iter().any(|request| request.text().contains(OTP[0])));
    for fault in SecrecyFixture::faults() {
        fixture.iam.once(GRANT, fault);
        fixture.post_json(0, LOGIN, &login(OTP[0]), 500);
    }
    let refused = refusal(401, "invalid_grant", "Invalid user credentials");
    fixture.iam.on(GRANT, refused);
    for (otp, status) in [(OTP[1], 400), (OTP[0], 401)] {
        fixture.post_json(0, LOGIN, &login(otp), status);
    }
    let [otp, _] = OTP;
    for body in [
        format!(r#"{{"email":"{EMAIL}","password":"x","otp":["{otp}"]}}"#),
        format!(r#"{{"email":"{EMAIL}","password":"x","otp":"{otp}"#),
        format!(r#"{{"email":"{EMAIL}","password":"x","otp":"{otp}","otp":"{otp}"}}"#),
        format!(r#"{{"email":"{EMAIL}","password":"x","{otp}":1"#),
    ] {
        fixture.send(0, &post(LOGIN, &body), 400);
    }
    fixture.end();
}
