use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::IpAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use iam_adapters::clock::ManualClock;
use iam_adapters::logout_token::InvalidLogoutToken;
use iam_adapters::{ClientAddress, IamError, Misconfiguration, Refusal};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

use super::event::{EndedSession, Request};
use super::*;
use crate::gateway::error::{GatewayError, Internal, InvalidSession, NotReady};
use crate::gateway::login_limiter::Limit;

const DOCUMENTATION: &str = include_str!("../../docs/audit.md");

const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";
const ALICE: &str = "alice@example.test";

fn key(secret: &[u8]) -> Arc<IdentifierKey> {
    Arc::new(IdentifierKey::new(secret))
}

fn ids() -> Identifiers {
    Identifiers::new(key(KEY))
}

fn client(address: &str) -> ClientAddress {
    address.parse::<IpAddr>().unwrap().into()
}

fn session_id() -> SessionId {
    SessionId::parse("b5TFtQhzVWRmHlY4g7NGLA").unwrap()
}

/// A log that writes to a file with this name.
struct TestLog {
    folder: TempDir,
    clock: Arc<ManualClock>,
    metrics: AuditMetrics,
    log: AuditLog,
    flusher: Option<Flusher>,
}

impl TestLog {
    fn open(fail_closed: bool, file: impl FnOnce(&Path) -> PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(Duration::from_micros(
            1_800_000_000_000_042,
        )));
        let metrics = AuditMetrics::default();
        let settings = AuditSettings {
            destination: AuditDestination::File,
            file: Some(file(folder.path())),
            fail_closed,
            ..AuditSettings::default()
        };
        let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let log = AuditLog::new(&settings, key(KEY), time, metrics.clone());
        let flusher = log.open().unwrap();
        Self {
            folder,
            clock,
            metrics,
            log,
            flusher,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn counts(&self, name: &str) -> Vec<u64> {
        counts(&fs::read_to_string(self.path(name)).unwrap())
    }

    /// Writes a line with this count, and waits for it.
    async fn write(&self, count: u64) -> Result<(), Unwritable> {
        self.log
            .record_or_refuse(|_| Event::LinesLost { count })
            .await
    }

    fn record(&self, count: u64) {
        self.log.record(|_| Event::LinesLost { count });
    }

    fn close(&mut self) {
        drop(self.flusher.take());
    }
}

/// The counts of these lines, which have them in place of the number of lost lines.
fn counts(text: &str) -> Vec<u64> {
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["count"].as_u64().unwrap()
    });
    lines.collect()
}

fn in_folder(folder: &Path) -> PathBuf {
    folder.join("audit.log")
}

/// Each event with every member that it can have.
fn events() -> Vec<Event> {
    let mut ids = ids();
    ids.with_client_addresses = true;
    ids.with_email_addresses = true;
    let request = || Request {
        request_id: "r".to_owned(),
        client: ids.client(Some(client("192.0.2.1"))),
    };
    let text = || Some("text".to_owned());
    let limited = GatewayError::TooManyLogins {
        limit: Limit::Account,
        retry_after: Duration::ZERO,
    };
    vec![
        Event::GatewayStarted { version: "1" },
        Event::GatewayStopped,
        Event::Login {
            decision: Decision::of_error(&limited),
            request: request(),
            account: Some(ids.account(ALICE)),
            iam: text(),
            subject: text(),
            session: text(),
        },
        Event::SlowRate {
            account: ids.account(ALICE),
            network: "known",
        },
        Event::Logout {
            decision: Decision::CLIENT_DISCONNECTED,
            request: request(),
            session: Some(EndedSession {
                iam: "iam".to_owned(),
                subject: "subject".to_owned(),
                session: "session".to_owned(),
            }),
        },
        Event::IamLogout {
            decision: Decision::of_logout(LogoutOutcome::Expired),
            iam: "iam".to_owned(),
            session: "session".to_owned(),
        },
        Event::LogoutToken {
            decision: Decision::refused("replayed"),
            request: request(),
            iam: text(),
            ended: Some("subject"),
            subject: text(),
        },
        Event::SessionRevocation {
            decision: Decision::refused("unknown_iam"),
            request: request(),
            sessions: RevokedSelection {
                selected_by: "iam",
                session: text(),
                subject: text(),
                iam: text(),
                begun_until: text(),
            },
        },
        Event::LoginLimitsReset {
            decision: Decision::NOT_AUDITED,
            request: request(),
            account: ids.account(ALICE),
            network: text(),
        },
        Event::OperatorRefused {
            decision: Decision::refused("invalid_token"),
            request: request(),
            path: "/".to_owned(),
        },
        Event::Refusals {
            client: ids.client(Some(client("192.0.2.1"))),
            count: 1,
            refused: BTreeMap::from([("login", BTreeMap::from([("rate_limited", 1)]))]),
        },
        Event::Keys {
            decision: Decision::UNREADABLE,
            purpose: Some("signing"),
            kids: vec!["kid".to_owned()],
            detail: text(),
        },
        Event::Files {
            decision: Decision::UNREADABLE,
            detail: text(),
        },
        Event::LinesLost { count: 1 },
    ]
}

