//! The section `[iam.keycloak]` and its validation.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{Keycloak, NAME};
use crate::adapter::{IamAdapter, SetupError};
use crate::client::{ClientSettings, address_problems};
use crate::clock::Clock;
use crate::oauth2_client::{client_secret, is_issuer, plain_url, secret_problems};
use crate::registry::AdapterSettings;

/// The section, as in the configuration.
pub(super) const SECTION: &str = "iam.keycloak";

/// The section `[iam.keycloak]`.
#[derive(Clone, Deserialize, Serialize)]
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
    #[serde(serialize_with = "crate::secret_file::serialize_hidden")]
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
            .field("url", &format_args!("{}", plain_url(&self.url)))
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

    fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    fn problems(&self, production: bool) -> Vec<String> {
        Self::problems(self, production)
    }

    fn connect(
        &self,
        clock: Arc<dyn Clock>,
        connect_deadline: Duration,
    ) -> Result<Arc<dyn IamAdapter>, SetupError> {
        Ok(Arc::new(Keycloak::new(self, connect_deadline, clock)?))
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
        let secret = self.client_secret.as_ref();
        problems.extend(secret_problems(SECTION, secret, production));
        if let Err(error) = self.client(Duration::ZERO).certificates() {
            problems.push(format!("iam.keycloak.{error}"));
        }
        problems
    }

    fn address_problems(&self, production: bool) -> Vec<String> {
        let mut problems = address_problems("iam.keycloak.url", &self.url, production);
        let mut add = |problem: &str| problems.push(format!("iam.keycloak.{problem}"));
        // In a path, dots mean another folder.
        if matches!(self.realm.as_str(), "" | "." | "..") {
            add("realm: must be the name of a realm");
        }
        if !self.issuer.as_deref().is_none_or(is_issuer) {
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
        client_secret(SECTION, self.client_secret.as_ref())
    }

    pub(super) fn client(&self, connect_deadline: Duration) -> ClientSettings {
        ClientSettings {
            connect_deadline,
            ca_file: self.ca_file.clone(),
        }
    }

    /// An address below the realm's, with each segment percent-encoded.
    pub(super) fn realm_url(&self, path: &[&str]) -> Url {
        let mut url = plain_url(&self.url);
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
}

#[cfg(test)]
mod tests;
