//! The bodies of the three endpoints, over HTTP. `@ID@` and `@TOKEN@` in the input are replaced by an
//! active session, so that inputs get past the seal.

#![no_main]

use std::cell::RefCell;

use auth_gateway_fuzz::gateway::{Gateway, PERMISSIONS, USERS, is_well_formed};
use auth_gateway_fuzz::{claims, is_scope_name};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use test_support::wire::Answer;

struct Fixture {
    gateway: Gateway,
    session: (String, String),
}

fuzz_target!(|input: &[u8]| {
    thread_local!(static FIXTURE: RefCell<Fixture> = RefCell::new({
        let mut gateway = Gateway::start(&[]);
        let session = gateway.session();
        Fixture { gateway, session }
    }));
    let Some((endpoint, body)) = input.split_first() else {
        return;
    };
    FIXTURE.with_borrow_mut(|fixture| {
        let body = replaced(body, b"@ID@", &fixture.session.0);
        let body = replaced(&body, b"@TOKEN@", &fixture.session.1);
        let endpoint = match endpoint % 3 {
            0 => "login",
            1 => "token",
            _ => "logout",
        };
        let path = format!("/api/v1/auth/{endpoint}");
        let answer = fixture.gateway.post_json(&path, &body);
        is_well_formed(&answer);
        if answer.status != 200 {
            return;
        }
        let active = fixture.session.clone();
        if endpoint == "logout" {
            assert_eq!(answer.json(), json!({ "status": "Ok" }));
            fixture.session = fixture.gateway.session();
        }
        // Another JSON parser, which the gateway does not use, must find the same values.
        assert!(std::str::from_utf8(&body).is_ok());
        // It also parses ignored members, which may contain half a surrogate pair.
        let Ok(sent) = serde_json::from_slice::<Value>(&body) else {
            return;
        };
        let sent = |name: &str| sent.get(name).and_then(Value::as_str).unwrap_or_default();
        if endpoint == "login" {
            let (email, password) = (sent("email").to_lowercase(), sent("password"));
            assert!(USERS.contains(&(email.as_str(), password)));
            return;
        }
        let session = (
            sent("session_id").to_owned(),
            sent("session_token").to_owned(),
        );
        assert_eq!(session, active);
        if endpoint == "token" {
            assert_eq!(sent("grant_type"), "session");
            is_granted(&answer, sent("scope"));
        }
    });
});

fn is_granted(answer: &Answer, requested: &str) {
    let answer = answer.json();
    let granted = answer["scope"].as_str().expect("a scope");
    for name in granted.split(' ').filter(|name| !name.is_empty()) {
        assert!(is_scope_name(name) && PERMISSIONS.contains(&name));
        assert!(requested.split(' ').any(|requested| requested == name));
    }
    let claims = claims(answer["access_token"].as_str().expect("a token")).expect("claims");
    assert_eq!(
        claims
            .get("scope")
            .and_then(Value::as_str)
            .unwrap_or_default(),
        granted
    );
}

fn replaced(text: &[u8], name: &[u8], value: &str) -> Vec<u8> {
    let mut rest = text;
    let mut result = Vec::new();
    while let Some(at) = rest.windows(name.len()).position(|part| part == name) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(value.as_bytes());
        rest = &rest[at + name.len()..];
    }
    result.extend_from_slice(rest);
    result
}
