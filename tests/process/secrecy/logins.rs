//! Refused and limited logins, and how the log names their accounts.

use serde_json::json;
use test_support::endpoints::LOGIN;
use test_support::scripted_upstream::keycloak::{TOKEN as GRANT, refusal};
use test_support::secrecy::{EMAIL, PASSWORD, SecrecyFixture, WRONG};
use test_support::wire::post;

use crate::GATEWAY;

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
