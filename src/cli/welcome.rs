//! The welcome screen in development.

use std::path::Path;

use crate::config::Settings;
use crate::startup::Addresses;

/// The screen.
#[must_use]
pub(super) fn screen(settings: &Settings, addresses: Addresses) -> String {
    let base = format!("{}://{}", settings.http.scheme(), addresses.public);
    let management = format!("http://{}", addresses.management);
    let names: Vec<_> = settings.iams.iter().map(|iam| iam.name.as_str()).collect();
    format!(
        "\nauth-gateway {version}, in development mode. Not for real users.\n\n\
         API         {base}/api/v1/auth/{{login,token,logout}}\n\
         discovery   {base}/.well-known/oauth-authorization-server\n\
         described   {base}/openapi.yaml\n\
         management  {management}/health/ready  {management}/metrics\n\
         IAM         {iam}\n",
        version = env!("CARGO_PKG_VERSION"),
        iam = names.join(", "),
    )
}

/// The lines of the welcome screen about a key, if it is not stored in a `directory`.
#[must_use]
pub fn generated_key(purpose: &str, directory: Option<&Path>) -> String {
    match directory {
        Some(_) => String::new(),
        None => format!(
            "            the {purpose} key was generated at start and exists only in this process\n"
        ),
    }
}
