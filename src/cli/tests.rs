use std::sync::Arc;

use arc_swap::ArcSwap;
use clap::CommandFactory as _;
use iam_adapters::clock::SystemClock;
use iam_adapters::resilient::Operation;
use iam_adapters::{IamAdapter, IamError, Refusal};
use test_support::scripted_iam::{Reply, ScriptedIam};

use super::config::ConfigCommand;
use super::keys::{FirstUse, GenerateKey, KeyTimes, KeyUse, ListKeys};
use super::revoke::{Restriction, Sessions};
use super::*;
use crate::config::sample::registry;
use crate::startup::ServiceDependencies;
use auth_gateway_core::keys::Algorithm;

/// The text of help or of an error, and whether it is an error.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stop {
    text: String,
    is_error: bool,
}

pub(super) fn parse_line(line: &str) -> Result<Command, Stop> {
    parse(line.split_whitespace().map(OsString::from)).map_err(|error| Stop {
        text: error.to_string(),
        is_error: error.use_stderr(),
    })
}

fn file(config: Option<&str>) -> ConfigFile {
    let config = config.map(PathBuf::from);
    ConfigFile { config }
}

fn serve(config: Option<&str>) -> Command {
    let config = file(config);
    Command::Serve(config)
}

fn check_command(config: Option<&str>, online: bool) -> Command {
    Command::Check {
        config: file(config),
        online,
        explain: Vec::new(),
    }
}

fn generate(
    purpose: Option<KeyUse>,
    algorithm: Option<Algorithm>,
    first_use: Option<FirstUse>,
) -> Command {
    Command::Keys(KeyCommand::Generate(GenerateKey {
        directory: "d".into(),
        purpose,
        algorithm,
        first_use,
    }))
}

#[test]
fn default_command_is_serve() {
    assert_eq!(parse_line("auth-gateway"), Ok(serve(None)));
    assert_eq!(parse_line("auth-gateway serve"), Ok(serve(None)));
    assert_eq!(parse_line("auth-gateway --config a"), Ok(serve(Some("a"))));
    assert_eq!(
        parse_line("auth-gateway serve --config=a"),
        Ok(serve(Some("a")))
    );
}

#[test]
fn environment_names_the_file_unless_an_argument_does() {
    for (argument, variable, expected) in [
        (None, None, None),
        (None, Some("b"), Some("b")),
        (Some("a"), Some("b"), Some("a")),
        (None, Some(""), None),
    ] {
        let environment = variable.map(|name: &str| (CONFIG_VARIABLE.to_owned(), name.to_owned()));
        let environment = environment.into_iter().collect();
        let file = file(argument);
        assert_eq!(file.path(&environment), expected.map(Path::new));
    }
}

#[test]
fn check_can_be_online() {
    assert_eq!(
        parse_line("auth-gateway check"),
        Ok(check_command(None, false))
    );
    assert_eq!(
        parse_line("auth-gateway check --online --config a"),
        Ok(check_command(Some("a"), true))
    );
}

#[test]
fn settings_are_shown_as_a_file_or_as_json() {
    for (arguments, config, json) in [("", None, false), (" --config a --json", Some("a"), true)] {
        let line = format!("auth-gateway config show{arguments}");
        let config = file(config);
        let expected = Command::Config(ConfigCommand::Show { config, json });
        assert_eq!(parse_line(&line), Ok(expected), "{line}");
    }
}

#[test]
fn scopes_are_explained_only_online() {
    let explain = |scopes: &[&str]| Command::Check {
        config: file(None),
        online: true,
        explain: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
    };
    assert_eq!(
        parse_line("auth-gateway check --online --explain a b"),
        Ok(explain(&["a", "b"]))
    );
    for line in [
        "auth-gateway check --explain a",
        "auth-gateway check --online --explain",
    ] {
        let refused = parse_line(line).unwrap_err();
        assert!(refused.is_error, "{line}: {}", refused.text);
    }
}

#[test]
fn use_algorithm_and_first_use_of_a_generated_key_are_optional() {
    let sealing = Some(KeyUse::Sealing);
    let at = "2030-01-31T12:00:00Z"
        .parse()
        .map(FirstUse::At)
        .expect("a time");
    for (arguments, command) in [
        ("--dir d", generate(None, None, None)),
        ("--dir d --use sealing", generate(sealing, None, None)),
        (
            "--dir d --alg ES256",
            generate(None, Some(Algorithm::Es256), None),
        ),
        (
            "--dir d --alg EdDSA",
            generate(None, Some(Algorithm::EdDsa), None),
        ),
        (
            "--dir d --alg RS256",
            generate(None, Some(Algorithm::Rs256), None),
        ),
        (
            "--dir d --first-use now",
            generate(None, None, Some(FirstUse::Now)),
        ),
        (
            "--dir d --first-use 2030-01-31T12:00:00Z",
            generate(None, None, Some(at)),
        ),
        (
            "--dir d --first-use 2030-01-31T13:00:00+01:00",
            generate(None, None, Some(at)),
        ),
    ] {
        let line = format!("auth-gateway keys generate {arguments}");
        assert_eq!(parse_line(&line), Ok(command), "{line}");
    }
    assert_eq!(
        parse_line("auth-gateway keys list --dir d"),
        Ok(Command::Keys(KeyCommand::List(ListKeys {
            directory: "d".into(),
            json: false,
            times: KeyTimes::default(),
        })))
    );
}

