use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::IpAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use iam_adapters::logout_token::{Ended, InvalidLogoutToken};
use iam_adapters::trace::Context;
use iam_adapters::{ClientAddress, IamError, Misconfiguration, Refusal, Subject};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use strum::VariantArray as _;
use tempfile::TempDir;
use test_support::ManualClock;
use test_support::wait::until;
use tokio::signal::unix::{SignalKind, signal};

use super::line::Decision;
use super::*;
use crate::telemetry::json_lines::Sink as _;
use auth_gateway_core::error::{GatewayError, Internal, InvalidSession, Limit, NotReady};
use auth_gateway_core::event::LoginEnd;
use auth_gateway_core::request::{RequestContext, RequestId};
use auth_gateway_core::results::UpstreamLogoutOutcome as LogoutOutcome;
use auth_gateway_core::results::{EndedByIam, LoggedOut, NewSession};
use auth_gateway_core::revoked_sessions::{NotRevocable, RevokedSessions};
use auth_gateway_core::session_id::SessionId;

const DOCUMENTATION: &str = include_str!("../../docs/audit.md");

const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";
const ALICE: &str = "alice@example.test";

fn key(secret: &[u8]) -> Arc<IdentifierKey> {
    Arc::new(IdentifierKey::new(secret))
}

fn ids() -> Identifiers {
    Identifiers {
        key: key(KEY),
        with_client_addresses: false,
        with_email_addresses: false,
    }
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
    metrics: Arc<Metrics>,
    log: AuditLog,
    flusher: Option<Flusher>,
}

impl TestLog {
    fn open(fail_closed: bool, file: impl FnOnce(&Path) -> PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(Duration::from_micros(
            1_800_000_000_000_042,
        )));
        let metrics = Arc::new(Metrics::new(&[]));
        let settings = AuditSettings {
            destination: AuditDestination::File,
            file: Some(file(folder.path())),
            fail_closed,
            ..AuditSettings::default()
        };
        let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let log = AuditLog::new(&settings, key(KEY), time, Arc::clone(&metrics));
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
        let gate = self.log.gate();
        self.record(count);
        gate.written().await
    }

    fn record(&self, count: u64) {
        self.log.push(&Line::lines_lost(count));
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

/// A request from this address.
fn request_of(address: IpAddr) -> RequestContext {
    RequestContext::new(RequestId::default(), Some(address.into()), Context::new())
}

fn request() -> RequestContext {
    request_of([192, 0, 2, 1].into())
}

fn too_many(limit: Limit) -> GatewayError {
    GatewayError::TooManyLogins {
        limit,
        retry_after: Duration::ZERO,
    }
}

fn new_session() -> NewSession {
    NewSession {
        sub: "alice".to_owned(),
        session_id: session_id(),
        session_token: "token".into(),
        verified_at: 0,
        expires_at: 0,
    }
}

fn login<'e>(
    request: &'e RequestContext,
    iam: Option<&'e Arc<str>>,
    end: LoginEnd<'e>,
) -> Event<'e> {
    Event::Login {
        request,
        account: Some((ALICE, key(KEY).account(ALICE))),
        iam,
        reaches_iam: iam.is_some(),
        end,
    }
}

