//! `check`: tests the settings and, with `--online`, the IAM.

mod explain;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use iam_adapters::name::Name as _;
use iam_adapters::{ClientContext, Credentials, IamAdapter, IamError, Scope, abandoned};
use secrecy::ExposeSecret as _;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::{Exit, runtime};
use crate::config::{IamOptions, InvalidSettings, Settings};
use crate::health::{Reason, ReasonCode};
use crate::http::AppState;
use crate::startup::{self, ServiceDependencies};
use auth_gateway_core::Gateway;
use auth_gateway_core::KeyWarning;
use auth_gateway_core::iams::Iam;
use auth_gateway_core::replica_state::Replicas;
use auth_gateway_core::request::RequestContext;
use auth_gateway_core::session;
use explain::{Explanation, rights};

/// The test account with which `--online` logs in, exchanges the session and logs out.
const EMAIL_VARIABLE: &str = "AUTH_GATEWAY_CHECK_EMAIL";
const PASSWORD_VARIABLE: &str = "AUTH_GATEWAY_CHECK_PASSWORD";

/// An account that exists at no IAM, because no address has this domain (RFC 2606).
const MADE_UP_EMAIL: &str = "auth-gateway-check@example.invalid";
const MADE_UP_PASSWORD: &str = "not-a-password";

/// The result of a check that found no problem: before the summary, or after the calls of `--online`.
const CONFIRMATION: &str = "configuration ok";

/// Writes a summary of the settings, or all problems of the settings and the files that they name.
/// `online` tests the IAM too, and then explains these scopes of the test account.
pub(super) fn check(
    prepared: Result<(Settings, ServiceDependencies), InvalidSettings>,
    online: bool,
    explain: &[String],
    environment: &BTreeMap<String, String>,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let valid = prepared.and_then(|(settings, parts)| {
        // A gateway starts with such a certificate: while others run on with it, a restart must not be worse.
        let certificate = parts.tls.as_deref();
        match certificate.and_then(|tls| tls.problem(parts.clock.now())) {
            None => Ok((settings, parts)),
            Some(problem) => Err(InvalidSettings {
                problems: vec![format!("http.tls.certificate_file: {problem}")],
            }),
        }
    });
    let (settings, parts) = match valid {
        Ok(valid) => valid,
        Err(invalid) => {
            writeln!(out, "{invalid}")?;
            return Ok(Exit::Configuration);
        }
    };
    if !online {
        writeln!(out, "{CONFIRMATION}")?;
    }
    let mut report = CheckReport(out);
    report.summary(&settings, &parts)?;
    if !online {
        return Ok(Exit::Ok);
    }
    let deadlines = settings.iams.iter();
    let deadlines = deadlines.map(|iam| iam.upstream.logout_deadline);
    let logout_deadline = deadlines.max().unwrap_or_default();
    let account = environment
        .get(EMAIL_VARIABLE)
        .zip(environment.get(PASSWORD_VARIABLE));
    let passed = runtime()?.block_on(async {
        let passed = call(&settings, &parts, account, explain, &mut report).await;
        // A failed login ends its session in a task, which ends with the runtime.
        let _ = timeout(logout_deadline, abandoned::calls_ended()).await;
        passed
    })?;
    if !passed {
        return Ok(Exit::Unavailable);
    }
    writeln!(out, "{CONFIRMATION}")?;
    Ok(Exit::Ok)
}

