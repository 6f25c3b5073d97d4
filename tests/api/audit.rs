//! The audit log: the lines that requests cause.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth_gateway_core::identifiers::IdentifierKey;
use iam_adapters::ClientAddress;
use iam_conformance::Account;
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::ManualClock;
use test_support::client::Session;
use test_support::endpoints::{BACKCHANNEL_LOGOUT, LOGIN, LOGOUT, RESET, REVOKE};
use test_support::gateway::{TestGateway, manual_clock, two_scripted_keycloaks_settings};
use test_support::scripted_upstream::ScriptedUpstream;
use test_support::suite::{IamFixture, READ, session_of};
use test_support::wait::{until, until_ok};
use test_support::wire::post;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::namespace::{ALICE, Namespace};

const KEY: &str = "0123456789abcdef0123456789abcdef";
const TOKEN: &str = "operators-token-of-some-length";

/// The settings of a gateway that writes its audit log to this file.
fn settings(path: &Path) -> Vec<(&'static str, &str)> {
    vec![
        ("audit.destination", "file"),
        ("audit.file", path.to_str().expect("text")),
        ("keys.identifier_key", KEY),
        ("management.token", TOKEN),
    ]
}

/// The file of an audit log, and the key of its identifiers.
struct AuditFile {
    folder: TempDir,
    key: IdentifierKey,
}

impl AuditFile {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            key: IdentifierKey::new(KEY.as_bytes()),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path()).unwrap_or_default();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let lines = text[..whole].lines();
        lines
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    /// The lines with this event, once there is this number of them.
    async fn events(&self, event: &str, count: usize) -> Vec<Value> {
        until_ok(&format!("{count} lines of {event}"), async || {
            let lines = self.lines();
            let found = lines.iter().filter(|line| line["event"] == event);
            let found: Vec<_> = found.cloned().collect();
            if found.len() >= count {
                assert_eq!(found.len(), count, "{found:#?}");
                Ok(found)
            } else {
                Err(lines)
            }
        })
        .await
    }

    /// The last line with this event, once there is this number of them, without its version, time, name
    /// and request id, which are checked.
    async fn last(&self, event: &str, count: usize) -> Value {
        let mut line = self.events(event, count).await.pop().expect("a line");
        let members = line.as_object_mut().expect("an object");
        assert_eq!(members.remove("schema"), Some(json!(1)));
        assert_eq!(members.remove("event"), Some(json!(event)));
        let time = members.remove("time").expect("a time");
        assert!(time.as_str().expect("text").parse::<Timestamp>().is_ok());
        if let Some(id) = members.remove("request_id") {
            assert!(id.as_str().is_some_and(|id| !id.is_empty()));
        }
        line
    }

    fn account(&self, email: &str) -> String {
        self.key.account(email).to_string()
    }

    fn session(&self, session: &Session) -> String {
        self.key.session(&session.session_id).to_string()
    }

    /// The client of these tests.
    fn client(&self) -> String {
        self.network([127, 0, 0, 1])
    }

    fn network(&self, address: [u8; 4]) -> String {
        let address: IpAddr = address.into();
        let network = ClientAddress::from(address).network();
        self.key.network(network).to_string()
    }
}

/// A gateway with an audit log in front of an IAM.
struct AuditFixture {
    iam: IamFixture,
    file: AuditFile,
    gateway: TestGateway,
    user: Account,
}

impl AuditFixture {
    async fn new(more: &[(&str, &str)]) -> Self {
        let (iam, file) = (IamFixture::in_memory(), AuditFile::new());
        let path = file.path();
        let settings = settings(&path);
        let gateway = iam.gateway_with(&[&settings[..], more].concat());
        let user = iam.user(&[READ]).await;
        Self {
            iam,
            file,
            gateway,
            user,
        }
    }

    async fn log_in_with(&self, password: &str) -> u16 {
        let password = SecretString::from(password);
        self.gateway
            .log_in(&self.user.email, &password)
            .await
            .status
    }

    fn subject(&self) -> &str {
        self.user.subject.as_str()
    }
}

