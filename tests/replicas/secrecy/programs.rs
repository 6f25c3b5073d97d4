//! What the executables write while they speak to each other by way of Redis.

use serde_json::json;
use test_support::canary::Canary;
use test_support::endpoints::LOGOUT;
use test_support::logout_token::logout_token;
use test_support::program::Ended;
use test_support::scripted_upstream::keycloak::{SESSION, SUBJECT};
use test_support::watched::{EMAIL, PASSWORD, Watched};

use super::Monitor;
use crate::GATEWAY;
use crate::server::{Admin, Server};

const USER: &str = "canary-of-the-user-of-redis";
const REDIS_PASSWORD: &str = "canary-of-the-password-of-redis";
const WRONG: &str = "canary-of-a-wrong-password-of-redis";

const RIGHTS: [&str; 7] = ["reset", "on", "~*", "&*", "+@all", "-@dangerous", "-debug"];

/// A Redis with these options that knows the user.
fn redis(options: &[&str]) -> Option<Server> {
    let redis = Server::start_with(None, &[&["--port", "{port}"], options].concat())?;
    let password = format!(">{REDIS_PASSWORD}");
    let user = ["ACL", "SETUSER", USER];
    redis
        .admin()
        .words(&[&user[..], &RIGHTS, &[&password]].concat());
    Some(redis)
}

fn settings<'a>(url: &'a str, password: &'a str) -> [(&'a str, &'a str); 4] {
    [
        ("REVOCATIONS__REDIS__URL", url),
        ("REVOCATIONS__REDIS__USERNAME", USER),
        ("REVOCATIONS__REDIS__PASSWORD", password),
        // What is refused is the same before and after.
        ("REVOCATIONS__REDIS__CATCH_UP_DEADLINE", "1ms"),
    ]
}

/// Gateways around the Redis, which hide how they come to it.
async fn around(redis: &Server, count: usize, password: &str) -> Watched {
    let url = redis.url();
    let mut scene = Watched::replicas(GATEWAY, count, &settings(&url, password)).await;
    for (what, secret) in [
        ("the user of Redis", USER),
        ("the password of Redis", REDIS_PASSWORD),
        ("a wrong password of Redis", WRONG),
    ] {
        scene.hides(what, secret);
    }
    scene
}

/// Lets the names of all revocations be looked for, and tells how many there are.
fn hide_names(scene: &mut Watched, admin: &mut Admin) -> usize {
    let dump = admin.dump();
    for (key, _) in &dump {
        let name = key.split(':').nth(3).expect("a name");
        scene.hides("the name of a revocation", name);
    }
    dump.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_iam_tells_goes_through_redis_without_a_name_and_through_no_log() {
    let Some(redis) = redis(&[]) else { return };
    let monitor = Monitor::of(redis.port());
    let mut scene = around(&redis, 2, REDIS_PASSWORD).await;
    for replica in &mut scene.replicas {
        replica.logged("in step with the other replicas");
    }
    scene.hides("the IAM's id of a session", SESSION);
    let url = scene.keycloak.url();
    // One ended here, and, by the IAM, one and all.
    let session = scene.log_in(PASSWORD, 200);
    scene.ask(0, LOGOUT, &session, 200);
    let again = scene.log_in(PASSWORD, 200);
    let by_session = logout_token(&url, "canary-of-jti-session", &json!({"sid": SESSION}));
    scene.tell_logout(0, &by_session, 200);
    let by_subject = logout_token(&url, "canary-of-jti-subject", &json!({"sub": SUBJECT}));
    scene.tell_logout(1, &by_subject, 200);
    scene.tells("auth_gateway_revocations_received_total 2");
    scene.exchange(1, &again, 401);
    scene.tells("auth_gateway_revocations_outbox 0");

    let mut admin = redis.admin();
    assert_eq!(hide_names(&mut scene, &mut admin), 3);
    let dump = admin.dump();
    let mut secrets = vec![SESSION, SUBJECT, EMAIL, PASSWORD, &by_session, &by_subject];
    for session in [&session, &again] {
        secrets.push(session["session_id"].as_str().expect("an id"));
        secrets.push(session["session_token"].as_str().expect("a token"));
    }
    let parts = by_session.split('.').chain(by_subject.split('.'));
    secrets.extend(parts);
    admin.words(&["SET", "the-control", &secrets.join(" ")]);
    let seen = format!("{dump:?}\n{}", monitor.up_to("the-control"));
    let (before, control) = seen.split_once("the-control").expect("it was seen");
    for kind in ["session:", "upstream_session:", "subject:"] {
        let key = format!("\"SET\" \"auth-gateway:revocation:{kind}");
        assert!(before.contains(&key), "{kind}: {before}");
    }
    for secret in secrets {
        let secret = Canary::new("a secret", secret);
        assert!(secret.is_in(control), "the control shows {secret:?}");
        assert!(!secret.is_in(before), "Redis saw {secret:?}");
    }
    let written = scene.end();
    assert!(written.contains("in step with the other replicas"));
}

/// An error of Redis may quote the command that it is about: who came, by which password, or whose
/// session ended.
#[tokio::test(flavor = "multi_thread")]
async fn what_redis_quotes_when_it_refuses_is_not_repeated() {
    for (options, password, complaint) in [
        (
            &["--rename-command", "HELLO", "nothing"][..],
            REDIS_PASSWORD,
            "unreachable",
        ),
        (&[], WRONG, "unreachable"),
        (
            &["--rename-command", "SCAN", "nothing"],
            REDIS_PASSWORD,
            "unreachable",
        ),
        (
            &["--rename-command", "SET", "nothing"],
            REDIS_PASSWORD,
            "refused",
        ),
        (
            &["--rename-command", "PUBLISH", "nothing"],
            REDIS_PASSWORD,
            "refused",
        ),
    ] {
        let Some(redis) = redis(options) else { return };
        let mut scene = around(&redis, 1, password).await;
        let session = scene.log_in(PASSWORD, 200);
        scene.ask(0, LOGOUT, &session, 200);
        scene.tells(&format!(
            "\"code\":\"revocations_{complaint}\",\"message\":\"Redis refuses"
        ));
        hide_names(&mut scene, &mut redis.admin());
        let url = redis.url();
        let checked = GATEWAY.run(&["check", "--online"], &settings(&url, password));
        scene.heard_text(checked.everything());
        let written = scene.end();
        assert!(written.contains("refuses: "), "the cause is told");
        // What Redis quotes of a command stands between such quotes.
        assert!(!written.contains("auth-gateway:revocation:"), "{options:?}");
    }
}

/// What a right is lacking for is told by Redis with the user's name.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_lacks_a_right_is_not_named() {
    for lacking in ["-subscribe", "-scan", "-set", "-publish", "resetkeys"] {
        let Some(redis) = redis(&[]) else { return };
        redis.admin().words(&["ACL", "SETUSER", USER, lacking]);
        let mut scene = around(&redis, 1, REDIS_PASSWORD).await;
        let session = scene.log_in(PASSWORD, 200);
        scene.ask(0, LOGOUT, &session, 200);
        scene.tells("\"message\":\"Redis refuses");
        let url = redis.url();
        let checked: Ended = GATEWAY.run(&["check", "--online"], &settings(&url, REDIS_PASSWORD));
        scene.heard_text(checked.everything());
        scene.end();
    }
}