fn line(event: &Event) -> Value {
    let now = ManualClock::at(Duration::from_millis(1_800_000_000_001)).now();
    serde_json::from_slice(&Line::new(event, now).to_json()).unwrap()
}

/// The names in backticks.
fn names(text: &str) -> BTreeSet<String> {
    let parts = text.split('`').skip(1).step_by(2);
    parts.map(str::to_owned).collect()
}

/// The rows of the table below this heading, without its head: the cells of each.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = DOCUMENTATION.split_once(heading).expect(heading);
    let rows = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.split(" | ").collect()).collect()
}

#[test]
fn each_event_has_the_members_of_the_documentation() {
    let with_reason = ["outcome", "reason"];
    let with_request = ["request_id", "client", "client_address"];
    let documented: BTreeMap<_, _> = table("## Events")
        .into_iter()
        .map(|cells| {
            let mut members = names(cells[1]);
            if members.remove("outcome") {
                members.extend(with_reason.map(str::to_owned));
            }
            if members.remove("request_id") {
                members.extend(with_request.map(str::to_owned));
            }
            if members.contains("account") {
                members.insert("email".to_owned());
            }
            let name = names(cells[0]).pop_first().expect("a name");
            (name, members)
        })
        .collect();
    let events: BTreeMap<_, _> = events()
        .iter()
        .map(|event| {
            let line = line(event);
            let mut members: BTreeSet<_> = line.as_object().unwrap().keys().cloned().collect();
            assert!(
                ["schema", "time", "event"]
                    .iter()
                    .all(|name| members.remove(*name))
            );
            (line["event"].as_str().unwrap().to_owned(), members)
        })
        .collect();
    assert_eq!(events, documented);
}

#[test]
fn each_reason_is_in_the_documentation() {
    let refusals = [
        Refusal::InvalidCredentials,
        Refusal::Disabled,
        Refusal::Locked,
        Refusal::Incomplete,
    ];
    let sessions = [
        InvalidSession::Malformed,
        InvalidSession::UnknownKey,
        InvalidSession::Tampered,
        InvalidSession::Mismatch,
        InvalidSession::Foreign,
        InvalidSession::Expired,
        InvalidSession::Revoked,
        InvalidSession::Ended,
    ];
    let faults = [
        IamError::Unreachable("".into()),
        IamError::TimedOut(Duration::ZERO),
        IamError::Failed(String::new()),
        IamError::Throttled { retry_after: None },
        IamError::Unreadable("".into()),
        IamError::misconfigured(Misconfiguration::Other, ""),
        IamError::Saturated,
        IamError::CircuitOpen,
        IamError::PermissionSource(Box::new(IamError::CircuitOpen)),
    ];
    let errors = refusals.into_iter().map(GatewayError::Refused);
    let errors = errors.chain(sessions.map(GatewayError::InvalidSession));
    let tokens = InvalidLogoutToken::ALL.map(GatewayError::InvalidLogoutToken);
    let errors = errors.chain(tokens).chain(faults.map(GatewayError::from));
    let errors = errors.chain([
        GatewayError::NoLogoutTokens,
        GatewayError::TooManyLogins {
            limit: Limit::Address,
            retry_after: Duration::ZERO,
        },
        NotReady::TooManyRevocations.into(),
        Internal::Random.into(),
    ]);
    let mut reasons: BTreeSet<_> = errors
        .map(|error| Decision::of_error(&error))
        .chain(LogoutOutcome::ALL.map(Decision::of_logout))
        .chain([
            Decision::UNKNOWN_DOMAIN,
            Decision::CLIENT_DISCONNECTED,
            Decision::NOT_AUDITED,
            Decision::UNREADABLE,
        ])
        .filter_map(|decision| {
            let decision = serde_json::to_value(decision).unwrap();
            Some(decision.get("reason")?.as_str()?.to_owned())
        })
        .collect();
    // Those that the handlers name.
    for name in [
        "too_many_invalid",
        "unknown_iam",
        "unknown_prefix",
        "no_token_configured",
        "missing_token",
        "invalid_token",
    ] {
        reasons.insert(name.to_owned());
    }
    let documented: BTreeSet<_> = table("### Reasons")
        .into_iter()
        .flat_map(|cells| names(cells[0]))
        .collect();
    assert_eq!(reasons, documented);
}

