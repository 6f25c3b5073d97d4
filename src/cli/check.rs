//! `check`: tests the settings and, with `--online`, the IAM.

mod explain;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use iam_adapters::permission_source::PermissionSource;
use iam_adapters::{
    ClientContext, Credentials, IamAdapter, IamError, Scope, UpstreamSession, abandoned,
};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::Exit;
use crate::config::{IamOptions, IamSection, InvalidSettings, Settings};
use crate::health::{Reason, ReasonCode};
use crate::startup::{self, ServerCertificate, ServiceDependencies};
use auth_gateway_core::Gateway;
use auth_gateway_core::iams::Iam;
use auth_gateway_core::request::RequestContext;
use auth_gateway_core::session::open_from;
use auth_gateway_core::{KeyWarning, Keys};
use explain::{Rights, rights, write_lines};

/// The test account with which `--online` logs in, exchanges the session and logs out.
const EMAIL_VARIABLE: &str = "AUTH_GATEWAY_CHECK_EMAIL";
const PASSWORD_VARIABLE: &str = "AUTH_GATEWAY_CHECK_PASSWORD";

/// An account that exists at no IAM, because no address has this domain (RFC 2606).
const MADE_UP_EMAIL: &str = "auth-gateway-check@example.invalid";
const MADE_UP_PASSWORD: &str = "not-a-password";

/// What a check that found no problem says: before the summary, or after the calls of `--online`.
const CONFIRMATION: &str = "configuration ok";

