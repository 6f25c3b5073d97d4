//! A reader of all data and traffic of Redis finds no secrets.

mod programs;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use crate::fixture::{EMAIL, PASSWORD, fixture, log_out, refuses};
use crate::login_limits;
use crate::metrics::has_sent_all;
use test_support::redis_server::{PREFIX, STREAM};

/// Every command of every client, as it arrives.
struct Monitor(BufReader<TcpStream>);

impl Monitor {
    fn of(port: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.write_all(b"MONITOR\r\n").expect("sent");
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).expect("an answer");
        assert_eq!(line, "+OK\r\n");
        Self(reader)
    }

    /// All lines up to one that contains this.
    fn up_to(mut self, mark: &str) -> String {
        let mut all = String::new();
        while !all.contains(mark) {
            assert!(self.0.read_line(&mut all).expect("a line") > 0, "{all}");
        }
        all
    }
}

#[tokio::test]
async fn redis_receives_no_session_no_token_no_user_and_no_key() {
    let Some(fixture) = fixture() else { return };
    let monitor = Monitor::of(fixture.redis.port());
    let [one, other] = fixture.replicas().await;
    let (mut secrets, mut names) = (Vec::new(), 0);
    for _ in 0..5 {
        let session = fixture.known_session(&[&one, &other]).await;
        log_out(&one, &session).await;
        refuses(&other, &session).await;
        names += 1;
        secrets.push(session.session_id);
        secrets.extend(session.session_token.split('.').map(str::to_owned));
    }
    has_sent_all(&one).await;
    secrets.extend([EMAIL, PASSWORD, &fixture.subject, "alice"].map(str::to_owned));
    secrets.retain(|secret| !secret.is_empty());

    let mut admin = fixture.redis.admin();
    let stored = admin.revocations();
    assert_eq!(stored.len(), names);
    admin.words(&["SET", "the-control", &secrets.join(" ")]);
    let seen = monitor.up_to("the-control");
    let (before, control) = seen.split_once("the-control").expect("it was seen");
    assert!(
        before.contains(&format!("\"XADD\" \"{STREAM}\"")),
        "{before}"
    );
    for secret in &secrets {
        assert!(
            control.contains(secret.as_str()),
            "the control shows {secret}"
        );
        assert!(!before.contains(secret.as_str()), "Redis saw {secret}");
    }
}

#[tokio::test]
async fn redis_receives_no_address_and_no_account_of_a_login() {
    let Some(fixture) = fixture() else { return };
    let monitor = Monitor::of(fixture.redis.port());
    let [one, other] = login_limits::replicas(&fixture).await;
    let unknown_user = "unknown_user@example.test";
    let known = login_limits::log_in(&one, EMAIL, PASSWORD, "203.0.113.77").await;
    assert_eq!(known.status, 200);
    let refused = login_limits::log_in(&one, unknown_user, "wrong-password", "203.0.113.78").await;
    assert_eq!(refused.status, 401);
    login_limits::exchanged(&[one, other], 2).await;
    fixture.redis.admin().run("SET the-control 203.0.113.77");
    let seen = monitor.up_to("the-control");
    assert!(seen.contains("203.0.113.77"), "the control");
    let (before, _) = seen.split_once("the-control").expect("it was seen");
    for stream in ["logins", "logins:networks"] {
        let sent = format!("\"XADD\" \"{PREFIX}:{stream}\"");
        assert!(before.contains(&sent), "{before}");
    }
    // The addresses as text and as bytes.
    for secret in [
        EMAIL,
        PASSWORD,
        unknown_user,
        "wrong-password",
        "203.0.113.7",
        "\\xcb\\x00qM",
        "\\xcb\\x00qN",
    ] {
        assert!(!before.contains(secret), "Redis saw {secret}");
    }
}