#[tokio::test]
async fn accepted_login_has_a_line_with_the_account_the_subject_and_the_session() {
    let fixture = AuditFixture::new(&[]).await;
    let session = session_of(&fixture.gateway, &fixture.user).await;
    let file = &fixture.file;
    let time = &file.events("login", 1).await[0]["time"];
    let now = Timestamp::from_second(fixture.iam.now().try_into().expect("seconds"));
    let time: Timestamp = time.as_str().expect("text").parse().expect("a time");
    assert_eq!(time.as_second(), now.expect("a time").as_second());
    assert_eq!(
        file.last("login", 1).await,
        json!({
            "outcome": "success",
            "client": file.client(),
            "account": file.account(&fixture.user.email),
            "iam": "mock",
            "subject": fixture.subject(),
            "session": file.session(&session),
        })
    );
}

#[tokio::test]
async fn refused_login_has_a_line_with_the_reason() {
    let fixture = AuditFixture::new(&[("login_limits.account_failures", "1")]).await;
    let file = &fixture.file;
    let refused = |reason: &str| {
        json!({
            "outcome": "refused",
            "reason": reason,
            "client": file.client(),
            "account": file.account(&fixture.user.email),
            "iam": "mock",
        })
    };
    assert_eq!(fixture.log_in_with("wrong").await, 401);
    let line = file.last("login", 1).await;
    assert_eq!(line, refused("invalid_credentials"));
    assert_eq!(fixture.log_in_with("wrong").await, 429);
    let mut limited = refused("rate_limited");
    limited["limit"] = json!("account");
    assert_eq!(file.last("login", 2).await, limited);
}

#[tokio::test]
async fn login_and_logout_that_fail_at_the_iam_have_lines_with_the_fault() {
    let file = AuditFile::new();
    let path = file.path();
    let settings = settings(&path);
    let clock = manual_clock();
    let time = Arc::<ManualClock>::clone(&clock);
    let gateway = TestGateway::start_with_clock(time, &settings);
    let mock = Namespace::unnamed(&gateway);
    let session = mock.session(ALICE).await;
    let fault = |operation: &str| json!({"operation": operation, "answer": "unreachable"});
    mock.fault(fault("login")).await;
    assert_eq!(mock.try_log_in(ALICE).await.status, 500);
    assert_eq!(
        file.last("login", 2).await,
        json!({
            "outcome": "failed",
            "reason": "unreachable",
            "client": file.client(),
            "account": file.account(ALICE),
            "iam": "mock",
        })
    );
    mock.fault(fault("logout")).await;
    assert_eq!(mock.log_out(&session).await.status, 500);
    let line = file.last("logout", 1).await;
    assert_eq!(line["outcome"], "failed");
    assert_eq!(line["reason"], "unreachable");
    assert_eq!(line["session"], file.session(&session));
    // The gateway repeats it.
    mock.done(reqwest::Method::DELETE, "/faults").await;
    let finished = until_ok("the logout at the IAM", async || {
        mock.advance("31s").await;
        let lines = file.lines().into_iter();
        let mut lines = lines.filter(|line| line["event"] == "iam_logout");
        lines.next().ok_or(())
    });
    let line = finished.await;
    assert_eq!(line["outcome"], "success");
    assert_eq!(line["iam"], "mock");
    assert_eq!(line["session"], file.session(&session));
}

#[tokio::test]
async fn login_whose_connection_is_reset_before_its_line_is_written_ends_its_session() {
    let fixture = AuditFixture::new(&[("audit.fail_closed", "true")]).await;
    let (file, gateway) = (&fixture.file, &fixture.gateway);
    // Its line is on the disk, and with it those of the start.
    session_of(gateway, &fixture.user).await;
    fs::rename(file.path(), file.folder.path().join("audit.log.1")).expect("renamed");
    fs::create_dir(file.path()).expect("a folder in its place");
    let mut client = TcpStream::connect(gateway.addresses().public)
        .await
        .expect("connected");
    let password = fixture.user.password.expose_secret();
    let body = json!({"email": fixture.user.email, "password": password});
    let request = post(LOGIN, &body.to_string());
    client.write_all(request.as_bytes()).await.expect("sent");
    until("a line that cannot be written", async || {
        gateway.metric("audit_unwritable", "").await == 1
    })
    .await;
    client.set_zero_linger().expect("set");
    drop(client);
    until("the end of the session", async || {
        let ended = "operation=\"logout\",outcome=\"ok\",iam=\"mock\"";
        gateway.metric("iam_calls_total", ended).await == 1
    })
    .await;
    fs::remove_dir(file.path()).expect("removed");
    let lines = file.events("login", 2).await;
    let reasons = lines.iter().map(|line| (&line["outcome"], &line["reason"]));
    let expected = [
        (&json!("success"), &Value::Null),
        (&json!("failed"), &json!("audit_log_unwritable")),
    ];
    assert_eq!(reasons.collect::<Vec<_>>(), expected);
    assert!(lines[0]["session"].is_string());
    assert_eq!(lines[0]["session"], lines[1]["session"]);
}