/// Writes a summary of the settings, or all problems of the settings and the files that they name.
/// `online` tests the IAM too, and then explains these scopes of the test account.
///
/// # Errors
///
/// If the text cannot be written, or no runtime can be started.
pub(super) fn check(
    prepared: Result<(Settings, ServiceDependencies), InvalidSettings>,
    online: bool,
    explain: &[String],
    environment: &BTreeMap<String, String>,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let valid = prepared.and_then(|(settings, parts)| {
        // A gateway starts with such a certificate: while others run on with it, a restart must not be worse.
        let validity = parts.tls.as_deref().and_then(ServerCertificate::validity);
        match validity.and_then(|validity| validity.problem(parts.clock.now())) {
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
        write_summary(&settings, &parts, out)?;
        return Ok(Exit::Ok);
    }
    write_summary(&settings, &parts, out)?;
    let account = environment
        .get(EMAIL_VARIABLE)
        .zip(environment.get(PASSWORD_VARIABLE));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let deadlines = settings.iams.iter();
    let deadlines = deadlines.map(|iam| iam.upstream.logout_deadline);
    let logout_deadline = deadlines.max().unwrap_or_default();
    let passed = runtime.block_on(async {
        let passed = call(&settings, &parts, account, explain, out).await;
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

/// Probes every IAM and Redis, makes each call of a user's session if all of them respond, and writes
/// the results. Returns whether every call succeeded.
async fn call(
    settings: &Settings,
    parts: &ServiceDependencies,
    account: Option<(&String, &String)>,
    scopes: &[String],
    out: &mut dyn Write,
) -> io::Result<bool> {
    let startup::Service {
        gateway, health, ..
    } = startup::connect(settings, parts);
    // One IAM needs no name.
    let name_of = |iam: &Iam| match &*settings.iams {
        [_] => String::new(),
        _ => format!("{} ", iam.name()),
    };
    let mut all_respond = true;
    for iam in gateway.iams().iter() {
        let name = name_of(iam);
        let adapter = iam.adapter();
        match adapter.probe().await {
            Ok(()) => writeln!(
                out,
                "  IAM           {name}responds, as {}",
                adapter.issuer()
            )?,
            Err(fault) => {
                all_respond = false;
                writeln!(out, "  IAM           {name}{fault:#}")?;
            }
        }
    }
    let mut wrong_clocks = health.report(parts.clock.now()).reasons;
    wrong_clocks.retain(|reason| reason.code == ReasonCode::ClockWrong);
    if let Some((redis, _)) = &parts.replication {
        let now = parts.clock.now();
        match redis.probe(&parts.keys, &*parts.clock).await {
            Ok((offset, warning)) => {
                wrong_clocks.extend(Reason::of_clock("Redis", offset));
                let warning = warning.map(|warning| format!("; warning: {warning}"));
                let warning = warning.unwrap_or_default();
                writeln!(
                    out,
                    "  Redis         responds, and stores what is written{warning}"
                )?;
            }
            Err(fault) => {
                all_respond = false;
                writeln!(out, "  Redis         {fault}")?;
            }
        }
        for warning in parts.keys.warnings(now) {
            if matches!(warning, KeyWarning::Missing { is_here: true, .. }) {
                all_respond = false;
                writeln!(out, "  keys          {warning}")?;
            }
        }
    }
    for wrong in &wrong_clocks {
        writeln!(out, "  clock         {}", wrong.message)?;
    }
    if !all_respond {
        return Ok(false);
    }
    let mut passed = wrong_clocks.is_empty();
    for iam in gateway.iams().iter() {
        if !iam.policy().allows_logins {
            continue;
        }
        let (name, refused) = (name_of(iam), try_made_up_account(&**iam.adapter()).await);
        passed &= refused.is_ok();
        match refused {
            Ok(()) => writeln!(out, "  refusal       {name}ok, of a made-up account")?,
            Err(problem) => writeln!(out, "  refusal       {name}{problem}")?,
        }
    }
    // The logout of the test account is a better test.
    let tested = account.and_then(|(email, _)| gateway.iams().for_login(email));
    for iam in gateway.iams().iter() {
        if tested.is_none_or(|tested| tested.name() != iam.name())
            && let Err(problem) = iam.adapter().probe_logout().await
        {
            passed = false;
            writeln!(out, "  logout        {}{problem:#}", name_of(iam))?;
        }
    }
    let Some((email, password)) = account else {
        writeln!(
            out,
            "  login         not tried: set {EMAIL_VARIABLE} and {PASSWORD_VARIABLE} to a test account"
        )?;
        return Ok(passed);
    };
    let session = match Credentials::new(email.clone(), password.as_str().into()) {
        Ok(credentials) => {
            run_session(&gateway, settings, parts, &credentials, scopes, out).await?
        }
        Err(error) => Err(format!("login         {EMAIL_VARIABLE}: {error}")),
    };
    if let Err(failed) = &session {
        writeln!(out, "  {failed}")?;
    }
    Ok(passed && session.is_ok())
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

/// Logs the test account in, exchanges its session, logs it out and explains the scopes. The inner error
/// is the line about the call that failed.
async fn run_session(
    gateway: &Gateway,
    settings: &Settings,
    parts: &ServiceDependencies,
    credentials: &Credentials,
    scopes: &[String],
    out: &mut dyn Write,
) -> io::Result<Result<(), String>> {
    let failed = |call: &str, error| format!("{call:<14}{:#}", anyhow::Error::from(error));
    let request = &RequestContext::default();
    let session = match gateway.log_in(request, credentials).await {
        Ok(session) => session,
        Err(error) => return Ok(Err(failed("login", error))),
    };
    writeln!(
        out,
        "  login         ok, the session expires in {} s",
        session.expires_at.saturating_sub(session.verified_at)
    )?;
    let (id, token) = (
        session.session_id.to_string(),
        session.session_token.expose_secret(),
    );
    let everything = gateway.exchange(request, &id, token, Scope::EMPTY).await;
    match everything {
        Ok(exchanged) => writeln!(
            out,
            "  exchange      ok, a token for {} s",
            exchanged.token.expires_in
        )?,
        Err(error) => return Ok(Err(failed("exchange", error))),
    }
    let mut iams = gateway
        .iams()
        .iter()
        .zip(settings.iams.iter().zip(&parts.iams));
    let of_login = gateway.iams().for_login(credentials.email());
    let iam = iams.find(|(iam, _)| Some(iam.name()) == of_login.map(Iam::name));
    let source = parts.permission_source.as_ref().map(|source| source.get());
    let source = source.as_deref();
    let explained = match (iam, upstream_session(&parts.keys, token)) {
        (Some((iam, (section, adapter))), Some(upstream)) => {
            let rights = rights(iam, &*adapter.get(), source, &upstream).await;
            Some((iam, section, rights))
        }
        _ => None,
    };
    match gateway.log_out(request, &id, token).await {
        Ok(()) => writeln!(out, "  logout        ok")?,
        Err(error) => return Ok(Err(failed("logout", error))),
    }
    Ok(match explained {
        None => Ok(()),
        Some((iam, section, Ok(rights))) => {
            if let Some(line) = nothing_stated(section, &rights, source) {
                writeln!(out, "  {line}")?;
            }
            write_lines(scopes, &rights, iam, source, out)?;
            Ok(())
        }
        Some((_, _, Err(fault))) => Err(format!("permissions   {fault:#}")),
    })
}

/// The session at the IAM that a session token contains.
fn upstream_session(keys: &Keys, session_token: &str) -> Option<UpstreamSession> {
    let mut buffer = Zeroizing::default();
    let (session, _) = open_from(&keys.sealing, session_token, &mut buffer).ok()?;
    session.upstream()
}

/// The line about rights that the IAM does not state, with the setting that may be the cause; `None`: it
/// states some, or needs to state none.
fn nothing_stated(
    iam: &IamSection,
    rights: &Rights,
    source: Option<&PermissionSource>,
) -> Option<String> {
    let (what, names): (&str, &[&str]) = match source {
        None if rights.are_none_at_iam() => {
            ("permissions", &["permissions_client", "permissions_claim"])
        }
        Some(_) if rights.has_no_groups() => ("groups", &["groups_claim"]),
        _ => return None,
    };
    let settings = iam.adapter.json();
    let cause = names.iter().find_map(|name| {
        let value = settings.get(name).and_then(Value::as_str);
        let value = value.filter(|value| !value.is_empty())?;
        let key = iam.own_key(&format!("iam.{}.{name}", iam.adapter.name()));
        Some(match *name {
            "permissions_client" => {
                format!(
                    ": {key}: there is no client {value:?}, or the account has none of its roles"
                )
            }
            _ => format!(": {key}: the IAM states no {value:?}, or the account has none"),
        })
    });
    match (cause, source) {
        // A policy server need not use groups.
        (None, Some(PermissionSource::Http(..))) => None,
        (cause, _) => Some(format!(
            "{what:<14}none of the test account{}",
            cause.unwrap_or_default()
        )),
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

fn write_summary(
    settings: &Settings,
    parts: &ServiceDependencies,
    out: &mut dyn Write,
) -> io::Result<()> {
    let http = &settings.http;
    let tls = if http.tls.files().is_some() {
        "https"
    } else {
        "http"
    };
    let issuer = http.public_url.issuer();
    writeln!(out, "  environment   {}", settings.environment.name())?;
    for (iam, adapter) in settings.iams.iter().zip(&parts.iams) {
        if let [_, _, ..] = &*settings.iams {
            writeln!(out, "  IAM           {}{}", iam.name, logins(&iam.options))?;
        }
        writeln!(out, "  IAM adapter   {}", iam.adapter.name())?;
        let capabilities = adapter.get().capabilities();
        writeln!(out, "  capabilities  {capabilities}")?;
        for limitation in capabilities.limitations() {
            writeln!(out, "                {limitation}")?;
        }
    }
    writeln!(out, "  public        {tls}://{} as {issuer}", http.listen)?;
    writeln!(out, "  management    http://{}", settings.management.listen)?;
    for (label, directory) in [
        ("signing keys", &settings.keys.signing_dir),
        ("sealing keys", &settings.keys.sealing_dir),
    ] {
        let origin = directory
            .as_deref()
            .map_or_else(|| "made at start".into(), Path::to_string_lossy);
        writeln!(out, "  {label}  {origin}")?;
    }
    Ok(())
}
