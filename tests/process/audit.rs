//! The audit log of a process: its file, rotation, a full disk, several replicas, and its commands.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::endpoints::{LOGIN, LOGOUT, RESET};
use test_support::files::write_private;
use test_support::keys::TestKeys;
use test_support::program::{Ended, Program};
use test_support::wait::until_ok_blocking;
use test_support::wire::{ALICE, Answer, exchange, fetch, get, logout, post, with_header};

use crate::GATEWAY;

const TOKEN_OF_OPERATORS: &str = "operators-token-of-some-length";

/// A folder with a key of identifiers, which `init` made.
struct AuditFolder {
    folder: TempDir,
}

impl AuditFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let this = Self { folder };
        let settings = this.text("auth-gateway.toml");
        let init = ["init", "--iam", "keycloak", "--output", &settings];
        let ended = GATEWAY.run(&init, &[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("text").to_owned()
    }

    fn key(&self) -> String {
        self.text("secrets/identifier-key")
    }

    /// Starts a gateway that writes to this file.
    fn serve(&self, file: &str, more: &[(&str, &str)]) -> Gateway {
        let key = self.key();
        let audit = [
            ("audit.destination", "file"),
            ("audit.file", file),
            ("keys.identifier_key_file", &key),
        ];
        Gateway::start(&[&audit[..], more].concat())
    }
}

struct Gateway {
    program: Program,
    public: SocketAddr,
    management: SocketAddr,
}

impl Gateway {
    fn start(settings: &[(&str, &str)]) -> Self {
        let mut program = GATEWAY.serve(settings);
        let (public, management) = program.addresses();
        Self {
            program,
            public,
            management,
        }
    }

    fn post(&self, path: &str, body: &str) -> Answer {
        fetch(self.public, post(path, body))
    }

    fn log_in(&self) -> Answer {
        self.post(LOGIN, ALICE)
    }

    fn reset_login_limits(&self) -> Answer {
        let reset = post(RESET, r#"{"email":"alice@example.test"}"#);
        let bearer = format!("Authorization: Bearer {TOKEN_OF_OPERATORS}");
        fetch(self.management, with_header(&bearer, &reset))
    }

    /// The value of a series.
    fn metric(&self, series: &str) -> String {
        let answer = fetch(self.management, get("/metrics"));
        let mut lines = answer.body.lines();
        let line = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series}")).to_owned()
    }

