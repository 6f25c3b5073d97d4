//! The program with Redis.

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use test_support::client::Client;
use test_support::endpoints::REVOKE;
use test_support::keys::TestKeys;
use test_support::metrics;
use test_support::wait::until;
use test_support::wire::{Connection, post};

use crate::GATEWAY;
use crate::fixture::{IDENTIFIER_KEY, RIGHTS};
use test_support::redis_server::{PREFIX, Server};

const PASSWORD: &str = "the password of this Redis";

fn redis() -> Option<Server> {
    Server::start_with(Some(PASSWORD), &["--port", "{port}"])
}

#[tokio::test]
async fn session_revoked_at_a_gateway_that_stops_is_refused_at_the_others() {
    const OPERATOR: &str = "operators-token-of-some-length";
    let Some(redis) = redis() else { return };
    let (url, keys) = (redis.url(), TestKeys::new());
    let variables = [
        ("log.format", "json"),
        ("management.token", OPERATOR),
        ("redis.url", url.as_str()),
        ("redis.password", PASSWORD),
        ("redis.prefix", PREFIX),
    ];
    let variables = [&variables[..], &keys.settings()].concat();
    let [mut stopping, mut other] = [(); 2].map(|()| GATEWAY.serve(&variables));
    let (_, management) = stopping.addresses();
    let (public, others_management) = other.addresses();
    for process in [&mut stopping, &mut other] {
        process.logged("synchronized with the other replicas");
    }
    let client = Client::new(public, others_management);
    let session = client
        .log_in("alice@example.test", &"alice-pass".into())
        .await
        .session();
    assert_eq!(client.exchange(&session, "").await.status, 200);

    let request = post(REVOKE, &json!({ "all": true }).to_string());
    let (begin, end) = request.split_at(request.len() - 1);
    // 100 shows that the request has reached its handler, so that the listener waits for it.
    let headers = format!("\r\nAuthorization: Bearer {OPERATOR}\r\nExpect: 100-continue\r\nHost");
    let mut revoking = Connection::to(management);
    let begin = begin.replacen("\r\nHost", &headers, 1);
    assert_eq!(revoking.send(begin).answer().status, 100);
    stopping.signal("TERM");
    until("the management listener to stop", async || {
        TcpStream::connect(management).is_err()
    })
    .await;
    let answer = revoking.send(end).answer();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["replication"], "delivered");
    until("the session to be refused", async || {
        client.exchange(&session, "").await.status == 401
    })
    .await;
    assert_eq!(stopping.wait().code, Some(0));
}

#[tokio::test]
async fn rotated_password_is_used_for_new_connections() {
    const NEXT: &str = "the next password of this Redis";
    let Some(redis) = redis() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    fs::write(&file, PASSWORD).expect("written");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("permissions");
    let mut process = GATEWAY.serve(&[
        ("redis.url", &redis.url()),
        ("redis.password_file", file.to_str().expect("text")),
        ("redis.prefix", PREFIX),
    ]);
    let (_, management) = process.addresses();
    let synchronized = async |wanted| {
        until("the state of the replication", async || {
            metrics::sum(management, "revocations_synchronized", "").await == wanted
        })
        .await;
    };
    synchronized(1).await;
    let mut admin = redis.admin();
    admin.words(&["CONFIG", "SET", "requirepass", NEXT]);
    admin.run("CLIENT KILL TYPE normal SKIPME yes");
    synchronized(0).await;
    fs::write(&file, NEXT).expect("written");
    synchronized(1).await;
}

