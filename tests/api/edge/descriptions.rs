//! The description of a 400: it names the member and the fault, and never the value.

use serde_json::json;
use test_support::endpoints::{LOGIN, LOGOUT, TOKEN};
use test_support::wire::{ALICE, Answer, post};

use super::{connect, gateway, refused, send};

const BACKCHANNEL: &str = "/api/v1/auth/backchannel-logout";

/// The description of a 400 with this code, as `openapi.yaml` describes it.
#[track_caller]
fn description(path: &str, answer: &Answer, code: &str) -> String {
    refused(path, answer, 400, code);
    let body = answer.json();
    body["error_description"].as_str().expect("text").to_owned()
}

#[test]
fn description_of_a_400_names_the_member_and_what_is_wrong_with_it() {
    let gateway = gateway();
    let long = |length| "x".repeat(length);
    let pair = r#""session_id":"a","session_token":"b""#;
    for (path, body, expected) in [
        (LOGIN, "", "The body is not a JSON object."),
        (LOGIN, "[]", "The body is not a JSON object."),
        (LOGIN, r#""canary""#, "The body is not a JSON object."),
        (LOGIN, "{", "The body is not valid JSON."),
        (LOGIN, "{} {}", "The member `email` is missing."),
        (LOGIN, &format!("{ALICE},"), "The body is not valid JSON."),
        (LOGIN, r#"{"email":canary}"#, "The body is not valid JSON."),
        (LOGIN, "{}", "The member `email` is missing."),
        (
            LOGIN,
            r#"{"email":"canary@example.test"}"#,
            "The member `password` is missing.",
        ),
        (
            LOGIN,
            r#"{"password":"canary"}"#,
            "The member `email` is missing.",
        ),
        (
            LOGIN,
            r#"{"canary":{"a":[1,null]},"email":["canary"],"password":"canary"}"#,
            "The member `email` must be a string.",
        ),
        (
            LOGIN,
            r#"{"email":"canary@example.test","password":271828}"#,
            "The member `password` must be a string.",
        ),
        (
            LOGIN,
            r#"{"email":"canary","email":"canary","password":"canary"}"#,
            "The member `email` appears more than once.",
        ),
        (
            LOGIN,
            r#"{"email":"canary","password":"canary"}"#,
            "The member `email` is not an e-mail address.",
        ),
        (
            LOGIN,
            &json!({"email": format!("{}@example.test", long(320)), "password": "p"}).to_string(),
            "The member `email` is longer than 320 bytes.",
        ),
        (
            LOGIN,
            &json!({"email": "a@b", "password": long(1025)}).to_string(),
            "The member `password` is longer than 1024 bytes.",
        ),
        (
            TOKEN,
            r#"{"session_token":"canary"}"#,
            "The member `session_id` is missing.",
        ),
        (
            TOKEN,
            &format!("{{{pair}}}"),
            "The member `grant_type` is missing.",
        ),
        (
            TOKEN,
            &format!(r#"{{{pair},"grant_type":"session","scope":null}}"#),
            "The member `scope` must be a string.",
        ),
        (
            TOKEN,
            &json!({"session_id": "a", "session_token": long(8193), "grant_type": "session"})
                .to_string(),
            "The member `session_token` is longer than 8192 bytes.",
        ),
        (
            LOGOUT,
            &json!({"session_id": long(65), "session_token": "b"}).to_string(),
            "The member `session_id` is longer than 64 bytes.",
        ),
        (
            LOGOUT,
            r#"{"session_id":1,"session_token":"canary"}"#,
            "The member `session_id` must be a string.",
        ),
        (
            LOGOUT,
            r#"{"session_id":"canary"}"#,
            "The member `session_token` is missing.",
        ),
    ] {
        let text = description(path, &send(&gateway, post(path, body)), "invalid_request");
        assert_eq!(text, expected, "{path} {body}");
    }
}

#[test]
fn description_of_a_400_names_a_body_that_is_not_utf8_and_a_query() {
    let gateway = gateway();
    let latin = [&b"{\"email\":\"\xe9"[..], b"\"}"].concat();
    let head = format!(
        "POST {LOGIN} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        latin.len()
    );
    let answer = send(&gateway, [head.as_bytes(), &latin].concat());
    let latin = description(LOGIN, &answer, "invalid_request");
    assert_eq!(latin, "The body is not text in UTF-8.");
    let answer = send(&gateway, post(&format!("{LOGIN}?canary=canary"), ALICE));
    let query = description(LOGIN, &answer, "invalid_request");
    assert_eq!(query, "A query is not allowed here.");
}

#[test]
fn description_of_a_400_names_the_fault_of_the_scope_and_the_grant_type() {
    let gateway = gateway();
    let send_exchange = |grant_type: &str, scope: &str| {
        let body = json!({
            "session_id": "a", "session_token": "b", "grant_type": grant_type, "scope": scope,
        });
        send(&gateway, post(TOKEN, &body.to_string()))
    };
    for (scope, expected) in [
        (
            "a  b",
            "The member `scope` must be scope names with one space between them (RFC 6749 section 3.3).",
        ),
        (
            "canary\\",
            "The member `scope` must be scope names with one space between them (RFC 6749 section 3.3).",
        ),
        (
            "a ".repeat(65).trim_end(),
            "The member `scope` has more than 64 names.",
        ),
        (
            &"a".repeat(2049),
            "The member `scope` is longer than 2048 bytes.",
        ),
    ] {
        let answer = send_exchange("session", scope);
        assert_eq!(
            description(TOKEN, &answer, "invalid_scope"),
            expected,
            "{scope}"
        );
    }
    let answer = send_exchange("canary", "a");
    assert_eq!(
        description(TOKEN, &answer, "unsupported_grant_type"),
        "The member `grant_type` must be `session`."
    );
}

/// A reason would help a client that guesses sessions.
#[test]
fn logout_has_the_same_description_for_every_invalid_session() {
    let gateway = gateway();
    let sessions = [(); 2].map(|()| {
        let answer = send(&gateway, post(LOGIN, ALICE));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    });
    let text = |index: usize, member: &str| {
        let value = sessions[index][member].as_str().expect("text");
        value.to_owned()
    };
    let token = text(0, "session_token");
    for (id, token) in [
        ("a".to_owned(), "b".to_owned()),
        (text(0, "session_id"), text(1, "session_token")),
        (text(0, "session_id"), token[..token.len() - 1].to_owned()),
        (text(0, "session_id"), String::new()),
        (String::new(), token.clone()),
    ] {
        let body = json!({"session_id": id, "session_token": token});
        let answer = connect(&gateway)
            .send(post(LOGOUT, &body.to_string()))
            .answer();
        assert_eq!(
            description(LOGOUT, &answer, "invalid_request"),
            "The members `session_id` and `session_token` are not those of a session."
        );
    }
}

#[test]
fn description_of_a_refused_logout_token_names_the_parameter_alone() {
    let gateway = gateway();
    let form = |body: &str| {
        format!(
            "POST {BACKCHANNEL} HTTP/1.1\r\nHost: gateway\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    for (body, expected) in [
        ("", "The parameter `logout_token` is missing."),
        (
            "logout_token=canary&logout_token=canary",
            "The parameter `logout_token` appears more than once.",
        ),
    ] {
        let answer = send(&gateway, form(body));
        assert_eq!(
            description(BACKCHANNEL, &answer, "invalid_request"),
            expected
        );
    }
}

#[test]
fn description_of_a_400_names_the_header_with_an_invalid_namespace() {
    let gateway = gateway();
    let request = post(LOGIN, ALICE).replacen("\r\n", "\r\nMock-Namespace: a/b\r\n", 1);
    let text = description(LOGIN, &send(&gateway, request), "invalid_request");
    assert_eq!(
        text,
        "The header `Mock-Namespace` must appear once, as 1 to 64 of A-Z a-z 0-9 . _ -."
    );
}
