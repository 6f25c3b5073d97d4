//! `[iam.…]`: stands in for the adapters' registry, in the same shape.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

/// Which IAM, and how to reach it: the section's name is the adapter.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IamSettings {
    /// `[iam.keycloak]`.
    Keycloak(Box<KeycloakSettings>),
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

    /// What is wrong, one line each, beginning with the setting's key and a colon.
    #[must_use]
    pub fn problems(&self, production: bool) -> Vec<String> {
        match self {
            Self::Keycloak(settings) => settings.problems(production),
            Self::Mock(_) if production => {
                vec!["iam.mock: is for development; in production configure a real IAM".to_owned()]
            }
            Self::Mock(_) => Vec::new(),
        }
    }
}

/// `[iam.mock]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MockSettings {
    /// Who can log in; none: the demo users.
    pub users_file: Option<PathBuf>,
    /// How long a session lives.
    #[serde(with = "humantime_serde")]
    pub session_lifetime: Duration,
}

impl Default for MockSettings {
    fn default() -> Self {
        Self {
            users_file: None,
            session_lifetime: Duration::from_secs(8 * 3600),
        }
    }
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
    /// What the server calls itself; none: `{url}/realms/{realm}`.
    pub issuer: Option<String>,
}

impl KeycloakSettings {
    fn problems(&self, production: bool) -> Vec<String> {
        let mut problems = Vec::new();
        match (&self.client_secret, &self.client_secret_file) {
            (None, None) => {
                problems
                    .push("iam.keycloak: client_secret or client_secret_file is needed".to_owned());
            }
            (Some(_), Some(_)) => {
                problems.push(
                    "iam.keycloak: client_secret and client_secret_file exclude each other"
                        .to_owned(),
                );
            }
            (Some(secret), None) if production && secret.expose_secret().len() < 16 => {
                problems.push("iam.keycloak.client_secret: shorter than 16 bytes".to_owned());
            }
            _ => {}
        }
        if production && self.url.scheme() != "https" {
            problems.push("iam.keycloak.url: must be https in production".to_owned());
        }
        problems
    }
}
