//! `[iam.…]`: stands in for the adapters' registry, in the same shape.

use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

/// Which IAM, and how to reach it: the section's name is the adapter.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IamSettings {
    /// `[iam.keycloak]`.
    Keycloak(KeycloakSettings),
    /// `[iam.mock]`.
    Mock(MockSettings),
}

impl Default for IamSettings {
    fn default() -> Self {
        Self::Mock(MockSettings::default())
    }
}

impl IamSettings {
    /// The adapter's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Keycloak(_) => "keycloak",
            Self::Mock(_) => "mock",
        }
    }

    /// What is wrong, one line each, beginning with the setting's name and a colon.
    #[must_use]
    pub fn problems(&self, production: bool) -> Vec<String> {
        match self {
            Self::Keycloak(settings) => settings.problems(production),
            Self::Mock(_) => Vec::new(),
        }
    }
}

/// `[iam.mock]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockSettings {
    /// Who can log in; none: the demo users.
    pub users_file: Option<PathBuf>,
}

/// `[iam.keycloak]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeycloakSettings {
    /// Where the server is.
    pub url: Url,
    /// The realm.
    pub realm: String,
    /// The gateway's client.
    pub client_id: String,
    /// Its secret.
    pub client_secret: Option<SecretString>,
    /// A file that holds its secret.
    pub client_secret_file: Option<PathBuf>,
    /// Whose client roles are the permissions; none: realm roles.
    pub permissions_client: Option<String>,
    /// The authorities that the server's certificate is checked against.
    pub ca_file: Option<PathBuf>,
}

impl KeycloakSettings {
    fn problems(&self, production: bool) -> Vec<String> {
        let mut problems = Vec::new();
        match (&self.client_secret, &self.client_secret_file) {
            (None, None) => {
                problems.push("client_secret: is missing (or client_secret_file)".to_owned());
            }
            (Some(_), Some(_)) => {
                problems.push("client_secret: give it or client_secret_file, not both".to_owned());
            }
            (Some(secret), None) if production && secret.expose_secret().len() < 16 => {
                problems.push("client_secret: is shorter than 16 characters".to_owned());
            }
            _ => {}
        }
        if production && self.url.scheme() != "https" {
            problems.push("url: must be https in production".to_owned());
        }
        problems
    }
}
