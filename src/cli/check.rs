//! `check`: tests the settings and, with `--online`, the IAM.

mod explain;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use iam_adapters::{ClientContext, Credentials, IamAdapter as _, Scope, abandoned};
use secrecy::ExposeSecret as _;
use tokio::time::timeout;

use super::Exit;
use crate::config::{InvalidSettings, Settings};
use crate::startup::{self, Parts};

/// The test account with which `--online` logs in, exchanges the session and logs out.
const EMAIL_VARIABLE: &str = "AUTH_GATEWAY_CHECK_EMAIL";
const PASSWORD_VARIABLE: &str = "AUTH_GATEWAY_CHECK_PASSWORD";

/// Writes a summary of the settings, or all problems of the settings and the files that they name.
/// `online` tests the IAM too, and then explains these scopes of the test account.
///
/// # Errors
///
/// If the text cannot be written, or no runtime can be started.
pub(super) fn check(
    prepared: Result<(Settings, Parts), InvalidSettings>,
    online: bool,
    explain: &[String],
    environment: &BTreeMap<String, String>,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let (settings, parts) = match prepared {
        Ok(prepared) => prepared,
        Err(invalid) => {
            writeln!(out, "{invalid}")?;
            return Ok(Exit::Configuration);
        }
    };
    write_summary(&settings, &parts, out)?;
    if !online {
        return Ok(Exit::Ok);
    }
    let account = environment
        .get(EMAIL_VARIABLE)
        .zip(environment.get(PASSWORD_VARIABLE));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let logout_deadline = settings.upstream.limits().logout.deadline;
    let walked = runtime.block_on(async {
        let walked = walk(&settings, &parts, account, explain, out).await;
        // A failed login ends its session in a task, which ends with the runtime.
        let _ = timeout(logout_deadline, abandoned::calls_ended()).await;
        walked
    })?;
    Ok(match walked {
        Ok(()) => Exit::Ok,
        Err(failed) => {
            writeln!(out, "  {failed}")?;
            Exit::Unavailable
        }
    })
}

/// Makes each call of a user's session, and writes its result. The inner error is that of the IAM or
/// of Redis.
async fn walk(
    settings: &Settings,
    parts: &Parts,
    account: Option<(&String, &String)>,
    scopes: &[String],
    out: &mut dyn Write,
) -> io::Result<Result<(), String>> {
    let startup::Connected { gateway, iam, .. } = startup::connect(settings, parts);
    if let Err(fault) = iam.probe().await {
        return Ok(Err(format!("IAM           {fault}")));
    }
    writeln!(out, "  IAM           answers, as {}", iam.issuer())?;
    if let Some(redis) = &parts.redis {
        match redis.probe().await {
            Ok(None) => writeln!(out, "  Redis         responds, and stores what is written")?,
            Ok(Some(warning)) => writeln!(
                out,
                "  Redis         responds, and stores what is written; warning: {warning}"
            )?,
            Err(fault) => return Ok(Err(format!("Redis         {fault}"))),
        }
    }
    let Some((email, password)) = account else {
        writeln!(
            out,
            "  login         not tried: set {EMAIL_VARIABLE} and {PASSWORD_VARIABLE} to a test account"
        )?;
        return Ok(Ok(()));
    };
    let credentials = match Credentials::new(email.clone(), password.as_str().into()) {
        Ok(credentials) => credentials,
        Err(error) => return Ok(Err(format!("login         {EMAIL_VARIABLE}: {error}"))),
    };
    let session = match gateway
        .log_in(&credentials, &ClientContext::default())
        .await
        .result
    {
        Ok(session) => session,
        Err(error) => {
            return Ok(Err(format!(
                "login         {:#}",
                anyhow::Error::from(error)
            )));
        }
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
    let everything = gateway.exchange(&id, token, Scope::EMPTY, "check").await;
    match everything {
        Ok(exchanged) => writeln!(
            out,
            "  exchange      ok, a token for {} s",
            exchanged.token.expires_in
        )?,
        Err(error) => {
            return Ok(Err(format!(
                "exchange      {:#}",
                anyhow::Error::from(error)
            )));
        }
    }
    match gateway.log_out(&id, token).await {
        Ok(()) => writeln!(out, "  logout        ok")?,
        Err(error) => {
            return Ok(Err(format!(
                "logout        {:#}",
                anyhow::Error::from(error)
            )));
        }
    }
    if scopes.is_empty() {
        return Ok(Ok(()));
    }
    let explained = explain::explain(parts, &credentials, scopes, out).await?;
    Ok(explained.map_err(|fault| format!("scopes        {fault}")))
}

fn write_summary(settings: &Settings, parts: &Parts, out: &mut dyn Write) -> io::Result<()> {
    let http = &settings.http;
    let tls = if http.tls.files().is_some() {
        "https"
    } else {
        "http"
    };
    let issuer = http.public_url.issuer();
    writeln!(out, "configuration ok")?;
    writeln!(out, "  environment   {}", settings.environment.name())?;
    writeln!(out, "  IAM adapter   {}", settings.iam.name())?;
    writeln!(out, "  capabilities  {}", parts.iam.capabilities())?;
    writeln!(out, "  public        {tls}://{} as {issuer}", http.listen)?;
    writeln!(out, "  management    http://{}", settings.management.listen)?;
    let made = "made at start";
    let signing = if settings
        .iam
        .public_credentials()
        .signing_key_set_by
        .is_some()
    {
        "the published one"
    } else {
        made
    };
    for (label, directory, otherwise) in [
        ("signing keys", &settings.keys.signing_dir, signing),
        ("sealing keys", &settings.keys.sealing_dir, made),
    ] {
        let origin = directory
            .as_deref()
            .map_or_else(|| otherwise.into(), Path::to_string_lossy);
        writeln!(out, "  {label}  {origin}")?;
    }
    Ok(())
}
