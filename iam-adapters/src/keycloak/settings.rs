//! What an operator tells about their Keycloak, and what may be wrong with it.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::{Keycloak, NAME};
use crate::adapter::IamAdapter;
use crate::client::ClientSettings;
use crate::clock::Clock;
use crate::registry::{self, AdapterSettings};
use crate::secret_file;

/// The shortest client secret for production, in bytes. Keycloak makes them of 32; a shorter one
/// was typed by somebody, and whoever guesses it guesses passwords past every limit.
const SECRET_MIN: usize = 16;

/// Secrets that stand in examples. In lower case.
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

/// What a secret ends in that a development tool has built in. In lower case.
const DEVELOPMENT_SECRET: &str = "-development-secret";

/// The section `[iam.keycloak]`.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeycloakSettings {
    /// The address under which `/realms/…` is found.
    pub url: Url,
    /// The realm's name.
    pub realm: String,
    /// The confidential client that stands for this gateway.
    pub client_id: String,
    /// Its secret; this or `client_secret_file`.
    #[serde(default)]
    pub client_secret: Option<SecretString>,
    /// A file that holds its secret, with or without a newline at the end.
    #[serde(default)]
    pub client_secret_file: Option<PathBuf>,
    /// The client whose roles are the permissions; none: the realm's roles.
    #[serde(default)]
    pub permissions_client: Option<String>,
    /// PEM certificates to trust beside the machine's own.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// What Keycloak calls itself, where it is not called by its public name; none:
    /// `{url}/realms/{realm}`.
    #[serde(default)]
    pub issuer: Option<String>,
}

/// Shows neither the secret nor what an address may carry beside host and path.
impl fmt::Debug for KeycloakSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeycloakSettings")
            .field("url", &format_args!("{}", self.plain_url()))
            .field("realm", &self.realm)
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret)
            .field("client_secret_file", &self.client_secret_file)
            .field("permissions_client", &self.permissions_client)
            .field("ca_file", &self.ca_file)
            .field("issuer", &self.issuer)
            .finish()
    }
}

impl AdapterSettings for KeycloakSettings {
    fn name(&self) -> &'static str {
        NAME
    }

    fn problems(&self, production: bool) -> Vec<String> {
        Self::problems(self, production)
    }

    fn connect(
        &self,
        clock: Arc<dyn Clock>,
        connect_deadline: Duration,
    ) -> Result<Arc<dyn IamAdapter>, registry::SetupError> {
        let adapter = Keycloak::new(self, connect_deadline, clock);
        Ok(Arc::new(adapter.map_err(registry::SetupError::new)?))
    }

    /// Two cores: 15 logins a second each, by Keycloak's own sizing guide.
    fn logins_per_second(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(30)
    }
}

impl KeycloakSettings {
    /// Everything that is wrong with these settings, each named by its key and without its value.
    /// Reads the files that they name. Empty: they can be used.
    #[must_use]
    pub fn problems(&self, production: bool) -> Vec<String> {
        let mut problems = self.address_problems(production);
        for (key, value) in [
            ("client_id", Some(&self.client_id)),
            ("permissions_client", self.permissions_client.as_ref()),
        ] {
            if value.is_some_and(String::is_empty) {
                problems.push(format!("iam.keycloak.{key}: must not be empty"));
            }
        }
        match self.secret() {
            Err(problem) => problems.push(problem),
            Ok(secret) if production => {
                let secret = secret.expose_secret();
                if secret.len() < SECRET_MIN {
                    problems.push(format!(
                        "iam.keycloak.client_secret: shorter than {SECRET_MIN} bytes"
                    ));
                }
                let lower = secret.to_lowercase();
                if WELL_KNOWN_SECRETS.contains(&lower.as_str())
                    || lower.ends_with(DEVELOPMENT_SECRET)
                {
                    problems.push("iam.keycloak.client_secret: a well-known one".to_owned());
                }
            }
            Ok(_) => {}
        }
        if let Err(error) = self.client(Duration::ZERO).certificates() {
            problems.push(format!("iam.keycloak.{error}"));
        }
        problems
    }

    fn address_problems(&self, production: bool) -> Vec<String> {
        let mut problems = Vec::new();
        let mut add = |problem: &str| problems.push(format!("iam.keycloak.{problem}"));
        match self.url.scheme() {
            "http" if production => add("url: must be https in production"),
            "http" | "https" => {}
            _ => add("url: must be http or https"),
        }
        if self.url.query().is_some() || self.url.fragment().is_some() {
            add("url: must have no query and no fragment");
        }
        if !self.url.username().is_empty() || self.url.password().is_some() {
            add("url: must hold no credentials");
        }
        // In a path the dots would mean another folder, not a realm of that name.
        if matches!(self.realm.as_str(), "" | "." | "..") {
            add("realm: must be the name of a realm");
        }
        let issuer = self.issuer.as_deref().map(Url::parse);
        let issuer_fits = issuer.is_none_or(|parsed| {
            // RFC 8414 section 2: no query and no fragment.
            parsed.is_ok_and(|url| {
                matches!(url.scheme(), "http" | "https")
                    && url.query().is_none()
                    && url.fragment().is_none()
            })
        });
        if !issuer_fits {
            add("issuer: must be an http or https address without query and fragment");
        }
        problems
    }

    /// The client secret, from wherever it is told.
    ///
    /// # Errors
    ///
    /// What is wrong with it, without the value.
    pub fn secret(&self) -> Result<SecretString, String> {
        let (key, secret) = match (&self.client_secret, &self.client_secret_file) {
            (Some(secret), None) => ("client_secret", secret.clone()),
            (None, Some(file)) => {
                let secret = secret_file::read(file)
                    .map_err(|error| format!("iam.keycloak.client_secret_file: {error}"))?;
                ("client_secret_file", secret)
            }
            (Some(_), Some(_)) => {
                return Err(
                    "iam.keycloak: client_secret and client_secret_file exclude each other"
                        .to_owned(),
                );
            }
            (None, None) => {
                return Err(
                    "iam.keycloak: client_secret or client_secret_file is needed".to_owned(),
                );
            }
        };
        if secret.expose_secret().is_empty() {
            return Err(format!("iam.keycloak.{key}: must not be empty"));
        }
        Ok(secret)
    }

    pub(super) fn client(&self, connect_deadline: Duration) -> ClientSettings {
        ClientSettings {
            connect_deadline,
            ca_file: self.ca_file.clone(),
        }
    }

    /// An address under the realm's, each part percent-encoded.
    pub(super) fn realm_url(&self, below: &[&str]) -> Url {
        let mut url = self.plain_url();
        // Only addresses such as `mailto:` have no path; those are refused.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty()
                .extend(["realms", self.realm.as_str()])
                .extend(below);
        }
        url
    }

    /// The issuer to insist on.
    pub(super) fn expected_issuer(&self) -> String {
        self.issuer
            .clone()
            .unwrap_or_else(|| self.realm_url(&[]).into())
    }

    fn plain_url(&self) -> Url {
        let mut url = self.url.clone();
        // Both fail only for addresses without a host, which then carry no credentials either.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        url.set_fragment(None);
        url
    }
}

#[cfg(test)]
mod tests;