#[test]
fn check_reports_whether_redis_can_be_reached() {
    let Some(mut redis) = redis() else { return };
    let url = redis.url();
    let check = |password| {
        let variables = [("redis.url", url.as_str()), ("redis.password", password)];
        GATEWAY.run(&["check", "--online"], &variables)
    };
    let fine = check(PASSWORD);
    assert_eq!(fine.code, Some(0), "{}", fine.everything());
    assert!(fine.out.contains("Redis         responds"), "{}", fine.out);
    let wrong = check("not the password");
    assert_eq!(wrong.code, Some(69), "{}", wrong.everything());
    assert!(
        wrong.out.contains("Redis         refuses: "),
        "{}",
        wrong.out
    );
    assert!(!wrong.everything().contains("not the password"));
    redis.admin().run("REPLICAOF 127.0.0.1 1");
    let read_only = check(PASSWORD);
    assert!(read_only.out.contains("is read-only"), "{}", read_only.out);
    redis.admin().run("REPLICAOF NO ONE");
    redis.admin().run("CONFIG SET maxmemory-policy allkeys-lru");
    let evicting = check(PASSWORD);
    assert_eq!(evicting.code, Some(69), "{}", evicting.everything());
    assert!(
        evicting.out.contains("maxmemory-policy allkeys-"),
        "{}",
        evicting.out
    );
    redis.kill();
    let unreachable = check(PASSWORD);
    assert_eq!(unreachable.code, Some(69), "{}", unreachable.everything());
    assert!(
        unreachable.out.contains("Redis         cannot be reached"),
        "{}",
        unreachable.out
    );
}

#[test]
fn check_names_a_right_that_the_user_of_redis_lacks_until_it_is_granted() {
    let Some(redis) = redis() else { return };
    let (url, mut admin) = (redis.url(), redis.admin());
    let user = ["ACL", "SETUSER", "gateway"];
    let rights = ["on", ">of-the-gateway", "~auth-gateway:*", "+del", "+info"];
    admin.words(&[&user[..], &rights, &RIGHTS].concat());
    let check = || {
        let variables = [
            ("redis.url", url.as_str()),
            ("redis.username", "gateway"),
            ("redis.password", "of-the-gateway"),
        ];
        GATEWAY.run(&["check", "--online"], &variables)
    };
    for right in RIGHTS {
        let lacking = right.replace('+', "-");
        admin.words(&[&user[..], &[lacking.as_str()]].concat());
        let refused = check();
        assert_eq!(refused.code, Some(69), "{lacking} {}", refused.everything());
        let line = "Redis         refuses: ";
        assert!(refused.out.contains(line), "{lacking} {}", refused.out);
        admin.words(&[&user[..], &[right]].concat());
    }
    let granted = check();
    assert_eq!(granted.code, Some(0), "{}", granted.everything());
}

#[test]
fn check_runs_a_session_of_a_test_account_with_redis() {
    let Some(redis) = redis() else { return };
    let url = redis.url();
    let ended = GATEWAY.run(
        &["check", "--online"],
        &[
            ("redis.url", url.as_str()),
            ("redis.password", PASSWORD),
            ("AUTH_GATEWAY_CHECK_EMAIL", "alice@example.test"),
            ("AUTH_GATEWAY_CHECK_PASSWORD", "alice-pass"),
        ],
    );
    assert_eq!(ended.code, Some(0), "{}", ended.everything());
    for step in ["login", "exchange", "logout"] {
        let line = format!("  {step:<14}ok");
        assert!(ended.out.contains(&line), "{line}: {}", ended.out);
    }
}

#[test]
fn check_names_keys_that_a_replica_uses_and_that_its_folder_lacks() {
    let Some(redis) = redis() else { return };
    let url = redis.url();
    let redis = [
        ("redis.url", url.as_str()),
        ("redis.password", PASSWORD),
        ("redis.prefix", PREFIX),
        IDENTIFIER_KEY,
    ];
    let (keys, others) = (TestKeys::new(), TestKeys::new());
    let log = [("log.format", "json")];
    let mut replica = GATEWAY.serve(&[&log[..], &redis, &keys.settings()].concat());
    replica.logged("synchronized with the other replicas");
    let check = |keys: &TestKeys| {
        let variables = [&redis[..], &keys.settings()].concat();
        GATEWAY.run(&["check", "--online"], &variables)
    };
    let same = check(&keys);
    assert_eq!(same.code, Some(0), "{}", same.everything());
    let other = check(&others);
    assert_eq!(other.code, Some(69), "{}", other.everything());
    for purpose in ["signing", "sealing"] {
        let line = format!("keys.{purpose}_dir of this replica lacks {purpose} keys");
        assert!(other.out.contains(&line), "{}", other.out);
    }
}