/// Events of each kind, so that their lines together have every member.
fn lines() -> Vec<Value> {
    let mut ids = ids();
    ids.with_client_addresses = true;
    ids.with_email_addresses = true;
    let (request, iam, session) = (&request(), &Arc::from("iam"), new_session());
    let limited = too_many(Limit::Account);
    let logged_out = LoggedOut {
        session_id: session_id(),
        sub: "alice".to_owned(),
        iam: Arc::clone(iam),
    };
    let by_iam = EndedByIam {
        sub: Some("alice".to_owned()),
        ended: Ended::AllOf(Subject::new("alice").unwrap()),
    };
    let replayed = GatewayError::InvalidLogoutToken(InvalidLogoutToken::Replayed);
    let revocations = [
        RevokedSessions::One(session_id()),
        RevokedSessions::OfSubject {
            subject: Subject::new("alice").unwrap(),
            begun_until: None,
        },
        RevokedSessions::OfIam {
            iam: Some("iam".to_owned()),
            begun_until: None,
        },
    ];
    let revocations = revocations.iter().map(|sessions| Event::SessionRevocation {
        request,
        sessions,
        begun_until: Some("2027-01-15T08:00:00+00:00"),
        result: Err(NotRevocable::UnknownIam),
    });
    let events = [
        Event::Started { version: "1" },
        Event::Stopped,
        login(request, Some(iam), LoginEnd::Decided(Ok(&session))),
        login(request, Some(iam), LoginEnd::Decided(Err(&limited))),
        Event::SlowRate {
            email: ALICE,
            is_known_network: true,
        },
        Event::Logout {
            request,
            session: Some(&logged_out),
            result: None,
        },
        Event::UpstreamLogout {
            iam: "iam",
            session_id: session_id(),
            outcome: LogoutOutcome::Expired,
        },
        Event::LogoutToken {
            request,
            iam: Some(iam),
            result: Ok(&by_iam),
        },
        Event::LogoutToken {
            request,
            iam: Some(iam),
            result: Err(&replayed),
        },
        Event::LoginLimitsReset {
            request,
            email: ALICE,
            network: request.client,
            is_done: false,
        },
        Event::OperatorRefused {
            request,
            path: "/",
            reason: "invalid_token",
        },
        Event::Keys {
            result: Ok(("signing", &["kid".to_owned()])),
        },
        Event::Keys {
            result: Err("text"),
        },
        Event::Files {
            result: Err("text"),
        },
    ];
    let lines = events.into_iter().chain(revocations);
    let lines = lines.map(|event| Line::of(&event, &ids).unwrap());
    let refused = BTreeMap::from([("login", BTreeMap::from([("rate_limited", 1)]))]);
    let sum = Line::refusals(ids.client(request.client), 1, &refused);
    let lines = lines.chain([sum, Line::lines_lost(1)]);
    lines.map(|line| json_of(&line)).collect()
}

fn json_of(line: &Line) -> Value {
    let now = ManualClock::at(Duration::from_millis(1_800_000_000_001)).now();
    serde_json::from_slice(&line.to_json(now)).unwrap()
}

/// The line of an event.
fn line_of(event: &Event<'_>, ids: &Identifiers) -> Value {
    json_of(&Line::of(event, ids).expect("a line"))
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
    let mut events = BTreeMap::<String, BTreeSet<String>>::new();
    for line in lines() {
        let members = line.as_object().unwrap().keys().cloned();
        let others = members.filter(|name| !["schema", "time", "event"].contains(&&**name));
        let event = line["event"].as_str().unwrap().to_owned();
        events.entry(event).or_default().extend(others);
    }
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
    let tokens = InvalidLogoutToken::VARIANTS.iter().copied();
    let tokens = tokens.map(GatewayError::InvalidLogoutToken);
    let errors = errors.chain(tokens).chain(faults.map(GatewayError::from));
    let errors = errors.chain([
        GatewayError::NoLogoutTokens,
        GatewayError::TooManyLogoutTokens {
            retry_after: Duration::ZERO,
        },
        GatewayError::TooManyLogins {
            limit: Limit::Address,
            retry_after: Duration::ZERO,
        },
        NotReady::TooManyRevocations.into(),
        Internal::Random.into(),
    ]);
    let mut reasons: BTreeSet<_> = errors
        .map(|error| Decision::of_error(&error))
        .chain(
            LogoutOutcome::VARIANTS
                .iter()
                .copied()
                .map(Decision::of_logout),
        )
        .chain([
            Decision::unknown(),
            Decision::NOT_AUDITED,
            Decision::UNREADABLE,
        ])
        .filter_map(|decision| decision.reason.map(str::to_owned))
        .collect();
    // Those of single events.
    for name in [
        "unknown_domain",
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
        email: ALICE,
        is_known_network: false,
    };
    let line = Line::of(&event, &ids()).unwrap();
    let text = String::from_utf8(line.to_json(now)).unwrap();
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
    let path = "a\u{7f}\u{85}\u{61c}\u{200f}\u{2028}\u{2029}\u{202e}\u{2066}\u{e9}";
    let event = Event::OperatorRefused {
        request: &request(),
        path,
        reason: "missing_token",
    };
    let line = Line::of(&event, &ids()).unwrap();
    let now = ManualClock::at(Duration::ZERO).now();
    let text = String::from_utf8(line.to_json(now)).unwrap();
    let shown = |character: char| matches!(character, ' '..='~' | '\u{e9}' | '\n');
    assert!(text.chars().all(shown), "{text:?}");
    assert_eq!(json_of(&line)["path"], path);
}

