//! What `check` can tell without a network.

use std::io::{self, Write};
use std::path::Path;

use super::Exit;
use crate::config::{InvalidSettings, Settings};

/// Tells whether the settings can be used, and in short what they come to, or all that is wrong
/// with them.
///
/// # Errors
///
/// Where the text cannot be written.
pub fn check(
    settings: &Result<Settings, InvalidSettings>,
    out: &mut dyn Write,
) -> io::Result<Exit> {
    match settings {
        Ok(settings) => {
            write_summary(settings, out)?;
            Ok(Exit::Ok)
        }
        Err(invalid) => {
            writeln!(out, "{invalid}")?;
            Ok(Exit::Configuration)
        }
    }
}

fn write_summary(settings: &Settings, out: &mut dyn Write) -> io::Result<()> {
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
