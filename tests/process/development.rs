//! Without any configuration the gateway starts, and prints how to use it.

use std::process::Command;

use serde_json::Value;
use test_support::wire::{fetch, get};

use crate::GATEWAY;

/// The last line of the start screen.
const LAST: &str = "grant_type";

#[test]
fn start_screen_names_working_addresses_the_demo_users_and_the_iam() {
    let mut program = GATEWAY.serve(&[]);
    let (public, management) = program.addresses();
    let screen = program.wait_for_stderr(LAST);
    for expected in [
        "in development mode",
        &format!("http://{public}/api/v1/auth/{{login,token,logout}}"),
        &format!("http://{public}/openapi.yaml"),
        &format!("http://{management}/health/ready  http://{management}/metrics"),
        &format!("console     http://{management}/mock/  http://{management}/mock/v1/openapi.yaml"),
        "IAM         mock",
        "the signing key was generated at start",
        "alice@example.test / alice-pass",
        "bob@example.test   / bob-pass",
    ] {
        assert!(screen.contains(expected), "{expected}\n{screen}");
    }
    let described = fetch(public, get("/openapi.yaml"));
    assert_eq!(described.status, 200);
    for path in [
        "/health/ready",
        "/health/live",
        "/metrics",
        "/mock/",
        "/mock/v1/openapi.yaml",
    ] {
        assert_eq!(fetch(management, get(path)).status, 200);
        assert_eq!(fetch(public, get(path)).status, 404);
    }
}

#[test]
fn commands_of_the_start_screen_work_in_a_shell() {
    let mut program = GATEWAY.serve(&[]);
    let screen = program.wait_for_stderr(LAST);
    let (_, lines) = screen.split_once("Try it:").expect("something to try");
    assert_eq!(lines.matches("curl").count(), 2, "{lines}");
    let pasted = Command::new("sh")
        .args(["-ec", lines])
        .output()
        .expect("a shell");
    let out = String::from_utf8(pasted.stdout).expect("text");
    let answer: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}"));
    assert_eq!(answer["scope"], "urn:shop:orders:order:read", "{answer}");
    assert_eq!(answer["token_type"], "bearer");
    assert_eq!(
        answer["access_token"]
            .as_str()
            .expect("a token")
            .split('.')
            .count(),
        3
    );
}

#[test]
fn human_log_format_without_a_terminal_contains_no_escape_codes() {
    let mut program = GATEWAY.serve(&[("log.format", "human")]);
    program.wait_for_stderr(LAST);
    let ended = program.stop();
    assert!(ended.out.contains(" INFO "), "{}", ended.out);
    assert!(
        ended.out.contains("listening http.address=127.0.0.1:"),
        "{}",
        ended.out
    );
    assert!(!ended.out.contains('\u{1b}'), "{}", ended.out);
}