#[test]
fn identifiers_in_the_documentation_are_right() {
    let key = key(b"an-example-of-a-key-that-is-not-secret");
    let lines = [
        key.account("Alice@example.test").to_string(),
        key.session(&session_id().to_string()).to_string(),
        key.network(client("203.0.113.9").network()).to_string(),
    ];
    assert!(DOCUMENTATION.contains(&lines.join("\n")), "{lines:?}");
}

#[test]
fn addresses_are_in_clear_only_if_the_settings_say_so() {
    let mut ids = ids();
    let shown = |ids: &Identifiers| {
        let event = Event::LoginLimitsReset {
            request: &request(),
            email: "Alice@example.test",
            network: None,
            is_done: true,
        };
        line_of(&event, ids)
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
    assert_eq!(log.metrics.families.audit_lines.get(), 6);
    assert_eq!(log.metrics.families.audit_lines_lost.get(), 0);
}

/// A file has its name on the disk only after `fsync` of its folder, for which the folder is opened.
#[cfg(target_os = "linux")]
#[test]
fn folder_of_a_new_file_is_opened_for_fsync_if_the_log_fails_closed() {
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    for fail_closed in [false, true] {
        let events = init(CreateFlags::NONBLOCK).unwrap();
        let mut log = TestLog::open(fail_closed, |folder| {
            add_watch(&events, folder, WatchFlags::OPEN).unwrap();
            in_folder(folder)
        });
        assert_eq!(opened_folders(&events), usize::from(fail_closed));
        fs::rename(log.path("audit.log"), log.path("audit.log.1")).unwrap();
        log.record(1);
        log.close();
        assert_eq!(log.counts("audit.log"), [1]);
        assert_eq!(opened_folders(&events), usize::from(fail_closed));
    }
}

/// How often a watched folder itself was opened since the last call.
#[cfg(target_os = "linux")]
fn opened_folders(events: &std::os::fd::OwnedFd) -> usize {
    use rustix::fs::inotify::{ReadFlags, Reader};
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(events, &mut buffer);
    let mut count = 0;
    while let Ok(event) = reader.next() {
        count += usize::from(event.events().contains(ReadFlags::ISDIR));
    }
    count
}

fn files_mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn line_that_cannot_be_written_is_kept_and_written_later() {
    let mut log = TestLog::open(true, in_folder);
    log.write(1).await.unwrap();
    assert!(log.log.admit().is_ok());
    // A folder in its place: the file cannot be opened.
    fs::rename(log.path("audit.log"), log.path("audit.log.1")).unwrap();
    fs::create_dir(log.path("audit.log")).unwrap();
    assert_eq!(log.write(2).await, Err(Unwritable));
    assert!(log.log.admit().is_err());
    assert_eq!(log.metrics.families.audit_unwritable.get(), 1);
    log.record(3);
    fs::remove_dir(log.path("audit.log")).unwrap();
    log.write(4).await.unwrap();
    assert!(log.log.admit().is_ok());
    assert_eq!(log.metrics.families.audit_unwritable.get(), 0);
    log.close();
    assert_eq!(log.counts("audit.log.1"), [1]);
    assert_eq!(log.counts("audit.log"), [2, 3, 4]);
    assert_eq!(log.metrics.families.audit_lines_lost.get(), 0);
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
    for (is_renamed, lost, expected) in [
        (false, 0, vec![1, 2]),
        (true, 0, vec![1, 2]),
        (false, 7, vec![1, 7, 2]),
    ] {
        let mut log = TestLog::open(true, in_folder);
        // If lines were lost, the error is in the line about them, which follows the first one.
        log.metrics.families.audit_lines_lost.inc_by(lost);
        let first_line = Line::lines_lost(1).to_json(log.clock.now());
        let whole = if lost > 0 { first_line.len() as u64 } else { 0 };
        let start = LIMIT - 10 - whole;
        let file = fs::OpenOptions::new()
            .write(true)
            .open(log.path("audit.log"));
        file.unwrap().set_len(start).unwrap();
        let limited = Rlimit {
            current: Some(LIMIT),
            ..before
        };
        setrlimit(Resource::Fsize, limited).unwrap();
        log.record(1);
        let unwritable = &log.metrics.families.audit_unwritable;
        until("the error", async || unwritable.get() == 1).await;
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
            file.seek(SeekFrom::Start(start)).unwrap();
        }
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(counts(&text), expected, "{is_renamed} {lost}");
    }
}

