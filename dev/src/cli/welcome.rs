//! The welcome screen in development.

use std::fmt::Write as _;
use std::path::Path;

use auth_gateway::config::Settings;
use auth_gateway::startup::Addresses;

/// The addresses, the origin of the keys and, with the mock, the console, the demo users and commands to try.
pub(super) fn screen(settings: &Settings, addresses: Addresses) -> String {
    let base = format!("{}://{}", settings.http.scheme(), addresses.public);
    let management = format!("http://{}", addresses.management);
    let (keys, mock) = (&settings.keys, crate::only_mock(settings));
    let signing = if mock.is_some_and(|mock| mock.fixed_signing_key) {
        "            the signing key is the published one\n".to_owned()
    } else {
        generated_key("signing", keys.signing_dir.as_deref())
    };
    let mut screen = format!(
        "\nauth-gateway {version}, in development mode. Not for real users.\n\n\
         API         {base}/api/v1/auth/{{login,token,logout}}\n\
         discovery   {base}/.well-known/oauth-authorization-server\n\
         described   {base}/openapi.yaml\n\
         management  {management}/health/ready  {management}/metrics\n\
         IAM         {iam}\n\
         {signing}{sealing}",
        version = env!("CARGO_PKG_VERSION"),
        iam = settings.iam_names().join(", "),
        sealing = generated_key("sealing", keys.sealing_dir.as_deref()),
    );
    if let Some(mock) = mock {
        let _ = writeln!(
            screen,
            "console     {management}/mock/  {management}/mock/v1/openapi.yaml"
        );
        if mock.users_file.is_none() {
            screen += &demo(&base);
        }
    }
    screen
}

/// The line about a key, if it is not stored in a `directory`.
fn generated_key(purpose: &str, directory: Option<&Path>) -> String {
    match directory {
        Some(_) => String::new(),
        None => format!(
            "            the {purpose} key was generated at start and exists only in this process\n"
        ),
    }
}

/// Commands that need no JSON tool: the response of login without its last brace is the beginning of
/// the token request.
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