#[test]
fn line_has_version_time_and_event_before_its_members() {
    let now = ManualClock::at(Duration::from_micros(1_800_000_000_000_042)).now();
    let event = Event::SlowRate {
        account: ids().account(ALICE),
        network: "unknown",
    };
    let text = String::from_utf8(Line::new(&event, now).to_json()).unwrap();
    // The identifier must never change: lines of years are compared by it.
    let account = "aad8c89dfc8d05499365470aad74b6b7";
    let expected = format!(
        "{{\"schema\":1,\"time\":\"2027-01-15T08:00:00.000042Z\",\"event\":\"slow_rate\",\
         \"account\":\"{account}\",\"network\":\"unknown\"}}\n"
    );
    assert_eq!(text, expected);
}

#[test]
fn line_escapes_characters_that_change_how_it_is_shown() {
    let session = "a\u{7f}\u{85}\u{61c}\u{200f}\u{2028}\u{2029}\u{202e}\u{2066}\u{e9}";
    let event = Event::IamLogout {
        decision: Decision::SUCCESS,
        iam: "iam".to_owned(),
        session: session.to_owned(),
    };
    let now = ManualClock::at(Duration::ZERO).now();
    let text = String::from_utf8(Line::new(&event, now).to_json()).unwrap();
    let shown = |character: char| matches!(character, ' '..='~' | '\u{e9}' | '\n');
    assert!(text.chars().all(shown), "{text:?}");
    assert_eq!(line(&event)["session"], session);
}

#[test]
fn identifiers_in_the_documentation_are_right() {
    let ids = Identifiers::new(key(b"an-example-of-a-key-that-is-not-secret"));
    let lines = [
        ids.account("Alice@example.test").to_string(),
        ids.session(session_id()),
        ids.network(client("203.0.113.9")),
    ];
    assert!(DOCUMENTATION.contains(&lines.join("\n")), "{lines:?}");
}

#[test]
fn identifier_is_the_same_for_each_spelling_and_for_each_address_of_a_network() {
    let ids = ids();
    for spelling in ["ALICE@example.test", " álice@EXAMPLE.test"] {
        assert_eq!(ids.account(spelling), ids.account(ALICE), "{spelling}");
    }
    assert_ne!(ids.account("bob@example.test"), ids.account(ALICE));
    assert_eq!(
        ids.client(Some(client("2001:db8:1:2::3"))),
        ids.client(Some(client("2001:db8:1:2::4")))
    );
    assert_ne!(
        ids.client(Some(client("192.0.2.1"))),
        ids.client(Some(client("192.0.2.2")))
    );
    let text = session_id().to_string();
    assert!(!ids.session(session_id()).contains(&text));
}

#[test]
fn identifier_depends_on_the_key() {
    let other = Identifiers::new(key(b"another key of enough characters"));
    assert_ne!(ids().account(ALICE), other.account(ALICE));
    assert_ne!(ids().session(session_id()), other.session(session_id()));
    let address = client("192.0.2.1");
    assert_ne!(ids().network(address), other.network(address));
}