#[tokio::test]
async fn unfinished_line_of_an_earlier_process_or_of_a_file_put_in_place_is_ended_before_the_next_one()
 {
    const UNFINISHED: &str = "{\"schema\":1,\"ti";
    let mut log = TestLog::open(true, |folder| {
        let file = in_folder(folder);
        fs::write(&file, UNFINISHED).unwrap();
        file
    });
    let text = |log: &TestLog| fs::read_to_string(log.path("audit.log")).unwrap();
    assert_eq!(
        text(&log),
        UNFINISHED,
        "a full disk does not prevent a start"
    );
    log.write(1).await.unwrap();
    log.write(2).await.unwrap();
    let other = log.path("other.log");
    fs::write(&other, UNFINISHED).unwrap();
    let (unfinished, rest) = text(&log)
        .split_once('\n')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    assert_eq!((&*unfinished, counts(&rest)), (UNFINISHED, vec![1, 2]));
    fs::rename(&other, log.path("audit.log")).unwrap();
    log.write(3).await.unwrap();
    log.close();
    let text = text(&log);
    let (unfinished, rest) = text.split_once('\n').unwrap();
    assert_eq!((unfinished, counts(rest)), (UNFINISHED, vec![3]));
}

#[tokio::test]
async fn full_disk_refuses_an_operation_only_if_the_log_fails_closed() {
    let mut open = TestLog::open(false, |_| "/dev/full".into());
    assert_eq!(open.write(1).await, Ok(()));
    assert!(open.log.admit().is_ok());
    open.close();
    assert_eq!(open.metrics.families.audit_lines_lost.get(), 1);

    let mut closed = TestLog::open(true, |_| "/dev/full".into());
    assert_eq!(closed.write(1).await, Err(Unwritable));
    assert!(closed.log.admit().is_err());
    closed.close();
    assert_eq!(closed.metrics.families.audit_lines_lost.get(), 1);
    assert_eq!(closed.metrics.families.audit_lines.get(), 0);
}

#[tokio::test]
async fn lost_lines_are_counted_and_reported_by_a_line_when_writing_works_again() {
    let mut log = TestLog::open(false, in_folder);
    log.record(0);
    // Until it is open and written, so that the next batch fails.
    while log.metrics.families.audit_lines.get() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    fs::rename(log.path("audit.log"), log.path("audit.log.1")).unwrap();
    fs::create_dir(log.path("audit.log")).unwrap();
    log.record(1);
    while log.metrics.families.audit_unwritable.get() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let length = Line::lines_lost(2).to_json(log.clock.now()).len();
    let room = crate::telemetry::json_lines::BACKLOG_BYTES / length;
    for _ in 0..room + 7 {
        log.record(2);
    }
    assert_eq!(log.metrics.families.audit_lines_lost.get(), 7);
    fs::remove_dir(log.path("audit.log")).unwrap();
    log.close();
    let counts = log.counts("audit.log");
    assert_eq!(counts.iter().filter(|count| **count == 2).count(), room);
    assert_eq!(counts.last(), Some(&7));
    assert_eq!(log.metrics.families.audit_lines.get(), room as u64 + 2);
}

#[test]
fn stop_waits_for_the_lines_in_a_file_without_a_deadline_and_for_standard_output_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let deadline = |destination| {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Duration::ZERO));
        let progress = Arc::new(Progress::new(Arc::new(Metrics::new(&[]))));
        let output = Output::open(destination, false, clock, progress).unwrap();
        output.final_deadline()
    };
    assert_eq!(deadline(Destination::File(in_folder(folder.path()))), None);
    assert!(deadline(Destination::Stdout).is_some());
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
    let log = AuditLog::new(&settings, key(KEY), clock, Arc::new(Metrics::new(&[])));
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

