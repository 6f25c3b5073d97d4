//! The description of a 400: it names the member and the fault, and never the value.

use serde_json::json;
use test_support::endpoints::{BACKCHANNEL_LOGOUT, LOGIN, TOKEN};
use test_support::wire::{ALICE, Answer, bare, fetch, form, in_chunks, post, with_header};

use super::{gateway, in_form, refused, send};

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
    let login = |body: &str| (LOGIN, post(LOGIN, body).into_bytes());
    let latin = post(LOGIN, r#"{"email":"?"}"#).into_bytes().into_iter();
    let latin = latin.map(|byte| if byte == b'?' { 0xe9 } else { byte });
    let logout_token = |body: &str| {
        (
            BACKCHANNEL_LOGOUT,
            form(BACKCHANNEL_LOGOUT, body).into_bytes(),
        )
    };
    for ((path, request), expected) in [
        (login(""), "The body is not a JSON object."),
        (login("[]"), "The body is not a JSON object."),
        (login(r#""canary""#), "The body is not a JSON object."),
        (login("{"), "The body is not valid JSON."),
        (login("{} {}"), "The member `email` is missing."),
        (login(&format!("{ALICE},")), "The body is not valid JSON."),
        (login(r#"{"email":canary}"#), "The body is not valid JSON."),
        (
            login(r#"{"canary":{"a":[1,null]},"email":["canary"],"password":"canary"}"#),
            "The member `email` must be a string.",
        ),
        (
            login(r#"{"email":"canary","password":"canary"}"#),
            "The member `email` is not an e-mail address.",
        ),
        ((LOGIN, latin.collect()), "The body is not text in UTF-8."),
        (logout_token(""), "The parameter `logout_token` is missing."),
        (
            logout_token("logout_token=canary&logout_token=canary"),
            "The parameter `logout_token` appears more than once.",
        ),
    ] {
        let text = description(path, &send(&gateway, &request), "invalid_request");
        assert_eq!(text, expected, "{}", String::from_utf8_lossy(&request));
    }
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

#[test]
fn description_of_a_request_that_is_not_for_the_path_names_what_is() {
    let gateway = gateway();
    let addresses = gateway.addresses();
    let compressed = with_header("Content-Encoding: gzip", &post(LOGIN, ALICE));
    let chunks = in_chunks(LOGIN, &" ".repeat(17 * 1024), 4096);
    let long = format!("X: {}", "a".repeat(9_000));
    let long = with_header(&long, &bare("GET", "/canary"));
    let needs = |form: &str, media_type: &str| {
        format!(
            "The body must be {form}, with the header `Content-Type: {media_type}`, and not compressed."
        )
    };
    let json = needs("JSON", "application/json");
    let only_post = "This path is only for POST.".to_owned();
    let unknown = "This path does not exist. Applications call `/api/v1/auth/login`, `/api/v1/auth/token` and \
                   `/api/v1/auth/logout`, written exactly so.";
    let large = "The body has more than 16 KiB, or its chunks have only a few bytes.";
    for (address, request, status, expected) in [
        (addresses.public, bare("GET", "/canary"), 404, unknown.to_owned()),
        (addresses.management, post("/canary", ""), 404, unknown.to_owned()),
        (addresses.public, bare("GET", LOGIN), 405, only_post.clone()),
        (addresses.public, bare("OPTIONS", TOKEN), 405, only_post),
        (
            addresses.public,
            post("/openapi.yaml", ""),
            405,
            "This path is only for GET and HEAD.".to_owned(),
        ),
        (addresses.public, chunks, 413, large.to_owned()),
        (addresses.public, form(LOGIN, "email=canary"), 415, json.clone()),
        (addresses.public, form(TOKEN, "email=canary"), 415, json.clone()),
        (addresses.public, compressed, 415, json),
        (
            addresses.public,
            post(BACKCHANNEL_LOGOUT, "{}"),
            415,
            needs("a form", "application/x-www-form-urlencoded"),
        ),
        (
            addresses.public,
            long,
            431,
            "The request line and the headers have more than 8 KiB, or there are more than 96 headers."
                .to_owned(),
        ),
    ] {
        let answer = fetch(address, request);
        in_form(&answer);
        let body = answer.json();
        assert_eq!(answer.status, status, "{body}");
        assert_eq!(body["error_description"], expected);
    }
}