#[test]
fn addresses_are_in_clear_only_if_the_settings_say_so() {
    let mut ids = ids();
    let shown = |ids: &Identifiers| {
        let event = Event::Login {
            decision: Decision::SUCCESS,
            request: Request {
                request_id: "r".to_owned(),
                client: ids.client(Some(client("192.0.2.1"))),
            },
            account: Some(ids.account("Alice@example.test")),
            iam: None,
            subject: None,
            session: None,
        };
        line(&event)
    };
    let line = shown(&ids);
    assert_eq!(line.get("client_address"), None);
    assert_eq!(line.get("email"), None);
    let text = line.to_string();
    assert!(
        !text.contains("192.0.2.1") && !text.to_lowercase().contains("alice"),
        "{text}"
    );
    ids.with_client_addresses = true;
    let line = shown(&ids);
    assert_eq!(line["client_address"], "192.0.2.1");
    assert_eq!(line.get("email"), None);
    ids.with_email_addresses = true;
    assert_eq!(shown(&ids)["email"], "Alice@example.test");
    assert_eq!(shown(&ids)["account"], line["account"]);
}

#[tokio::test]
async fn file_is_private_and_a_renamed_or_removed_one_is_made_again() {
    let mut log = TestLog::open(true, in_folder);
    log.write(1).await.unwrap();
    log.write(2).await.unwrap();
    let mode = |name: &str| files_mode(&log.path(name));
    assert_eq!(mode("audit.log"), 0o600);
    fs::rename(log.path("audit.log"), log.path("audit.log.1")).unwrap();
    log.write(3).await.unwrap();
    assert_eq!(mode("audit.log"), 0o600);
    assert_eq!(log.counts("audit.log.1"), [1, 2]);
    assert_eq!(log.counts("audit.log"), [3]);
    fs::remove_file(log.path("audit.log")).unwrap();
    log.write(4).await.unwrap();
    assert_eq!(log.counts("audit.log"), [4]);
    // As by logrotate with `create 0644` and with `copytruncate`.
    fs::rename(log.path("audit.log"), log.path("audit.log.2")).unwrap();
    fs::write(log.path("audit.log"), "").unwrap();
    fs::set_permissions(log.path("audit.log"), fs::Permissions::from_mode(0o644)).unwrap();
    log.write(5).await.unwrap();
    assert_eq!(files_mode(&log.path("audit.log")), 0o640);
    fs::write(log.path("audit.log"), "").unwrap();
    log.write(6).await.unwrap();
    assert_eq!(log.counts("audit.log"), [6]);
    log.close();
    assert_eq!(log.metrics.lines.get(), 6);
    assert_eq!(log.metrics.lines_lost.get(), 0);
}

fn files_mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn line_that_cannot_be_written_is_kept_and_written_later() {
    let mut log = TestLog::open(true, in_folder);
    log.write(1).await.unwrap();
    assert_eq!(log.log.admit(), Ok(()));
    // A folder in its place: the file cannot be opened.
    fs::rename(log.path("audit.log"), log.path("audit.log.1")).unwrap();
    fs::create_dir(log.path("audit.log")).unwrap();
    assert_eq!(log.write(2).await, Err(Unwritable));
    assert_eq!(log.log.admit(), Err(Unwritable));
    assert_eq!(log.metrics.unwritable.get(), 1);
    log.record(3);
    fs::remove_dir(log.path("audit.log")).unwrap();
    log.write(4).await.unwrap();
    assert_eq!(log.log.admit(), Ok(()));
    assert_eq!(log.metrics.unwritable.get(), 0);
    log.close();
    assert_eq!(log.counts("audit.log.1"), [1]);
    assert_eq!(log.counts("audit.log"), [2, 3, 4]);
    assert_eq!(log.metrics.lines_lost.get(), 0);
}

#[tokio::test]
async fn error_in_the_middle_of_a_line_is_followed_by_its_rest_or_in_a_new_file_by_the_whole_line()
{
    // Larger than the files of other tests, which have the same limit meanwhile.
    const LIMIT: u64 = 1 << 30;
    // Without a handler, the signal of the limit ends the process.
    let exceeded = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    let _handler = signal(exceeded).unwrap();
    let before = getrlimit(Resource::Fsize);
    for is_renamed in [false, true] {
        let mut log = TestLog::open(true, in_folder);
        let file = fs::OpenOptions::new()
            .write(true)
            .open(log.path("audit.log"));
        file.unwrap().set_len(LIMIT - 10).unwrap();
        let limited = Rlimit {
            current: Some(LIMIT),
            ..before
        };
        setrlimit(Resource::Fsize, limited).unwrap();
        assert_eq!(log.write(1).await, Err(Unwritable));
        assert_eq!(fs::metadata(log.path("audit.log")).unwrap().len(), LIMIT);
        if is_renamed {
            fs::rename(log.path("audit.log"), log.path("audit.log.1")).unwrap();
        } else {
            setrlimit(Resource::Fsize, before).unwrap();
        }
        log.write(2).await.unwrap();
        setrlimit(Resource::Fsize, before).unwrap();
        log.close();
        let mut file = fs::File::open(log.path("audit.log")).unwrap();
        if !is_renamed {
            file.seek(SeekFrom::Start(LIMIT - 10)).unwrap();
        }
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(counts(&text), [1, 2], "{is_renamed}");
    }
}