/// Probes every IAM and Redis, makes each call of a user's session if all of them respond, and reports
/// the results. Returns whether every call succeeded.
async fn call(
    settings: &Settings,
    parts: &ServiceDependencies,
    account: Option<(&String, &String)>,
    scopes: &[String],
    report: &mut CheckReport<'_>,
) -> io::Result<bool> {
    // Without the other replicas: no replication runs here that would receive their revocations, for which a
    // gateway with replicas waits before it issues tokens.
    let alone = ServiceDependencies {
        replicas: Replicas::default(),
        ..parts.clone()
    };
    let AppState {
        gateway, health, ..
    } = startup::connect(settings, &alone);
    // One IAM needs no name.
    let name_of = |iam: &Iam| match &*settings.iams {
        [_] => String::new(),
        _ => format!("{} ", iam.name()),
    };
    let mut all_respond = true;
    for iam in gateway.iams.iter() {
        let adapter = &iam.adapter;
        let probed = adapter.probe().await;
        let responds = probed.map(|()| format!("responds, as {}", adapter.issuer()));
        all_respond &= report.result("IAM", &name_of(iam), responds)?;
    }
    let now = parts.clock.now();
    let mut wrong_clocks = health.report(now).reasons;
    wrong_clocks.retain(|reason| reason.code == ReasonCode::ClockWrong);
    if let Some((redis, _)) = &parts.replication {
        let probed = redis.probe(&parts.keys, &*parts.clock).await;
        let responds = probed.map(|(offset, warning)| {
            wrong_clocks.extend(Reason::of_clock("Redis", offset));
            let warning = warning.map(|warning| format!("; warning: {warning}"));
            let warning = warning.unwrap_or_default();
            format!("responds, and stores what is written{warning}")
        });
        all_respond &= report.result("Redis", "", responds)?;
        for warning in parts.keys.warnings(now) {
            if matches!(warning, KeyWarning::Missing { is_here: true, .. }) {
                all_respond = report.failure("keys", warning)?;
            }
        }
    }
    for wrong in &wrong_clocks {
        report.line("clock", &wrong.message)?;
    }
    if !all_respond {
        return Ok(false);
    }
    let mut passed = wrong_clocks.is_empty();
    let with_logins = gateway.iams.iter();
    for iam in with_logins.filter(|iam| iam.policy.allows_logins) {
        let refused = try_made_up_account(&*iam.adapter).await;
        let refused = refused.map(|()| "ok, of a made-up account");
        passed &= report.result("refusal", &name_of(iam), refused)?;
    }
    // The logout of the test account is a better test.
    let tested = account.and_then(|(email, _)| gateway.iams.for_login(email));
    for iam in gateway.iams.iter() {
        if tested.is_none_or(|tested| tested.name() != iam.name())
            && let Err(problem) = iam.adapter.probe_logout().await
        {
            passed = report.failure("logout", format_args!("{}{problem:#}", name_of(iam)))?;
        }
    }
    let Some((email, password)) = account else {
        let how = format!("set {EMAIL_VARIABLE} and {PASSWORD_VARIABLE} to a test account");
        report.line("login", format_args!("not tried: {how}"))?;
        return Ok(passed);
    };
    let session = match Credentials::new(email.clone(), password.as_str().into()) {
        Ok(credentials) => {
            run_session(&gateway, settings, parts, &credentials, scopes, report).await?
        }
        Err(error) => report.failure(
            "login",
            format_args!("{EMAIL_VARIABLE}, {PASSWORD_VARIABLE}: {error}"),
        )?,
    };
    Ok(passed && session)
}

/// Logs in with a made-up account. A refusal that the adapter does not understand would make every wrong
/// password a backend error.
async fn try_made_up_account(adapter: &dyn IamAdapter) -> Result<(), String> {
    let made_up = Credentials::new(MADE_UP_EMAIL.to_owned(), MADE_UP_PASSWORD.into());
    let made_up = made_up.map_err(|error| error.to_string())?;
    match adapter
        .authenticate(&made_up, &ClientContext::default())
        .await
    {
        Err(IamError::Refused(_)) => Ok(()),
        Err(fault) => Err(format!("a made-up account is not refused: {fault:#}")),
        Ok(begun) => {
            // The problem is the same if this fails.
            drop(adapter.end_session(&begun.session).await);
            Err("a made-up account can log in".to_owned())
        }
    }
}

