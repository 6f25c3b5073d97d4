//! The settings that the sections of all authorization servers have.

use std::fmt::Display;
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::claims::ClaimSources;
use crate::client::{address_problems, certificates};

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

/// Collects the problems of a section, each with its key and without its value.
pub(crate) struct SectionProblems {
    /// The section, such as `iam.keycloak`.
    section: &'static str,
    production: bool,
    pub(crate) found: Vec<String>,
}

impl SectionProblems {
    pub(crate) const fn of(section: &'static str, production: bool) -> Self {
        Self {
            section,
            production,
            found: Vec::new(),
        }
    }

    /// Adds a problem, which begins with its key.
    pub(crate) fn add(&mut self, problem: impl Display) {
        self.found.push(format!("{}.{problem}", self.section));
    }

    /// Checks the claims.
    pub(crate) fn claims(&mut self, claims: &ClaimSources) {
        for problem in claims.problems() {
            self.add(format_args!("claims: {problem}"));
        }
    }

    /// Checks an address, if it is set.
    pub(crate) fn address(&mut self, key: &str, url: Option<&Url>) {
        if let Some(url) = url {
            let key = format!("{}.{key}", self.section);
            self.found
                .extend(address_problems(&key, url, self.production));
        }
    }

    /// Checks the configured issuer, and returns whether it can be one.
    pub(crate) fn issuer(&mut self, issuer: &str) -> bool {
        let is_issuer = is_issuer(issuer);
        if !is_issuer {
            self.add("issuer: must be an http or https address without query and fragment");
        }
        is_issuer
    }

    /// Checks a text, if it is set.
    pub(crate) fn not_empty(&mut self, key: &str, text: Option<&String>) {
        if text.is_some_and(String::is_empty) {
            self.add(format_args!("{key}: must not be empty"));
        }
    }

    /// Checks the client secret.
    pub(crate) fn secret(&mut self, secret: Option<&SecretString>) {
        let secret = match client_secret(self.section, secret) {
            Err(problem) => return self.found.push(problem),
            Ok(_) if !self.production => return,
            Ok(secret) => secret,
        };
        let secret = secret.expose_secret();
        if secret.len() < SECRET_MIN {
            self.add(format_args!(
                "client_secret: shorter than {SECRET_MIN} bytes"
            ));
        }
        let lower = secret.to_lowercase();
        if WELL_KNOWN_SECRETS.contains(&lower.as_str()) || lower.ends_with(DEVELOPMENT_SECRET) {
            self.add("client_secret: a well-known one");
        }
    }

    /// Reads the additional certificates.
    pub(crate) fn certificates(&mut self, file: Option<&Path>) {
        if let Err(problem) = certificates(file) {
            self.add(problem);
        }
    }
}

/// The client secret of a section.
///
/// # Errors
///
/// The problem of the secret, without its value.
pub(crate) fn client_secret(
    section: &str,
    secret: Option<&SecretString>,
) -> Result<SecretString, String> {
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

/// Whether a text can be an issuer (RFC 8414 section 2: no query and no fragment).
fn is_issuer(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

/// An address without user, password, query and fragment.
pub(crate) fn plain_url(url: &Url) -> Url {
    let mut url = url.clone();
    // Both fail only for addresses without a host, which have no credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// An issuer that a server names, for errors: without credentials, and only if it is one.
pub(crate) fn shown_issuer(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) if is_issuer(text) && text.len() <= SHOWN_ISSUER_MAX => {
            format!("the issuer {}", plain_url(&url))
        }
        _ => "something that is no issuer".to_owned(),
    }
}