#[tokio::test]
async fn full_disk_refuses_an_operation_only_if_the_log_fails_closed() {
    let mut open = TestLog::open(false, |_| "/dev/full".into());
    assert_eq!(open.write(1).await, Ok(()));
    assert_eq!(open.log.admit(), Ok(()));
    open.close();
    assert_eq!(open.metrics.lines_lost.get(), 1);

    let mut closed = TestLog::open(true, |_| "/dev/full".into());
    assert_eq!(closed.write(1).await, Err(Unwritable));
    assert_eq!(closed.log.admit(), Err(Unwritable));
    closed.close();
    assert_eq!(closed.metrics.lines_lost.get(), 1);
    assert_eq!(closed.metrics.lines.get(), 0);
}

#[tokio::test]
async fn lost_lines_are_counted_and_reported_by_a_line_when_writing_works_again() {
    let mut log = TestLog::open(false, in_folder);
    log.record(0);
    // Until it is open and written, so that the next batch fails.
    while log.metrics.lines.get() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    fs::rename(log.path("audit.log"), log.path("audit.log.1")).unwrap();
    fs::create_dir(log.path("audit.log")).unwrap();
    log.record(1);
    while log.metrics.unwritable.get() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let length = Line::new(&Event::LinesLost { count: 2 }, log.clock.now())
        .to_json()
        .len();
    let room = crate::telemetry::json_lines::BACKLOG_BYTES / length;
    for _ in 0..room + 7 {
        log.record(2);
    }
    assert_eq!(log.metrics.lines_lost.get(), 7);
    fs::remove_dir(log.path("audit.log")).unwrap();
    log.close();
    let counts = log.counts("audit.log");
    assert_eq!(counts.iter().filter(|count| **count == 2).count(), room);
    assert_eq!(counts.last(), Some(&7));
    assert_eq!(log.metrics.lines.get(), room as u64 + 2);
}

#[test]
fn symbolic_link_folder_and_missing_folder_are_refused_before_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    symlink(path("target"), path("link")).unwrap();
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("file"), "").unwrap();
    for (name, problem) in [
        ("link", Some("is a symbolic link")),
        ("folder", Some("is not a file")),
        ("missing/audit.log", Some("no such file or directory")),
        ("file", None),
        ("new", None),
    ] {
        let expected = problem.map(|problem| format!("{}: {problem}", path(name).display()));
        assert_eq!(check(&path(name)).err(), expected);
    }
    assert!(!path("new").exists(), "check changes nothing");
    let settings = AuditSettings {
        destination: AuditDestination::File,
        file: Some(path("link")),
        ..AuditSettings::default()
    };
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Duration::ZERO));
    let log = AuditLog::new(&settings, key(KEY), clock, AuditMetrics::default());
    let Err(error) = log.open() else {
        panic!("opened")
    };
    let error = format!("{error:#}");
    assert!(
        error.ends_with("link cannot be opened: is a symbolic link"),
        "{error}"
    );
    assert!(!path("target").exists());
}

/// A refused operator call from this address.
fn operator_refused(ids: &Identifiers, address: IpAddr, reason: &'static str) -> Event {
    Event::OperatorRefused {
        decision: Decision::refused(reason),
        request: Request {
            request_id: "r".to_owned(),
            client: ids.client(Some(address.into())),
        },
        path: "/".to_owned(),
    }
}

