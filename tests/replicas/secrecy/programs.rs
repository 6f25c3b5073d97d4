//! What the programs write about Redis.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::json;
use test_support::canary::Canary;
use test_support::endpoints::LOGOUT;
use test_support::logout_token::logout_token;
use test_support::program::Ended;
use test_support::scripted_upstream::keycloak::{SESSION, SUBJECT};
use test_support::secrecy::{EMAIL, PASSWORD, SecrecyFixture};

use super::Monitor;
use crate::GATEWAY;
use test_support::redis_server::{Admin, PREFIX, STREAM, Server};

const USER: &str = "canary-of-the-user-of-redis";
const REDIS_PASSWORD: &str = "canary-of-the-password-of-redis";
const WRONG: &str = "canary-of-a-wrong-password-of-redis";

const RIGHTS: [&str; 7] = ["reset", "on", "~*", "&*", "+@all", "-@dangerous", "-debug"];

/// A Redis with these options and the user.
fn redis(options: &[&str]) -> Option<Server> {
    let redis = Server::start_with(None, &[&["--port", "{port}"], options].concat())?;
    let password = format!(">{REDIS_PASSWORD}");
    let user = ["ACL", "SETUSER", USER];
    redis
        .admin()
        .words(&[&user[..], &RIGHTS, &[&password]].concat());
    Some(redis)
}

fn settings<'a>(url: &'a str, password: &'a str) -> [(&'a str, &'a str); 5] {
    [
        ("redis.url", url),
        ("redis.prefix", PREFIX),
        ("redis.username", USER),
        ("redis.password", password),
        // The outcome is the same before and after the catch-up.
        ("redis.catch_up_deadline", "1ms"),
    ]
}

/// Gateways with the Redis, whose credentials are secrets.
async fn around(redis: &Server, count: usize, password: &str) -> SecrecyFixture {
    let url = redis.url();
    let mut fixture = SecrecyFixture::start(GATEWAY, count, &settings(&url, password)).await;
    for (what, secret) in [
        ("the user of Redis", USER),
        ("the password of Redis", REDIS_PASSWORD),
        ("a wrong password of Redis", WRONG),
    ] {
        fixture.add_secret(what, secret);
    }
    fixture
}

/// Adds the names of all revocations to the secrets, as text; returns their kinds.
fn hide_names(fixture: &mut SecrecyFixture, admin: &mut Admin) -> Vec<u8> {
    let mut kinds = Vec::new();
    for entry in admin.revocations() {
        kinds.push(entry[17]);
        let name = BASE64_URL_SAFE_NO_PAD.encode(&entry[18..34]);
        fixture.add_secret("the name of a revocation", &name);
    }
    kinds
}

