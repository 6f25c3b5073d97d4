//! The control API of the mock in the real program: what it writes, and how it stops.

use serde_json::json;
use test_support::canary::Canary;
use test_support::endpoints::LOGIN;
use test_support::gateway::scripted_keycloak_settings;
use test_support::wire::{Connection, fetch, get, post, with_body};

use crate::GATEWAY;

const PASSWORDS: [&str; 4] = [
    "canary/pass+word of carol",
    "canary: another password",
    "canary password of a file",
    "canary that is refused",
];

#[test]
fn no_password_is_in_an_answer_in_the_journal_or_in_the_log_at_the_finest_level() {
    let mut program = GATEWAY.serve(&[("log.filter", "trace")]);
    let (public, management) = program.addresses();
    let [carols, another, of_a_file, refused] = PASSWORDS;
    let email = "carol@example.test";
    let json = "application/json";
    let (user, users) = (format!("/mock/v1/users/{email}"), "/mock/v1/users");
    let login = |password: &str| {
        let login = json!({ "email": email, "password": password });
        fetch(public, post(LOGIN, &login.to_string()))
    };
    let mut responses = Vec::new();
    let mut call = |request: String, status: u16| {
        let answer = fetch(management, &request);
        assert_eq!(answer.status, status, "{request}: {answer:?}");
        responses.push(format!("{answer:?}"));
    };

    let carol = json!({ "email": email, "password": carols }).to_string();
    call(post(users, &carol), 201);
    call(post(users, &carol), 409);
    assert_eq!(login(carols).status, 200);
    let change = json!({ "password": another }).to_string();
    call(with_body("PATCH", &user, json, &change), 200);
    assert_eq!(login(carols).status, 401);
    assert_eq!(login(another).status, 200);
    call(
        "POST /mock/v1/snapshots HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
        201,
    );
    for (media_type, file) in [
        (
            json,
            json!({"users": [{"email": email, "password": of_a_file}]}).to_string(),
        ),
        (
            "application/toml",
            format!("[[users]]\nemail = '{email}'\npassword = '{of_a_file}'\n"),
        ),
        (
            "application/yaml",
            format!("users:\n- email: {email}\n  password: '{of_a_file}'\n"),
        ),
    ] {
        call(with_body("PUT", users, media_type, &file), 200);
        // The error for a file does not contain its content.
        let wrong = file
            .replace(of_a_file, refused)
            .replace("password", "pasword");
        call(with_body("PUT", users, media_type, &wrong), 400);
        let broken = file.replace(of_a_file, refused).replace("email", "\"{[");
        call(with_body("PUT", users, media_type, &broken), 400);
    }
    assert_eq!(login(of_a_file).status, 200);
    for wrong in [
        json!({ "password": [refused] }).to_string(),
        json!({ "password": { refused: 1 } }).to_string(),
        format!("{{\"password\": \"{refused}\" \"{refused}\"}}"),
        format!("{{\"password\": \"{refused}"),
        format!("\"{refused}\""),
    ] {
        call(with_body("PATCH", &user, json, &wrong), 400);
    }
    let query = "/mock/v1/users?password=canary%20that%20is%20refused";
    call(get(query), 400);
    for path in [
        "users",
        "sessions",
        "journal",
        "snapshots",
        "status",
        "namespaces",
        "faults",
    ] {
        call(get(&format!("/mock/v1/{path}")), 200);
    }
    call(get("/metrics"), 200);

    let ended = program.stop();
    let written = ended.everything();
    for password in PASSWORDS {
        let canary = Canary::new("a password", password);
        for text in written.lines().chain(responses.iter().map(String::as_str)) {
            assert!(!canary.is_in(text), "{text}");
        }
    }
    // The control: the same search finds text in that log and in those responses.
    let address = Canary::new("the address", email);
    assert!(responses.iter().any(|text| address.is_in(text)));
    assert!(written.contains(r#""level":"TRACE""#), "the finest level");
    assert!(written.contains(r#""route":"management""#), "the calls");
}

#[test]
fn waiting_journal_request_is_answered_when_the_gateway_stops() {
    let mut program = GATEWAY.serve(&[]);
    let (_, management) = program.addresses();
    let wait = get("/mock/v1/journal/wait?operation=login&timeout=60s");
    let mut waiters: Vec<_> = (0..3).map(|_| Connection::to(management)).collect();
    for waiter in &mut waiters {
        waiter.send(&wait);
    }
    // By then the worker has begun with the earlier requests.
    assert_eq!(fetch(management, get("/mock/v1/status")).status, 200);
    program.signal("TERM");
    for waiter in &mut waiters {
        let answer = waiter.answer();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["reached"], json!(false), "{answer:?}");
    }
    assert_eq!(program.wait().code, Some(0));
}

#[test]
fn control_api_is_absent_with_another_iam() {
    let mut program = GATEWAY.serve(&scripted_keycloak_settings("http://127.0.0.1:1"));
    let (public, management) = program.addresses();
    for address in [public, management] {
        for path in ["/mock/v1/status", "/mock/v1/users", "/mock/", "/mock"] {
            assert_eq!(fetch(address, get(path)).status, 404, "{path}");
        }
    }
    assert_eq!(fetch(management, get(LOGIN)).status, 404);
}
