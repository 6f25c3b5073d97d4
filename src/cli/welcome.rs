//! The welcome screen in development.

use std::fmt::Write as _;

use crate::config::Settings;
use crate::startup::Addresses;

/// The screen.
#[must_use]
pub(super) fn screen(settings: &Settings, addresses: Addresses) -> String {
    let scheme = if settings.http.tls.files().is_some() {
        "https"
    } else {
        "http"
    };
    let base = format!("{scheme}://{}", addresses.public);
    let management = format!("http://{}", addresses.management);
    let names: Vec<_> = settings.iams.iter().map(|iam| iam.name.as_str()).collect();
    let mut screen = format!(
        "\nauth-gateway {version}, in development mode. Not for real users.\n\n\
         API         {base}/api/v1/auth/{{login,token,logout}}\n\
         discovery   {base}/.well-known/oauth-authorization-server\n\
         described   {base}/openapi.yaml\n\
         management  {management}/health/ready  {management}/metrics\n\
         IAM         {iam}\n",
        version = env!("CARGO_PKG_VERSION"),
        iam = names.join(", "),
    );
    let is_published = settings.uses_published_signing_key();
    if is_published {
        screen.push_str("            the signing key is the published one\n");
    }
    let made = [
        (
            "signing",
            settings.keys.signing_dir.is_none() && !is_published,
        ),
        ("sealing", settings.keys.sealing_dir.is_none()),
    ];
    for (purpose, _) in made.iter().filter(|(_, made)| *made) {
        let _ = writeln!(
            screen,
            "            the {purpose} key was generated at start and exists only in this process"
        );
    }
    screen
}
