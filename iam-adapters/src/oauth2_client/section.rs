//! Checks of the settings that adapters of authorization servers have in common.

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::client_authentication::ClientAuthentication;
use crate::adapter::SetupError;
use crate::client::{ClientSettings, UpstreamClient};
use crate::clock::Clock;

/// The minimum length of a client secret in production, in bytes. Keycloak generates 32; a shorter one
/// was chosen by hand. An attacker with the secret can guess passwords without the login limits.
const SECRET_MIN: usize = 16;

/// The longest issuer of a server in an error, in bytes.
const SHOWN_ISSUER_MAX: usize = 200;

/// Secrets of examples, in lower case.
const WELL_KNOWN_SECRETS: [&str; 12] = [
    "change-me",
    "change-me-in-production",
    "changeme",
    "changeit",
    "client-secret",
    "client_secret",
    "keycloak",
    "keycloak-client-secret",
    "password",
    "replace-me-with-a-secret",
    "secret",
    "your-client-secret",
];

/// The suffix of secrets that are built into development tools, in lower case.
const DEVELOPMENT_SECRET: &str = "-development-secret";

/// The HTTP client and the authentication of an adapter with this section of the settings, which has
/// these problems. Does not connect.
///
/// # Errors
///
/// [`SetupError`] if the settings have problems, or a file cannot be used.
pub fn http_client(
    section: &'static str,
    mut problems: Vec<String>,
    authentication: Result<ClientAuthentication, String>,
    settings: &ClientSettings,
    clock: Arc<dyn Clock>,
) -> Result<(UpstreamClient, ClientAuthentication), SetupError> {
    match authentication {
        Ok(authentication) if problems.is_empty() => {
            let http = UpstreamClient::new(settings, clock);
            let http = http.map_err(|source| SetupError::Client { section, source })?;
            Ok((http, authentication))
        }
        authentication => {
            if problems.is_empty() {
                problems.extend(authentication.err());
            }
            Err(SetupError::Settings(problems.join("\n")))
        }
    }
}

/// Whether a text can be an issuer (RFC 8414 section 2: no query and no fragment).
#[must_use]
pub fn is_issuer(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

/// An address without user, password, query and fragment.
#[must_use]
pub fn plain_url(url: &Url) -> Url {
    let mut url = url.clone();
    // Both fail only for addresses without a host, which have no credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// An issuer that a server names, for errors: without credentials, and only if it is one.
#[must_use]
pub fn shown_issuer(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) if is_issuer(text) && text.len() <= SHOWN_ISSUER_MAX => {
            format!("the issuer {}", plain_url(&url))
        }
        _ => "something that is no issuer".to_owned(),
    }
}

/// The client secret of a section.
///
/// # Errors
///
/// The problem of the secret, without its value.
pub fn client_secret(section: &str, secret: Option<&SecretString>) -> Result<SecretString, String> {
    let Some(secret) = secret else {
        return Err(format!(
            "{section}: client_secret or client_secret_file is needed"
        ));
    };
    if secret.expose_secret().is_empty() {
        return Err(format!("{section}.client_secret: must not be empty"));
    }
    Ok(secret.clone())
}

/// The problems of the client secret of a section.
#[must_use]
pub fn secret_problems(
    section: &str,
    secret: Option<&SecretString>,
    production: bool,
) -> Vec<String> {
    let secret = match client_secret(section, secret) {
        Err(problem) => return vec![problem],
        Ok(_) if !production => return Vec::new(),
        Ok(secret) => secret,
    };
    let secret = secret.expose_secret();
    let mut problems = Vec::new();
    if secret.len() < SECRET_MIN {
        problems.push(format!(
            "{section}.client_secret: shorter than {SECRET_MIN} bytes"
        ));
    }
    let lower = secret.to_lowercase();
    if WELL_KNOWN_SECRETS.contains(&lower.as_str()) || lower.ends_with(DEVELOPMENT_SECRET) {
        problems.push(format!("{section}.client_secret: a well-known one"));
    }
    problems
}