    fn stop(self) -> Ended {
        self.program.stop()
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("the log");
    assert!(text.ends_with('\n'), "{text}");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn names(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["event"].as_str().expect("a name"))
        .collect()
}

/// Waits until the file has this number of lines of logins.
fn wait_for_logins(path: &Path, count: usize) {
    until_ok_blocking("lines of logins", || {
        let text = fs::read_to_string(path).unwrap_or_default();
        let found = text.matches("\"event\":\"login\"").count();
        if found == count { Ok(()) } else { Err(text) }
    });
}

#[test]
fn log_begins_with_the_start_and_ends_with_the_stop() {
    let folder = AuditFolder::new();
    let gateway = folder.serve(&folder.text("audit.log"), &[]);
    assert_eq!(gateway.log_in().status, 200);
    for _ in 0..3 {
        let garbage = r#"{"session_id":"garbage","session_token":"garbage"}"#;
        assert_eq!(gateway.post(LOGOUT, garbage).status, 400);
    }
    let ended = gateway.stop();
    let lines = lines(&folder.path("audit.log"));
    assert_eq!(
        names(&lines),
        [
            "gateway_started",
            "keys",
            "keys",
            "login",
            "refusals",
            "gateway_stopped"
        ]
    );
    assert_eq!(lines[4]["refused"], json!({"logout": {"malformed": 3}}));
    // One request, one line in each log.
    let id = lines[3]["request_id"].as_str().expect("an id");
    let log = ended.log();
    let of_request = log.iter().filter(|line| line["request_id"] == id);
    assert_eq!(of_request.count(), 1);
    assert!(log.iter().all(|line| line.get("schema").is_none()));
}

#[test]
fn renamed_file_is_made_again_with_and_without_a_signal_and_no_line_is_lost() {
    let folder = AuditFolder::new();
    let path = folder.path("audit.log");
    let mut gateway = folder.serve(&folder.text("audit.log"), &[]);
    for number in 1..=3 {
        assert_eq!(gateway.log_in().status, 200);
        wait_for_logins(&path, 1);
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::rename(&path, folder.path(&format!("audit.log.{number}"))).expect("renamed");
        if number == 2 {
            // As logrotate with `create` and `postrotate`.
            write_private(&path, "");
            gateway.program.signal("HUP");
            gateway
                .program
                .logged("the files that the settings name were read again");
        }
    }
    gateway.stop();
    let read = |name: &str| lines(&folder.path(name));
    assert_eq!(
        names(&read("audit.log.1")),
        ["gateway_started", "keys", "keys", "login"]
    );
    assert_eq!(names(&read("audit.log.2")), ["login"]);
    assert_eq!(names(&read("audit.log.3")), ["files", "login"]);
    assert_eq!(names(&read("audit.log")), ["gateway_stopped"]);
}

#[test]
fn full_disk_delays_no_operation_and_is_visible() {
    let folder = AuditFolder::new();
    let mut gateway = folder.serve("/dev/full", &[]);
    let session = gateway.log_in();
    assert_eq!(session.status, 200);
    let line = gateway.program.logged("the audit log cannot be written");
    assert_eq!(line["level"], "ERROR");
    assert_eq!(gateway.metric("auth_gateway_audit_unwritable"), "1");
    let logged_out = fetch(gateway.public, logout(&session.json()));
    assert_eq!(logged_out.status, 200);
    let log = gateway.stop().log();
    let lost: u64 = log
        .iter()
        .filter(|line| line["message"] == "lines of the audit log are lost")
        .map(|line| line["lost"].as_u64().expect("a number"))
        .sum();
    // Start, two kinds of keys, login, logout, stop.
    assert_eq!(lost, 6);
}

#[test]
fn log_that_fails_closed_refuses_logins_while_it_cannot_be_written_and_never_a_logout() {
    let folder = AuditFolder::new();
    let path = folder.path("audit.log");
    let mut gateway = folder.serve(
        &folder.text("audit.log"),
        &[
            ("audit.fail_closed", "true"),
            ("management.token", TOKEN_OF_OPERATORS),
        ],
    );
    let session = gateway.log_in();
    assert_eq!(session.status, 200);
    // The line is on the disk before the response.
    let before = lines(&path);
    assert_eq!(before.last().expect("a line")["event"], "login");

    fs::rename(&path, folder.path("audit.log.1")).expect("renamed");
    fs::create_dir(&path).expect("a folder in its place");
    // The first one finds out, after the IAM has accepted it. Its session is ended.
    for _ in 0..2 {
        let refused = gateway.log_in();
        assert_eq!(refused.status, 503, "{}", refused.body);
        assert_eq!(refused.json()["error"], "temporarily_unavailable");
        assert!(refused.header("retry-after").is_some());
    }
    let logouts = "auth_gateway_iam_call_duration_seconds_count{operation=\"logout\",iam=\"mock\"}";
    until_ok_blocking("the end of the session", || {
        let count = gateway.metric(logouts);
        if count == "1" { Ok(()) } else { Err(count) }
    });
    let answer = gateway.reset_login_limits();
    assert_eq!(answer.status, 503, "{}", answer.body);
    let session = session.json();
    for (request, status) in [
        (exchange(&session), 200),
        (logout(&session), 200),
        (exchange(&session), 401),
    ] {
        assert_eq!(fetch(gateway.public, request).status, status);
    }

    fs::remove_dir(&path).expect("removed");
    gateway.program.logged("the audit log can be written again");
    assert_eq!(gateway.log_in().status, 200);
    gateway.stop();
    let after = lines(&path);
    let shown: Vec<_> = after
        .iter()
        .map(|line| {
            let text = |member: &str| line[member].as_str().unwrap_or_default().to_owned();
            [text("event"), text("outcome"), text("reason")].join(" ")
        })
        .collect();
    assert_eq!(
        shown,
        [
            "login success ",
            "login failed audit_log_unwritable",
            "logout success ",
            "login success ",
            "gateway_stopped  ",
        ]
    );
    assert_eq!(after[0]["session"], after[1]["session"]);
    assert_eq!(after[0]["request_id"], after[1]["request_id"]);
}

#[test]
fn reset_of_login_limits_whose_line_cannot_be_written_resets_nothing() {
    let folder = AuditFolder::new();
    let path = folder.path("audit.log");
    let mut gateway = folder.serve(
        &folder.text("audit.log"),
        &[
            ("audit.fail_closed", "true"),
            ("management.token", TOKEN_OF_OPERATORS),
            ("login_limits.account_failures", "1"),
        ],
    );
    let wrong = r#"{"email":"alice@example.test","password":"wrong"}"#;
    assert_eq!(gateway.post(LOGIN, wrong).status, 401);
    assert_eq!(gateway.log_in().status, 429);
    fs::rename(&path, folder.path("audit.log.1")).expect("renamed");
    fs::create_dir(&path).expect("a folder in its place");
    let answer = gateway.reset_login_limits();
    assert_eq!(answer.status, 503, "{}", answer.body);
    fs::remove_dir(&path).expect("removed");
    gateway.program.logged("the audit log can be written again");
    assert_eq!(gateway.log_in().status, 429);
    assert_eq!(gateway.reset_login_limits().status, 204);
    assert_eq!(gateway.log_in().status, 200);
    gateway.stop();
    let lines = lines(&path);
    let resets = lines
        .iter()
        .filter(|line| line["event"] == "login_limits_reset");
    let resets: Vec<_> = resets
        .map(|line| (line["outcome"].as_str(), line["reason"].as_str()))
        .collect();
    let expected = [
        (Some("success"), None),
        (Some("failed"), Some("audit_log_unwritable")),
        (Some("success"), None),
    ];
    assert_eq!(resets, expected);
}

#[test]
fn account_has_one_identifier_at_all_replicas_and_after_a_restart_and_a_key_rotation() {
    let folder = AuditFolder::new();
    let mut accounts = Vec::new();
    for name in ["one", "other", "restarted"] {
        // Other signing and sealing keys each time.
        let keys = TestKeys::new();
        let gateway = folder.serve(&folder.text(name), &keys.settings());
        assert_eq!(gateway.log_in().status, 200);
        let wrong = r#"{"email":" ALICE@Example.Test","password":"wrong"}"#;
        assert_eq!(gateway.post(LOGIN, wrong).status, 401);
        gateway.stop();
        for line in lines(&folder.path(name)) {
            if line["event"] == "login" {
                accounts.push(line["account"].as_str().expect("an account").to_owned());
            }
        }
    }
    assert_eq!(accounts.len(), 6);
    accounts.dedup();
    assert_eq!(accounts.len(), 1, "{accounts:?}");
    let key = folder.key();
    let ended = GATEWAY.run(
        &["audit", "id", "--account", "alice@example.test"],
        &[("keys.identifier_key_file", &key)],
    );
    assert_eq!(ended.out.trim(), accounts[0], "{ended:?}");
    let other = AuditFolder::new();
    let ended = GATEWAY.run(
        &["audit", "id", "--account", "alice@example.test"],
        &[("keys.identifier_key_file", &other.key())],
    );
    assert_ne!(ended.out.trim(), accounts[0], "{ended:?}");
}

#[test]
fn lines_on_standard_output_are_between_those_of_the_ordinary_log() {
    let folder = AuditFolder::new();
    let gateway = Gateway::start(&[
        ("audit.destination", "stdout"),
        ("keys.identifier_key_file", &folder.key()),
        ("audit.fail_closed", "true"),
    ]);
    for _ in 0..20 {
        assert_eq!(gateway.log_in().status, 200);
    }
    let log = gateway.stop().log();
    let (audit, ordinary): (Vec<_>, Vec<_>) =
        log.iter().partition(|line| line.get("schema").is_some());
    let count = |lines: &[&Value], member: &str| {
        let logins = lines.iter().filter(|line| line[member] == "login");
        logins.count()
    };
    assert_eq!(count(&audit, "event"), 20);
    assert_eq!(count(&ordinary, "route"), 20);
}

#[test]
fn changed_and_unreadable_keys_have_lines() {
    let folder = AuditFolder::new();
    let keys = TestKeys::new();
    let path = folder.path("audit.log");
    let gateway = folder.serve(&folder.text("audit.log"), &keys.settings());
    let signing = keys.folder("signing");
    let generate = || {
        let directory = signing.to_str().expect("text");
        let ended = GATEWAY.run(&["keys", "generate", "--dir", directory], &[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    };
    let wait_for = |what: &str| {
        until_ok_blocking(what, || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            if text.contains(what) {
                Ok(())
            } else {
                Err(text)
            }
        });
    };
    wait_for("\"purpose\":\"sealing\"");
    generate();
    until_ok_blocking("a line of two keys", || {
        let lines = lines(&path);
        let last = lines.last().expect("a line").clone();
        let is_there = last["purpose"] == "signing"
            && last["kids"].as_array().is_some_and(|kids| kids.len() == 2);
        if is_there { Ok(()) } else { Err(lines) }
    });
    fs::write(signing.join("broken.jwk"), "{}").expect("written");
    wait_for("\"outcome\":\"failed\",\"reason\":\"unreadable\"");
    let lines = lines(&path);
    let last = lines.last().expect("a line");
    assert_eq!(last["event"], "keys");
    let detail = last["detail"].as_str().expect("a detail");
    assert!(detail.contains("broken.jwk"), "{detail}");
    gateway.stop();
}
