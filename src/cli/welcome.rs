//! The first screen in development mode: what runs where, who can log in, and what to paste.

use std::fmt::Write as _;

use crate::config::{IamSettings, Settings};
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
    let controls = if matches!(settings.iam, IamSettings::Mock(_)) {
        format!("console     {management}/mock/  {management}/mock/v1/openapi.yaml\n")
    } else {
        String::new()
    };
    let mut screen = format!(
        "\nauth-gateway {version}, in development mode. Not for real users.\n\n\
         API         {base}/api/v1/auth/{{login,token,logout}}\n\
         discovery   {base}/.well-known/oauth-authorization-server\n\
         described   {base}/openapi.yaml\n\
         management  {management}/health/ready  {management}/metrics\n\
         {controls}\
         IAM         {iam}\n",
        version = env!("CARGO_PKG_VERSION"),
        iam = settings.iam.name(),
    );
    let is_fixed = settings.iam.fixed_signing_key();
    if is_fixed {
        screen.push_str("            the signing key is the one that everybody knows\n");
    }
    let made = [
        ("signing", settings.keys.signing_dir.is_none() && !is_fixed),
        ("sealing", settings.keys.sealing_dir.is_none()),
    ];
    for (purpose, _) in made.iter().filter(|(_, made)| *made) {
        let _ = writeln!(
            screen,
            "            the {purpose} key was made now and ends with this process"
        );
    }
    if let IamSettings::Mock(mock) = &settings.iam
        && mock.users_file.is_none()
    {
        let _ = write!(screen, "{}", demo(&base));
    }
    screen
}

/// The session that login answers is what token wants, but for its last brace: so no tool that
/// understands JSON is needed to try it.
fn demo(base: &str) -> String {
    format!(
        r#"
Demo users  alice@example.test / alice-pass   urn:shop:orders:order:read urn:shop:orders:order:write
            bob@example.test   / bob-pass     urn:shop:catalog:item:read

Try it:

  session=$(curl -s {base}/api/v1/auth/login -H 'Content-Type: application/json' \
    -d '{{"email":"alice@example.test","password":"alice-pass"}}')
  curl -s {base}/api/v1/auth/token -H 'Content-Type: application/json' \
    -d "${{session%\}}}},\"grant_type\":\"session\",\"scope\":\"urn:shop:orders:order:read\"}}"
"#
    )
}
