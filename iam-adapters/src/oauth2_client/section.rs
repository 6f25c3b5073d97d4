//! The settings that the sections of all authorization servers have.

use std::fmt::Display;
use std::path::Path;

use url::Url;

use super::{ClientAuthMethod, ClientAuthSettings};
use crate::claims::ClaimSources;
use crate::client::{address_problems, certificates};

/// The longest issuer of a server in an error, in bytes.
const SHOWN_ISSUER_MAX: usize = 200;

/// Collects the problems of a section, each with its key and without its value.
pub(crate) struct SectionProblems {
    /// The section, such as `iam.keycloak`.
    pub(super) section: &'static str,
    pub(super) production: bool,
    /// Whether the client authenticates by TLS.
    needs_tls: bool,
    pub(crate) found: Vec<String>,
}

impl SectionProblems {
    /// With those of the client.
    pub(crate) fn of(
        section: &'static str,
        production: bool,
        client_auth: &ClientAuthSettings,
    ) -> Self {
        let mut problems = Self {
            section,
            production,
            needs_tls: client_auth.client_auth_method == ClientAuthMethod::TlsClientAuth,
            found: Vec::new(),
        };
        client_auth.check(&mut problems);
        problems
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
            if self.needs_tls && !self.production && url.scheme() == "http" {
                self.found
                    .push(format!("{key}: must be https with tls_client_auth"));
            }
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

    /// Reads the additional certificates.
    pub(crate) fn certificates(&mut self, file: Option<&Path>) {
        if let Err(problem) = certificates(file) {
            self.add(problem);
        }
    }
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