/// The events of a file, and the number and the kinds of refusals of each sum.
fn refusal_lines(log: &mut TestLog) -> (Vec<String>, Vec<(Value, Value)>) {
    log.close();
    let text = fs::read_to_string(log.path("audit.log")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let (sums, others): (Vec<Value>, Vec<Value>) =
        lines.partition(|line: &Value| line["event"] == "refusals");
    let names = others
        .iter()
        .map(|line| line["event"].as_str().unwrap().to_owned());
    let sums = sums
        .into_iter()
        .map(|sum| (sum["count"].clone(), sum["refused"].clone()));
    (names.collect(), sums.collect())
}

#[tokio::test]
async fn refusals_that_no_limit_bounds_have_one_line_and_then_one_sum_for_each_client() {
    let mut log = TestLog::open(true, in_folder);
    let request = |ids: &Identifiers| Request {
        request_id: "r".to_owned(),
        client: ids.client(Some(client("192.0.2.1"))),
    };
    let limited = Decision::of_error(&GatewayError::TooManyLogins {
        limit: Limit::Address,
        retry_after: Duration::ZERO,
    });
    let login = |ids: &Identifiers, decision, iam: Option<&str>| Event::Login {
        decision,
        request: request(ids),
        account: Some(ids.account(ALICE)),
        iam: iam.map(str::to_owned),
        subject: None,
        session: None,
    };
    for _ in 0..1000 {
        log.log.record(|ids| Event::Logout {
            decision: Decision::refused("malformed"),
            request: request(ids),
            session: None,
        });
        log.log.record(|ids| Event::LogoutToken {
            decision: Decision::refused("signature"),
            request: request(ids),
            iam: None,
            ended: None,
            subject: None,
        });
        for (decision, iam) in [
            (limited, None),
            (limited, Some("corp")),
            (Decision::UNKNOWN_DOMAIN, None),
        ] {
            let line = log.log.record_or_refuse(|ids| login(ids, decision, iam));
            line.await.unwrap();
        }
        let address = client("192.0.2.1").ip();
        log.log
            .record(|ids| operator_refused(ids, address, "missing_token"));
    }
    // Of each of these, every line counts: limits bound the first, and the second is a success.
    for _ in 0..3 {
        let wrong = Decision::refused("invalid_credentials");
        log.log.record(|ids| login(ids, wrong, Some("corp")));
        log.log
            .record(|ids| login(ids, Decision::SUCCESS, Some("corp")));
    }
    log.log.write_sums();
    log.log.write_sums();
    let (names, sums) = refusal_lines(&mut log);
    let mut expected = vec!["logout_token", "login", "login", "operator_refused"];
    expected.extend(["login"; 6]);
    assert_eq!(names, expected);
    let refused = serde_json::json!({
        "login": {"rate_limited": 1999, "unknown_domain": 999},
        "logout": {"malformed": 1000},
        "logout_token": {"signature": 999},
        "operator_refused": {"missing_token": 999},
    });
    assert_eq!(sums, [(Value::from(5996), refused)]);
}

#[tokio::test]
async fn first_refusal_of_each_interval_has_a_line() {
    let mut log = TestLog::open(false, in_folder);
    let address = client("192.0.2.1").ip();
    for _ in 0..2 {
        log.log
            .record(|ids| operator_refused(ids, address, "missing_token"));
        log.log.write_sums();
    }
    assert_eq!(
        refusal_lines(&mut log),
        (vec!["operator_refused".to_owned(); 2], vec![])
    );
}

#[tokio::test]
async fn refusals_of_any_number_of_clients_have_at_most_two_hundred_and_one_lines() {
    let mut log = TestLog::open(false, in_folder);
    for _ in 0..3 {
        for host in 0..10_000_u32 {
            for reason in ["missing_token", "invalid_token"] {
                let address = IpAddr::from(host.to_be_bytes());
                log.log.record(|ids| operator_refused(ids, address, reason));
            }
        }
    }
    log.log.write_sums();
    let (names, sums) = refusal_lines(&mut log);
    assert_eq!((names.len(), sums.len()), (100, 101));
    let count = |(count, _): &(Value, Value)| count.as_u64().unwrap();
    assert_eq!(sums.iter().map(count).sum::<u64>(), 60_000 - 100);
    assert_eq!(
        count(&sums[0]),
        59_400,
        "of the clients without a sum of their own"
    );
}

#[test]
fn log_without_a_destination_builds_no_line() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Duration::ZERO));
    let off = AuditSettings::default();
    let log = AuditLog::new(&off, key(KEY), clock, AuditMetrics::default());
    assert!(log.open().unwrap().is_none());
    log.record(|_| panic!("a line"));
    assert_eq!(log.admit(), Ok(()));
}
