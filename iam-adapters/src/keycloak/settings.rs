//! The section `[iam.keycloak]` and its validation.

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

/// The minimum length of a client secret in production, in bytes. Keycloak generates 32; a shorter one
/// was chosen by hand. An attacker with the secret can guess passwords without the login limits.
const SECRET_MIN: usize = 16;

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

/// The section `[iam.keycloak]`.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeycloakSettings {
    /// The address to which `/realms/…` is appended.
    pub url: Url,
    /// The realm's name.
    pub realm: String,
    /// The confidential client of this gateway.
    pub client_id: String,
    /// The secret of the client.
    #[serde(default)]
    pub client_secret: Option<SecretString>,
    /// The file with the secret. Loading the configuration replaces it by `client_secret`.
    #[serde(default)]
    pub client_secret_file: Option<PathBuf>,
    /// The client whose roles are the permissions; `None`: the realm's roles.
    #[serde(default)]
    pub permissions_client: Option<String>,
    /// PEM certificates to trust in addition to the machine's own.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Keycloak's issuer, if `url` is not its public address; `None`: `{url}/realms/{realm}`.
    #[serde(default)]
    pub issuer: Option<String>,
}

/// Without the secret, and without the user, password, query and fragment of the address.
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

    /// Two cores with 15 logins per second each, according to Keycloak's sizing guide.
    fn logins_per_second(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(30)
    }
}

impl KeycloakSettings {
    /// All problems of these settings, each with its key and without its value. Reads the certificates
    /// that they name. Empty: the settings can be used.
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
        // In a path, dots mean another folder.
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

    /// The client secret.
    ///
    /// # Errors
    ///
    /// The problem of the secret, without its value.
    pub fn secret(&self) -> Result<SecretString, String> {
        let Some(secret) = &self.client_secret else {
            return Err("iam.keycloak: client_secret or client_secret_file is needed".to_owned());
        };
        if secret.expose_secret().is_empty() {
            return Err("iam.keycloak.client_secret: must not be empty".to_owned());
        }
        Ok(secret.clone())
    }

    pub(super) fn client(&self, connect_deadline: Duration) -> ClientSettings {
        ClientSettings {
            connect_deadline,
            ca_file: self.ca_file.clone(),
        }
    }

    /// An address below the realm's, with each segment percent-encoded.
    pub(super) fn realm_url(&self, path: &[&str]) -> Url {
        let mut url = self.plain_url();
        // Only addresses such as `mailto:` have no segments; `problems` refuses them.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments
                .pop_if_empty()
                .extend(["realms", self.realm.as_str()])
                .extend(path);
        }
        url
    }

    /// The issuer that the discovery document must name.
    pub(super) fn expected_issuer(&self) -> String {
        self.issuer
            .clone()
            .unwrap_or_else(|| self.realm_url(&[]).into())
    }

    fn plain_url(&self) -> Url {
        let mut url = self.url.clone();
        // Both fail only for addresses without a host, which have no credentials.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        url.set_fragment(None);
        url
    }
}

#[cfg(test)]
mod tests;