#[tokio::test(flavor = "multi_thread")]
async fn logout_tokens_reach_redis_as_hashes_and_no_log() {
    let Some(redis) = redis(&[]) else { return };
    let monitor = Monitor::of(redis.port());
    let mut fixture = around(&redis, 2, REDIS_PASSWORD).await;
    for replica in &mut fixture.replicas {
        replica.logged("synchronized with the other replicas");
    }
    fixture.add_secret("the IAM's id of a session", SESSION);
    let url = fixture.iam.url();
    // One session ended by a logout, one and then all by the IAM. The use of both tokens is shared too.
    let session = fixture.log_in(PASSWORD, 200);
    fixture.post_json(0, LOGOUT, &session, 200);
    let again = fixture.log_in(PASSWORD, 200);
    for session in [&session, &again] {
        let id = session["session_id"].as_str().expect("an id");
        fixture.add_secret("a session id", id);
    }
    let by_session = logout_token(&url, "canary-of-jti-session", &json!({"sid": SESSION}));
    fixture.send_logout_token(0, &by_session, 200);
    let by_subject = logout_token(&url, "canary-of-jti-subject", &json!({"sub": SUBJECT}));
    fixture.send_logout_token(1, &by_subject, 200);
    fixture.wait_for("auth_gateway_revocations_received_total 3");
    fixture.wait_for("auth_gateway_revocations_received_total 2");
    fixture.exchange(1, &again, 401);
    fixture.wait_for("auth_gateway_revocations_pending 0");

    let mut admin = redis.admin();
    let mut kinds = hide_names(&mut fixture, &mut admin);
    // Those of two replicas can come in any order.
    kinds.sort_unstable();
    assert_eq!(kinds, [1, 2, 2, 2, 3]);
    let mut secrets = vec![SESSION, SUBJECT, EMAIL, PASSWORD, &by_session, &by_subject];
    for session in [&session, &again] {
        secrets.push(session["session_id"].as_str().expect("an id"));
        secrets.push(session["session_token"].as_str().expect("a token"));
    }
    let parts = by_session.split('.').chain(by_subject.split('.'));
    secrets.extend(parts);
    admin.words(&["SET", "the-control", &secrets.join(" ")]);
    let seen = monitor.up_to("the-control");
    let (before, control) = seen.split_once("the-control").expect("it was seen");
    let added = before.matches(&format!("\"XADD\" \"{STREAM}\"")).count();
    assert_eq!(added, 5, "{before}");
    for secret in secrets {
        let secret = Canary::new("a secret", secret);
        assert!(secret.is_in(control), "the control shows {secret:?}");
        assert!(!secret.is_in(before), "Redis saw {secret:?}");
    }
    let written = fixture.end();
    assert!(written.contains("synchronized with the other replicas"));
}

/// An error of Redis may quote its command, with a user name, a password or the name of a
/// revocation.
#[tokio::test(flavor = "multi_thread")]
async fn quoted_command_in_an_error_of_redis_is_not_written() {
    for (options, password, reason) in [
        (
            &["--rename-command", "HELLO", "nothing"][..],
            REDIS_PASSWORD,
            "unreachable",
        ),
        (&[], WRONG, "unreachable"),
        (
            &["--rename-command", "EVAL", "nothing"],
            REDIS_PASSWORD,
            "unreachable",
        ),
        (
            &["--rename-command", "XADD", "nothing"],
            REDIS_PASSWORD,
            "refused",
        ),
    ] {
        let Some(redis) = redis(options) else { return };
        let mut fixture = around(&redis, 1, password).await;
        let session = fixture.log_in(PASSWORD, 200);
        fixture.post_json(0, LOGOUT, &session, 200);
        fixture.wait_for(&format!(
            "\"code\":\"revocations_{reason}\",\"message\":\"Redis refuses"
        ));
        hide_names(&mut fixture, &mut redis.admin());
        let url = redis.url();
        let checked = GATEWAY.run(&["check", "--online"], &settings(&url, password));
        fixture.record_text(checked.everything());
        let written = fixture.end();
        assert!(written.contains("refuses: "), "the cause is written");
        // A quoted command would contain this key.
        assert!(!written.contains(STREAM), "{options:?}");
    }
}

/// Redis names the user in its error.
#[tokio::test(flavor = "multi_thread")]
async fn redis_user_without_a_permission_is_not_written() {
    for lacking in ["-eval", "-xrange", "-time", "-xadd", "resetkeys"] {
        let Some(redis) = redis(&[]) else { return };
        redis.admin().words(&["ACL", "SETUSER", USER, lacking]);
        let mut fixture = around(&redis, 1, REDIS_PASSWORD).await;
        let session = fixture.log_in(PASSWORD, 200);
        fixture.post_json(0, LOGOUT, &session, 200);
        fixture.wait_for("\"message\":\"Redis refuses");
        let url = redis.url();
        let checked: Ended = GATEWAY.run(&["check", "--online"], &settings(&url, REDIS_PASSWORD));
        fixture.record_text(checked.everything());
        fixture.end();
    }
}
