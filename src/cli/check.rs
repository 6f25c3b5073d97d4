//! `check`: tests the settings and, with `--online`, the IAM.

mod explain;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use iam_adapters::trace::Context;
use iam_adapters::{ClientContext, Credentials, Scope, abandoned};
use secrecy::ExposeSecret as _;
use tokio::time::timeout;

use super::Exit;
use crate::config::{IamOptions, IamSection, InvalidSettings, Settings};
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
    let deadlines = settings.iams.iter();
    let deadlines = deadlines.map(|iam| iam.upstream(&settings.upstream).logout_deadline);
    let logout_deadline = deadlines.max().unwrap_or_default();
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
    let startup::Connected { gateway, .. } = startup::connect(settings, parts);
    for iam in gateway.iams().iter() {
        // One IAM needs no name.
        let name = match &*settings.iams {
            [_] => String::new(),
            _ => format!("{} ", iam.name()),
        };
        let adapter = iam.adapter();
        if let Err(fault) = adapter.probe().await {
            return Ok(Err(format!("IAM           {name}{fault}")));
        }
        writeln!(
            out,
            "  IAM           {name}answers, as {}",
            adapter.issuer()
        )?;
    }
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
    let attempt = gateway
        .log_in(&credentials, &ClientContext::default())
        .await;
    let session = match attempt.result {
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
    let everything = gateway
        .exchange(&id, token, Scope::EMPTY, "check", Context::new())
        .await;
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
    match gateway.log_out(&id, token, drop).await {
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
    let mut iams = gateway.iams().iter().zip(&parts.iams);
    let iam = iams.find(|(iam, _)| Some(iam.name()) == attempt.iam.as_deref());
    let Some((iam, adapter)) = iam else {
        return Ok(Ok(()));
    };
    let source = parts.permission_source.as_deref();
    let explained = explain::explain(iam, &**adapter, source, &credentials, scopes, out).await?;
    Ok(explained.map_err(|fault| format!("scopes        {fault}")))
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
    for (iam, adapter) in settings.iams.iter().zip(&parts.iams) {
        if let [_, _, ..] = &*settings.iams {
            writeln!(out, "  IAM           {}{}", iam.name, logins(&iam.options))?;
        }
        writeln!(out, "  IAM adapter   {}", iam.adapter.name())?;
        let capabilities = adapter.capabilities();
        writeln!(out, "  capabilities  {capabilities}")?;
        for limitation in capabilities.limitations() {
            writeln!(out, "                {limitation}")?;
        }
    }
    writeln!(out, "  public        {tls}://{} as {issuer}", http.listen)?;
    writeln!(out, "  management    http://{}", settings.management.listen)?;
    let made = "made at start";
    let is_published = |iam: &IamSection| {
        iam.adapter
            .public_credentials()
            .signing_key_set_by
            .is_some()
    };
    let signing = if settings.iams.iter().any(is_published) {
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