#[test]
fn sessions_to_revoke_are_one_those_of_a_subject_or_all() {
    let restriction = |time: Option<&str>| Restriction {
        begun_until: time.map(|time| time.parse().expect("a time")),
    };
    let noon = Some("2030-01-31T12:00:00Z");
    let session = |id: &str| Sessions::Session { id: id.to_owned() };
    let subject = |name: &str, time| Sessions::Subject {
        subject: name.to_owned(),
        restriction: restriction(time),
    };
    let all = |iam: Option<&str>, time| Sessions::All {
        iam: iam.map(str::to_owned),
        restriction: restriction(time),
    };
    for (arguments, sessions, config) in [
        ("session abc", session("abc"), None),
        // Session ids are random.
        ("session -h-_bc", session("-h-_bc"), None),
        ("session --abc --config a", session("--abc"), Some("a")),
        ("--config a session abc", session("abc"), Some("a")),
        ("session --config a abc", session("abc"), Some("a")),
        ("subject alice", subject("alice", None), None),
        (
            "subject alice --begun-until 2030-01-31T13:00:00+01:00",
            subject("alice", noon),
            None,
        ),
        (
            "subject --begun-until 1896091200 alice",
            subject("alice", noon),
            None,
        ),
        ("all", all(None, None), None),
        (
            "all --iam keycloak --begun-until=2030-01-31T12:00:00Z",
            all(Some("keycloak"), noon),
            None,
        ),
    ] {
        let line = format!("auth-gateway revoke {arguments}");
        let expected = Command::Revoke(Revoke {
            sessions,
            config: file(config),
        });
        assert_eq!(parse_line(&line), Ok(expected), "{line}");
    }
}

#[test]
fn invalid_arguments_are_a_configuration_error() {
    for line in [
        "auth-gateway revoke",
        "auth-gateway revoke session",
        "auth-gateway revoke session abc --begun-until 1",
        "auth-gateway revoke subject",
        "auth-gateway revoke subject alice --begun-until yesterday",
        "auth-gateway revoke subject alice --begun-until 2030-01-31",
        "auth-gateway revoke iam",
        "auth-gateway revoke all keycloak",
        "auth-gateway config",
        "auth-gateway config show a",
        "auth-gateway run",
        "auth-gateway --confg a",
        "auth-gateway --config",
        "auth-gateway --config a check",
        "auth-gateway --online",
        "auth-gateway serve --online",
        "auth-gateway keys",
        "auth-gateway keys list",
        "auth-gateway keys generate",
        "auth-gateway keys generate --dir d --alg HS256",
        "auth-gateway keys generate --dir d --alg none",
        "auth-gateway keys generate --dir d --use signing,sealing",
        "auth-gateway keys generate --dir d --use sealing --alg ES256",
        "auth-gateway keys generate --dir d --first-use tomorrow",
        "auth-gateway keys generate --dir d --first-use 2030-01-31",
    ] {
        let stop = parse_line(line).expect_err(line);
        assert!(stop.is_error, "{line}");
        assert!(!stop.text.is_empty(), "{line}");
    }
}

#[test]
fn help_has_the_purpose_first_steps_settings_and_exit_codes() {
    for line in [
        "auth-gateway --help",
        "auth-gateway -h",
        "auth-gateway help",
    ] {
        let stop = parse_line(line).expect_err(line);
        assert!(!stop.is_error, "{line}");
        for essential in [
            "gateway in front of an external identity system",
            "Usage: auth-gateway",
            "auth-gateway check --config FILE",
            "auth-gateway keys generate --dir DIR",
            "http://127.0.0.1:8080",
            "AUTH_GATEWAY_CONFIG",
            "AUTH_GATEWAY__HTTP__LISTEN",
            "deploy/auth-gateway.example.toml",
            "/usr/share/doc/auth-gateway",
            "README.md",
            "openapi.yaml",
        ] {
            assert!(stop.text.contains(essential), "{essential}\n{}", stop.text);
        }
        for exit in [
            Exit::Ok,
            Exit::Configuration,
            Exit::Unavailable,
            Exit::Internal,
        ] {
            let code = format!("\n  {:<2}  ", exit as u8);
            assert!(stop.text.contains(&code), "{code}\n{}", stop.text);
        }
        assert!(
            stop.text.lines().all(|line| line.chars().count() <= 100),
            "{}",
            stop.text
        );
    }
}