#[tokio::test]
async fn logout_has_a_line_with_its_session_only_if_the_pair_is_that_of_one() {
    let fixture = AuditFixture::new(&[]).await;
    let file = &fixture.file;
    let session = session_of(&fixture.gateway, &fixture.user).await;
    let mut crossed = session.clone();
    crossed.session_id = session_of(&fixture.gateway, &fixture.user).await.session_id;
    let mut garbage = session.clone();
    garbage.session_token = "garbage".to_owned();
    for pair in [&crossed, &garbage, &garbage] {
        assert_eq!(fixture.gateway.log_out(pair).await.status, 400);
    }
    assert_eq!(fixture.gateway.log_out(&session).await.status, 200);
    assert_eq!(
        file.last("logout", 1).await,
        json!({
            "outcome": "success",
            "client": file.client(),
            "iam": "mock",
            "subject": fixture.subject(),
            "session": file.session(&session),
        })
    );
}

#[tokio::test]
async fn logout_token_has_a_line_with_what_it_ended() {
    let fixture = AuditFixture::new(&[]).await;
    let file = &fixture.file;
    session_of(&fixture.gateway, &fixture.user).await;
    let tokens = fixture.iam.administrator.end_sessions_of(&fixture.user);
    let token = tokens.await.into_iter().next().expect("a logout token");
    assert_eq!(fixture.gateway.send_logout_token(&token).await.status, 200);
    assert_eq!(
        file.last("logout_token", 1).await,
        json!({
            "outcome": "success",
            "client": file.client(),
            "iam": "mock",
            "ended": "subject",
            "subject": fixture.subject(),
        })
    );
    for (token, reason) in [(&*token, "replayed"), ("a.b.c", "malformed")] {
        assert_eq!(fixture.gateway.send_logout_token(token).await.status, 400);
        let count = if reason == "replayed" { 2 } else { 3 };
        assert_eq!(
            file.last("logout_token", count).await,
            json!({"outcome": "refused", "reason": reason, "client": file.client()})
        );
    }
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let answer = fixture.gateway.post(BACKCHANNEL_LOGOUT, &form, "x=1");
    assert_eq!(answer.await.status, 400);
    // Lines have the order of their requests, so one of the invalid form would be there before this one.
    session_of(&fixture.gateway, &fixture.user).await;
    file.events("login", 2).await;
    file.events("logout_token", 3).await;
}

#[tokio::test]
async fn login_of_an_unknown_domain_has_a_line_without_an_iam() {
    let file = AuditFile::new();
    let path = file.path();
    let (one, other) = (
        ScriptedUpstream::keycloak().await,
        ScriptedUpstream::keycloak().await,
    );
    let (one, other) = (one.url(), other.url());
    let iams = two_scripted_keycloaks_settings(&one, &other);
    let no_default = [("iam.one.login", "false")];
    let all = [&iams[..], &settings(&path), &no_default].concat();
    let gateway = TestGateway::start(&all);
    let email = "eve@nowhere.test";
    let answer = gateway.log_in(email, &"password".into()).await;
    assert_eq!(answer.status, 401);
    assert_eq!(
        file.last("login", 1).await,
        json!({
            "outcome": "refused",
            "reason": "unknown_domain",
            "client": file.client(),
            "account": file.account(email),
        })
    );
}