/// An operator call from this address is refused.
fn refuse_operator(log: &TestLog, address: impl Into<IpAddr>, reason: &'static str) {
    log.log.on_event(&Event::OperatorRefused {
        request: &request_of(address.into()),
        path: "/",
        reason,
    });
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
    let (request, corp, session) = (request(), Arc::from("corp"), new_session());
    let limited = too_many(Limit::Address);
    let wrong = GatewayError::Refused(Refusal::InvalidCredentials);
    let full = GatewayError::NotReady(NotReady::TooManyRevocations);
    let malformed = GatewayError::InvalidSession(InvalidSession::Malformed);
    let signature = GatewayError::InvalidLogoutToken(InvalidLogoutToken::Signature);
    let log_in = |iam, result| {
        let end = LoginEnd::Decided(result);
        log.log.on_event(&login(&request, iam, end));
    };
    let empty_password = Event::Login {
        request: &request,
        account: Some((ALICE, key(KEY).account(ALICE))),
        iam: Some(&corp),
        reaches_iam: false,
        end: LoginEnd::Decided(Err(&wrong)),
    };
    for _ in 0..1000 {
        log.log.on_event(&Event::Logout {
            request: &request,
            session: None,
            result: Some(Err(&malformed)),
        });
        log.log.on_event(&Event::LogoutToken {
            request: &request,
            iam: None,
            result: Err(&signature),
        });
        log_in(None, Err(&limited));
        log_in(Some(&corp), Err(&limited));
        log_in(Some(&corp), Err(&full));
        log_in(None, Err(&wrong));
        log.log.on_event(&empty_password);
        refuse_operator(&log, [192, 0, 2, 1], "missing_token");
    }
    // Of each of these, every line counts: limits bound the first, and the second is a success.
    for _ in 0..3 {
        log_in(Some(&corp), Err(&wrong));
        log_in(Some(&corp), Ok(&session));
    }
    log.log.write_sums();
    log.log.write_sums();
    let (names, sums) = refusal_lines(&mut log);
    let mut expected = vec![
        "logout_token",
        "login",
        "login",
        "login",
        "login",
        "operator_refused",
    ];
    expected.extend(["login"; 6]);
    assert_eq!(names, expected);
    let refused = serde_json::json!({
        "login": {
            "invalid_credentials": 999,
            "rate_limited": 1999,
            "revocations_full": 999,
            "unknown_domain": 999,
        },
        "logout": {"malformed": 1000},
        "logout_token": {"signature": 999},
        "operator_refused": {"missing_token": 999},
    });
    assert_eq!(sums, [(Value::from(7994), refused)]);
}

#[tokio::test]
async fn first_refusal_of_each_interval_has_a_line() {
    let mut log = TestLog::open(false, in_folder);
    for _ in 0..2 {
        refuse_operator(&log, [192, 0, 2, 1], "missing_token");
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
                refuse_operator(&log, host.to_be_bytes(), reason);
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

#[tokio::test]
async fn log_without_a_destination_refuses_nothing() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Duration::ZERO));
    let off = AuditSettings {
        fail_closed: true,
        ..AuditSettings::default()
    };
    let log = AuditLog::new(&off, key(KEY), clock, Arc::new(Metrics::new(&[])));
    assert!(log.open().unwrap().is_none());
    log.on_event(&Event::Stopped);
    assert_eq!(log.admit().unwrap().written().await, Ok(()));
}

#[test]
fn login_without_an_iam_is_of_an_unknown_domain_and_one_without_an_end_is_unknown() {
    let (request, iam, session) = (request(), Arc::from("corp"), new_session());
    let refused = GatewayError::Refused(Refusal::InvalidCredentials);
    let account = key(KEY).account(ALICE).to_string();
    for (iam, end, expected) in [
        (
            Some(&iam),
            LoginEnd::Decided(Ok(&session)),
            ["success", "", "corp", "alice"],
        ),
        (
            Some(&iam),
            LoginEnd::Withdrawn(&session),
            ["failed", "audit_log_unwritable", "corp", "alice"],
        ),
        (
            Some(&iam),
            LoginEnd::Decided(Err(&refused)),
            ["refused", "invalid_credentials", "corp", ""],
        ),
        (
            None,
            LoginEnd::Decided(Err(&refused)),
            ["refused", "unknown_domain", "", ""],
        ),
        (
            Some(&iam),
            LoginEnd::Unknown,
            ["unknown", "client_disconnected", "", ""],
        ),
    ] {
        let line = line_of(&login(&request, iam, end), &ids());
        let shown = ["outcome", "reason", "iam", "subject"];
        let shown = shown.map(|member| line[member].as_str().unwrap_or_default());
        assert_eq!(shown, expected);
        assert_eq!(line["account"], *account);
        assert_eq!(line["request_id"], request.id.as_str());
        assert_eq!(line.get("session").is_some(), !shown[3].is_empty());
    }
}

#[test]
fn logout_whose_client_does_not_wait_has_a_line_with_its_session() {
    let logged_out = LoggedOut {
        session_id: session_id(),
        sub: "alice".to_owned(),
        iam: "corp".into(),
    };
    let event = Event::Logout {
        request: &request(),
        session: Some(&logged_out),
        result: None,
    };
    let line = line_of(&event, &ids());
    assert_eq!(line["outcome"], "unknown");
    assert_eq!(line["reason"], "client_disconnected");
    assert_eq!(line["subject"], "alice");
}