/// Logs the test account in, exchanges its session, logs it out and explains the scopes. Returns whether
/// every call succeeded. The results are written after the calls, because an output that is closed would leave the
/// session at the IAM.
async fn run_session(
    gateway: &Gateway,
    settings: &Settings,
    parts: &ServiceDependencies,
    credentials: &Credentials,
    scopes: &[String],
    report: &mut CheckReport<'_>,
) -> io::Result<bool> {
    let request = &RequestContext::default();
    let session = match gateway.log_in(request, credentials).await {
        Ok(session) => session,
        Err(error) => return report.failure("login", anyhow::Error::from(error)),
    };
    let id = session.session_id.to_string();
    let token = session.session_token.expose_secret();
    let exchanged = gateway.exchange(request, &id, token, Scope::EMPTY).await;
    let has_exchanged = exchanged.is_ok();
    let iam = gateway.iams.for_login(credentials.email());
    let mut sections = settings.iams.iter().zip(&parts.iams);
    let section = sections.find(|(section, _)| iam.is_some_and(|iam| iam.name() == section.name));
    let mut buffer = Zeroizing::default();
    let opened = session::open(&parts.keys.sealing.key_set(), token, &mut buffer).ok();
    let upstream = opened.and_then(|session| session.upstream());
    let source = (parts.permission_source.as_ref()).map(|source| source.load_full());
    let source = source.as_deref();
    let explained = match (iam, section, upstream) {
        (Some(iam), Some((section, adapter)), Some(upstream)) if has_exchanged => {
            let rights = rights(iam, section, &**adapter.load_full(), source, &upstream).await;
            Some(rights.map(|rights| Explanation {
                rights,
                iam,
                section,
                source,
            }))
        }
        _ => None,
    };
    // Also after a failed exchange: else the session would stay at the IAM.
    let logged_out = gateway.log_out(request, &id, token).await;
    let lifetime = session.expires_at.saturating_sub(session.verified_at);
    report.line(
        "login",
        format_args!("ok, the session expires in {lifetime} s"),
    )?;
    let exchanged = exchanged.map(|exchanged| {
        let lifetime = exchanged.token.expires_in;
        format!("ok, a token for {lifetime} s")
    });
    report.result("exchange", "", exchanged.map_err(anyhow::Error::from))?;
    let logged_out = logged_out.map(|()| "ok").map_err(anyhow::Error::from);
    if !report.result("logout", "", logged_out)? {
        return Ok(false);
    }
    match explained {
        None => Ok(has_exchanged),
        Some(Ok(explanation)) => explanation.write(scopes, report).map(|()| true),
        Some(Err(fault)) => report.failure("permissions", fault),
    }
}

/// The lines of the check, each with a label.
struct CheckReport<'a>(&'a mut dyn Write);

impl CheckReport<'_> {
    fn line(&mut self, label: &str, text: impl Display) -> io::Result<()> {
        writeln!(self.0, "  {label:<14}{text}")
    }

    /// Returns `false`, the result of the check.
    fn failure(&mut self, label: &str, problem: impl Display) -> io::Result<bool> {
        self.line(label, format_args!("{problem:#}"))?;
        Ok(false)
    }

    /// Writes the result of a call about the IAM with this name. Returns whether it succeeded.
    fn result(
        &mut self,
        label: &str,
        name: &str,
        result: Result<impl Display, impl Display>,
    ) -> io::Result<bool> {
        match result {
            Ok(text) => self
                .line(label, format_args!("{name}{text}"))
                .map(|()| true),
            Err(problem) => self.failure(label, format_args!("{name}{problem:#}")),
        }
    }

    fn summary(&mut self, settings: &Settings, parts: &ServiceDependencies) -> io::Result<()> {
        let http = &settings.http;
        self.line("environment", settings.environment.name())?;
        for (iam, adapter) in settings.iams.iter().zip(&parts.iams) {
            if settings.iams.len() > 1 {
                self.line("IAM", iam.name.clone() + &logins(&iam.options))?;
            }
            self.line("IAM adapter", iam.adapter.name())?;
            let capabilities = adapter.load().capabilities();
            self.line("capabilities", capabilities)?;
            for limitation in capabilities.limitations() {
                self.line("", limitation)?;
            }
        }
        let (scheme, issuer) = (http.scheme(), http.public_url.issuer());
        let management = settings.management.listen;
        self.line(
            "public",
            format_args!("{scheme}://{} as {issuer}", http.listen),
        )?;
        self.line("management", format_args!("http://{management}"))?;
        for (label, directory) in [
            ("signing keys", &settings.keys.signing_dir),
            ("sealing keys", &settings.keys.sealing_dir),
        ] {
            let directory = directory.as_deref().map(Path::to_string_lossy);
            self.line(label, directory.unwrap_or("made at start".into()))?;
        }
        Ok(())
    }
}

/// Which logins go to an IAM that is not the only one.
fn logins(options: &IamOptions) -> String {
    if !options.login {
        return ", no logins".to_owned();
    }
    let other = options.default.then_some("all other domains");
    let domains = options.domains.iter().map(String::as_str);
    let domains: Vec<_> = domains.chain(other).collect();
    format!(", logins of {}", domains.join(", "))
}
