//! `revoke`: sessions are revoked at the running gateway of the settings.

use std::fs;
use std::net::SocketAddr;

use serde_json::Value;
use test_support::client::{Client, Session};
use test_support::files::write_private;
use test_support::program::{Ended, Program};
use test_support::suite::READ;

use crate::GATEWAY;

const TOKEN: &str = "canary-token-of-an-operator";

/// A running gateway.
struct Running {
    program: Program,
    client: Client,
    management: SocketAddr,
}

impl Running {
    fn start(settings: &[(&str, &str)]) -> Self {
        let mut program = GATEWAY.serve(&[&[("log.format", "json")], settings].concat());
        let (public, management) = program.addresses();
        Self {
            program,
            client: Client::new(public, management),
            management,
        }
    }

    fn with_token() -> Self {
        Self::start(&[("management.token", TOKEN)])
    }

    async fn log_in(&self, email: &str) -> Session {
        let password = format!("{}-pass", &email[..email.find('@').expect("an address")]);
        self.client.log_in(email, &password.into()).await.session()
    }

    async fn serves(&self, session: &Session) -> bool {
        self.client.exchange(session, READ).await.status == 200
    }

    /// The result of `revoke` with the token of the gateway. It has to succeed.
    fn revoke(&self, arguments: &[&str]) -> String {
        let ended = revoke(arguments, self.management, &[("management.token", TOKEN)]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.err, "\n");
        ended.out
    }
}

fn revoke(arguments: &[&str], management: SocketAddr, settings: &[(&str, &str)]) -> Ended {
    let address = management.to_string();
    let listen = [("management.listen", address.as_str())];
    let ended = GATEWAY.run(
        &[&["revoke"], arguments].concat(),
        &[&listen[..], settings].concat(),
    );
    assert!(!ended.everything().contains("canary"), "{ended:?}");
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn one_session_those_of_a_subject_and_all_are_revoked_and_in_the_audit_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.log");
    let mut gateway = Running::start(&[
        ("management.token", TOKEN),
        ("audit.destination", "file"),
        ("audit.file", file.to_str().expect("text")),
        ("keys.identifier_key", "0123456789abcdef0123456789abcdef"),
    ]);
    let [one, other] = [
        gateway.log_in("alice@example.test").await,
        gateway.log_in("alice@example.test").await,
    ];
    let bob = gateway.log_in("bob@example.test").await;

    let out = gateway.revoke(&["session", &one.session_id]);
    let alone = "at this replica alone: no Redis is configured\n";
    assert_eq!(out, format!("revoked the session\n{alone}"));
    assert!(!gateway.serves(&one).await && gateway.serves(&other).await);

    let log = gateway.program.logged_with("route", "login");
    let subject = log["subject"].as_str().expect("a subject").to_owned();
    let early = gateway.revoke(&["subject", &subject, "--begun-until", "1"]);
    assert_eq!(
        early,
        format!(
            "revoked the sessions of the subject that began until 1970-01-01T00:00:01+00:00\n{alone}"
        )
    );
    assert!(gateway.serves(&other).await);
    gateway.revoke(&["subject", &subject]);
    assert!(!gateway.serves(&other).await && gateway.serves(&bob).await);

    gateway.revoke(&["all", "--iam", "mock"]);
    assert!(!gateway.serves(&bob).await);
    let out = gateway.revoke(&["all", "--begun-until", &bob.verified_at]);
    let expected = format!("revoked all sessions that began until {}", bob.verified_at);
    assert!(out.starts_with(&expected), "{out}");

    let ended = gateway.program.stop();
    let text = fs::read_to_string(&file).expect("the audit log");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let audit: Vec<_> = lines
        .filter(|line| line["event"] == "session_revocation")
        .collect();
    let revoked: Vec<_> = audit.iter().map(|line| &line["selected_by"]).collect();
    assert_eq!(revoked, ["session_id", "subject", "subject", "iam", "all"]);
    let log = ended.log();
    for line in &audit {
        assert_eq!(line["outcome"], "success");
        // The ordinary log has the call too.
        let same = |call: &&Value| call["request_id"] == line["request_id"];
        let call = log.iter().find(same).expect("a line");
        assert_eq!(call["route"], "management");
        assert_eq!(call["status"], 200);
        assert_eq!(call["client.address"], "127.0.0.1");
    }
    assert_eq!(audit[0]["subject"], Value::Null);
    assert_eq!(audit[1]["subject"], subject.as_str());
    assert_eq!(audit[1]["begun_until"], "1970-01-01T00:00:01+00:00");
    assert_eq!(audit[3]["iam"], "mock");
    for secret in [TOKEN, &one.session_id, &one.session_token] {
        assert!(!ended.everything().contains(secret));
        assert!(!text.contains(secret));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_and_token_come_from_the_files_of_the_gateway() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        write_private(&path, text);
        path.to_str().expect("text").to_owned()
    };
    let token = write("token", &format!("{TOKEN}\n"));
    let gateway = Running::start(&[("management.token_file", &token)]);
    let session = gateway.log_in("alice@example.test").await;
    let config = write(
        "gateway.toml",
        &format!(
            "[management]\nlisten = \"{}\"\ntoken_file = \"{token}\"\n",
            gateway.management
        ),
    );
    for arguments in [
        &[
            "revoke",
            "--config",
            &config,
            "session",
            &session.session_id,
        ][..],
        &[
            "revoke",
            "session",
            &session.session_id,
            "--config",
            &config,
        ],
    ] {
        let ended = GATEWAY.run(arguments, &[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(!gateway.serves(&session).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revocation_that_was_not_recorded_has_an_exit_code_and_the_reason() {
    let gateway = Running::with_token();
    let session = gateway.log_in("alice@example.test").await;
    let token = [("management.token", TOKEN)];
    let nothing_listens = SocketAddr::from(([127, 0, 0, 1], 9));
    for (arguments, management, settings, code, reason) in [
        (
            &["all"][..],
            gateway.management,
            &[][..],
            64,
            "revoke needs management.token or management.token_file",
        ),
        (
            &["all"],
            SocketAddr::from(([127, 0, 0, 1], 0)),
            &token,
            64,
            "management.listen has port 0",
        ),
        (
            &["all"],
            nothing_listens,
            &token,
            69,
            "http://127.0.0.1:9/admin/v1/sessions/revoke: no connection",
        ),
        (
            &["all"],
            gateway.management,
            &[("management.token", "canary-of-another-token")],
            69,
            "the gateway has another management.token",
        ),
        (
            &["all", "--iam", "keycloak"],
            gateway.management,
            &token,
            64,
            "The member `iam` is not the name of a configured IAM.",
        ),
    ] {
        let ended = revoke(arguments, management, settings);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.err.contains(reason), "{ended:?}");
        assert_eq!(ended.out, "\n");
    }
    let without = Running::start(&[]);
    let ended = revoke(&["all"], without.management, &token);
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.err.contains("the gateway has no management.token"));
    assert!(gateway.serves(&session).await);
}