#[tokio::test]
async fn operator_calls_have_lines_also_if_they_are_refused() {
    let fixture = AuditFixture::new(&[]).await;
    let (file, gateway) = (&fixture.file, &fixture.gateway);
    let session = session_of(gateway, &fixture.user).await;
    let mut count = 0;
    for (body, status, expected) in [
        (
            json!({"session_id": session.session_id}),
            200,
            json!({
                "outcome": "success",
                "selected_by": "session_id",
                "session": file.session(&session),
            }),
        ),
        (
            json!({"subject": fixture.subject(), "begun_until": "1970-01-01T00:00:01Z"}),
            200,
            json!({
                "outcome": "success",
                "selected_by": "subject",
                "subject": fixture.subject(),
                "begun_until": "1970-01-01T00:00:01+00:00",
            }),
        ),
        (
            json!({"iam": "other", "begun_until": "1970-01-01T00:00:01Z"}),
            400,
            json!({
                "outcome": "refused",
                "reason": "unknown_iam",
                "selected_by": "iam",
                "iam": "other",
                "begun_until": "1970-01-01T00:00:01+00:00",
            }),
        ),
    ] {
        let body = body.to_string();
        let answer = gateway.operate(REVOKE, Some(TOKEN), &body).await;
        assert_eq!(answer.status, status, "{body}");
        count += 1;
        let mut line = file.last("session_revocation", count).await;
        let client = line.as_object_mut().expect("an object").remove("client");
        assert_eq!(client, Some(json!(file.client())));
        assert_eq!(line, expected);
    }

    let body = json!({"email": fixture.user.email, "client_address": "203.0.113.9"});
    let body = body.to_string();
    let answer = gateway.operate(RESET, Some(TOKEN), &body).await;
    assert_eq!(answer.status, 204);
    assert_eq!(
        file.last("login_limits_reset", 1).await,
        json!({
            "outcome": "success",
            "client": file.client(),
            "account": file.account(&fixture.user.email),
            "network": file.network([203, 0, 113, 9]),
        })
    );

    for (count, token, reason) in [
        (1, None, "missing_token"),
        (2, Some("another-token-of-some-length"), "invalid_token"),
    ] {
        let answer = gateway.operate(REVOKE, token, "{\"all\":true}").await;
        assert_eq!(answer.status, 401);
        assert_eq!(
            file.last("operator_refused", count).await,
            json!({
                "outcome": "refused",
                "reason": reason,
                "client": file.client(),
                "path": REVOKE,
            })
        );
    }
}

#[tokio::test]
async fn no_line_has_a_password_a_token_or_an_address_unless_the_settings_say_so() {
    for in_clear in [false, true] {
        let value = if in_clear { "true" } else { "false" };
        let fixture = AuditFixture::new(&[
            ("audit.client_addresses", value),
            ("audit.email_addresses", value),
        ])
        .await;
        let (file, user) = (&fixture.file, &fixture.user);
        let session = session_of(&fixture.gateway, user).await;
        fixture.log_in_with("canary-of-a-wrong-password").await;
        assert_eq!(fixture.gateway.exchange(&session, READ).await.status, 200);
        let answer = fixture.gateway.post_json(LOGOUT, &session.pair()).await;
        assert_eq!(answer.status, 200);
        let body = json!({ "session_id": session.session_id }).to_string();
        fixture.gateway.operate(REVOKE, Some(TOKEN), &body).await;
        fixture
            .gateway
            .operate(REVOKE, Some("canary-of-a-token"), &body)
            .await;
        file.events("operator_refused", 1).await;
        let text = fs::read_to_string(file.path()).expect("the log");
        for secret in [
            user.password.expose_secret(),
            "canary",
            &session.session_id,
            &session.session_token,
            TOKEN,
            KEY,
        ] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        for address in ["127.0.0.1", &user.email] {
            assert_eq!(text.contains(address), in_clear, "{address}: {text}");
        }
    }
}

#[tokio::test]
async fn exchange_has_no_line() {
    let fixture = AuditFixture::new(&[]).await;
    let session = session_of(&fixture.gateway, &fixture.user).await;
    fixture.file.events("login", 1).await;
    for _ in 0..3 {
        let answer = fixture.gateway.exchange(&session, READ).await;
        assert_eq!(answer.status, 200);
    }
    assert_eq!(fixture.gateway.log_out(&session).await.status, 200);
    fixture.file.events("logout", 1).await;
    let events = fixture.file.lines();
    let requests = events.iter().filter(|line| line["request_id"].is_string());
    assert_eq!(requests.count(), 2, "{events:#?}");
}