#[test]
fn version_is_printed() {
    let stop = parse_line("auth-gateway --version").expect_err("the version");
    assert_eq!(
        stop.text.trim(),
        concat!(
            "auth-gateway ",
            env!("CARGO_PKG_VERSION"),
            " (commit ",
            env!("AUTH_GATEWAY_COMMIT"),
            ")"
        )
    );
    assert!(!stop.is_error);
}

#[test]
fn definition_of_the_arguments_is_consistent() {
    Arguments::command().debug_assert();
}

fn check_with(variables: &[(&str, &str)]) -> (Exit, String) {
    let environment = variables
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let mut out = Vec::new();
    let exit = check::check(
        ServiceDependencies::load(
            None,
            &environment,
            &registry(),
            Arc::new(SystemClock::default()),
        ),
        false,
        &[],
        &environment,
        &mut out,
    )
    .expect("written");
    (exit, String::from_utf8(out).expect("text"))
}

#[test]
fn check_prints_a_summary_of_the_settings() {
    let (exit, text) = check_with(&[]);
    assert_eq!(exit, Exit::Ok, "{text}");
    assert_eq!(
        text,
        "configuration ok\n  \
         environment   development\n  \
         IAM adapter   sample\n  \
         capabilities  sessions at the IAM, current permissions, detects disabled and deleted accounts, \
         no back-channel logout, one-time passwords\n                \
         a session that ends at the IAM is refused only after the freshness of cached data\n  \
         public        http://127.0.0.1:8080 as http://localhost:8080\n  \
         management    http://127.0.0.1:9090\n  \
         signing keys  made at start\n  \
         sealing keys  made at start\n"
    );
}

/// A pipe whose reader ends after the line about the login.
#[derive(Default)]
struct ClosedAfterLogin(Vec<u8>);

impl Write for ClosedAfterLogin {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let has_login = String::from_utf8_lossy(&self.0).contains("\n  login ");
        if has_login && self.0.ends_with(b"\n") {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn session_of_the_test_account_ends_also_if_the_output_is_closed() {
    let account = [
        ("AUTH_GATEWAY_CHECK_EMAIL", "alice@example.test"),
        ("AUTH_GATEWAY_CHECK_PASSWORD", "alice-pass"),
    ];
    let account = account.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment = BTreeMap::from(account);
    let clock = Arc::new(SystemClock::default());
    let loaded = ServiceDependencies::load(None, &environment, &registry(), clock);
    let (settings, mut parts) = loaded.expect("settings");
    let iam = Arc::new(ScriptedIam::default());
    // For the made-up account.
    let refused = IamError::Refused(Refusal::InvalidCredentials);
    iam.script(Operation::Login, Reply::Fault(refused));
    let adapter: Arc<dyn IamAdapter> = Arc::<ScriptedIam>::clone(&iam);
    parts.iams = vec![Arc::new(ArcSwap::from_pointee(adapter))];
    let mut out = ClosedAfterLogin::default();
    let prepared = Ok((settings, parts));
    let ended = check::check(prepared, true, &[], &environment, &mut out);
    let error = ended.expect_err("the output is closed");
    assert!(error.is::<io::Error>(), "{error}");
    assert_eq!(iam.calls(Operation::Logout), 1);
}

#[test]
fn settings_file_that_is_not_toml_is_the_only_problem() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = "environment = \"production\"\n[iam.keycloak]\nurl = https://sso.example.com\n";
    std::fs::write(&file, text).expect("written");
    let clock = Arc::new(SystemClock::default());
    let registry = crate::config::Registry::default();
    let loaded = ServiceDependencies::load(Some(file.path()), &BTreeMap::new(), &registry, clock);
    let problems = loaded.expect_err("not TOML").problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("line 3 is not TOML"), "{problems:?}");
}

#[test]
fn check_prints_all_problems_together() {
    let (exit, text) = check_with(&[
        ("AUTH_GATEWAY__HTTP__LISTEN", "8080"),
        ("AUTH_GATEWAY__TOKEN__LIFETIME", "2d"),
    ]);
    assert_eq!(exit, Exit::Configuration, "{text}");
    assert_eq!(
        text,
        "the configuration cannot be used:\n  \
         - http.listen: invalid socket address syntax (set in AUTH_GATEWAY__HTTP__LISTEN)\n  \
         - token.lifetime: 2days is not within 1s and 1day (set in AUTH_GATEWAY__TOKEN__LIFETIME)\n"
    );
}
