//! Redis Sentinel, with a real failover.

use std::process::{Child, Command};

use tempfile::TempDir;
use test_support::wait::until;

use crate::fixture::{fixture, log_out, refuses, serves};
use crate::metrics::{has_received, has_sent_all};
use test_support::redis_server::{Server, free_port, listening};

const MASTER: &str = "of-the-tests";

/// One Sentinel, whose word suffices. Ended on drop.
struct Sentinel {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Sentinel {
    /// A Sentinel that watches this primary.
    fn of(primary: &Server) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("sentinel.conf");
        loop {
            let port = free_port();
            let text = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\n\
                 sentinel monitor {MASTER} 127.0.0.1 {} 1\n\
                 sentinel down-after-milliseconds {MASTER} 500\n\
                 sentinel failover-timeout {MASTER} 2000\n",
                folder.path().display(),
                primary.port()
            );
            std::fs::write(&file, text).expect("written");
            let mut command = Command::new("redis-server");
            command.arg(&file).arg("--sentinel");
            if let Some(child) = listening(&mut command, "+monitor") {
                return Self {
                    child,
                    port,
                    _folder: folder,
                };
            }
        }
    }

    fn command(&self, words: &[&str]) -> String {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port));
        let mut connection = client
            .expect("an address")
            .get_connection()
            .expect("a connection");
        let mut command = redis::cmd("SENTINEL");
        for word in words {
            command.arg(*word);
        }
        let answer: redis::Value = command.query(&mut connection).expect("an answer");
        format!("{answer:?}")
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("a child");
    }
}

/// The replica of Redis misses a write that the primary acknowledged, and becomes the primary.
#[tokio::test]
async fn failover_that_loses_an_acknowledged_revocation_violates_no_guarantee() {
    let Some(mut fixture) = fixture() else { return };
    let successor = Server::start().expect("a second Redis");
    let primary = fixture.redis.port();
    let follow = format!("REPLICAOF 127.0.0.1 {primary}");
    successor.admin().run(&follow);
    until("the replica of Redis to be synchronized", async || {
        format!("{:?}", successor.admin().run("ROLE")).contains("connected")
    })
    .await;
    let sentinel = Sentinel::of(&fixture.redis);
    until("the Sentinel to know the replica of Redis", async || {
        let known = sentinel.command(&["REPLICAS", MASTER]);
        known.contains(&successor.port().to_string())
    })
    .await;

    let address = format!("127.0.0.1:{}", sentinel.port);
    let by_sentinel = [
        // Nothing listens there: the address comes from the Sentinel.
        ("redis.url", "redis://127.0.0.1:1"),
        ("redis.sentinel.addresses", &address),
        ("redis.sentinel.master", MASTER),
    ];
    let replicas = [(); 2].map(|()| fixture.gateway(&by_sentinel));
    for replica in &replicas {
        fixture.synchronized(replica).await;
    }
    let [one, other] = &replicas;
    let [kept, lost] = [
        fixture.known_session(&[one, other]).await,
        fixture.known_session(&[one, other]).await,
    ];
    fixture.break_logouts();
    assert_eq!(one.log_out(&kept).await.status, 500);
    has_received(other, 1).await;
    until("the first revocation to be copied", async || {
        successor.admin().revocations().len() == 1
    })
    .await;
    successor.signal("STOP");
    assert_eq!(one.log_out(&lost).await.status, 500);
    has_sent_all(one).await;
    has_received(other, 2).await;
    fixture.redis.kill();
    successor.signal("CONT");
    until("the Sentinel to make it the primary", async || {
        let primary = sentinel.command(&["GET-MASTER-ADDR-BY-NAME", MASTER]);
        primary.contains(&successor.port().to_string())
    })
    .await;
    until("the lost revocation to be there again", async || {
        successor.admin().revocations().len() == 2
    })
    .await;
    for replica in &replicas {
        fixture.synchronized(replica).await;
        for session in [&kept, &lost] {
            assert!(!serves(replica, session).await);
        }
    }
    let late = fixture.gateway(&by_sentinel);
    fixture.synchronized(&late).await;
    for session in [&kept, &lost] {
        assert!(!serves(&late, session).await);
    }
}

/// The old primary still responds, as after a failover by an operator.
#[tokio::test]
async fn replicas_follow_the_primary_when_an_operator_replaces_it() {
    let Some(fixture) = fixture() else { return };
    let successor = Server::start().expect("a second Redis");
    let follow = format!("REPLICAOF 127.0.0.1 {}", fixture.redis.port());
    successor.admin().run(&follow);
    let sentinel = Sentinel::of(&fixture.redis);
    until(
        "the Sentinel to know a healthy replica of Redis",
        async || {
            let known = sentinel.command(&["REPLICAS", MASTER]);
            known.contains(&successor.port().to_string()) && known.contains("master-link-status")
        },
    )
    .await;
    let address = format!("127.0.0.1:{}", sentinel.port);
    let by_sentinel = [
        ("redis.sentinel.addresses", address.as_str()),
        ("redis.sentinel.master", MASTER),
    ];
    let replicas = [(); 2].map(|()| fixture.gateway(&by_sentinel));
    for replica in &replicas {
        fixture.synchronized(replica).await;
    }
    until("the Sentinel to begin the failover", async || {
        let client = redis::Client::open(format!("redis://{address}")).expect("an address");
        let mut connection = client.get_connection().expect("a connection");
        let mut command = redis::cmd("SENTINEL");
        command.arg("FAILOVER").arg(MASTER);
        command.exec(&mut connection).is_ok()
    })
    .await;
    let [one, other] = &replicas;
    let session = fixture.known_session(&[one, other]).await;
    until("the Sentinel to make it the primary", async || {
        let primary = sentinel.command(&["GET-MASTER-ADDR-BY-NAME", MASTER]);
        primary.contains(&successor.port().to_string())
    })
    .await;
    log_out(one, &session).await;
    refuses(other, &session).await;
    until("the revocation to be at the new primary", async || {
        successor.admin().revocations().len() == 1
    })
    .await;
}
