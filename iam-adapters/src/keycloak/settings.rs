//! The section `[iam.keycloak]` and its validation.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use super::{Keycloak, NAME};
use crate::adapter::{IamAdapter, SetupError};
use crate::claims::ClaimSources;
use crate::clock::Clock;
use crate::oauth2_client::{
    ClientAuthPreset, ClientAuthSettings, ClientSection, SectionProblems, plain_url,
};
use crate::settings::AdapterSettings;

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
    #[serde(flatten, skip_deserializing)]
    pub client_auth: ClientAuthSettings,
    /// The client whose roles are the permissions; `None`: the realm's roles.
    pub permissions_client: Option<String>,
    /// PEM certificates to trust in addition to the machine's own.
    pub ca_file: Option<PathBuf>,
    /// Keycloak's issuer, if `url` is not its public address; `None`: `{url}/realms/{realm}`.
    pub issuer: Option<String>,
    /// The claims of access tokens that the IAM states.
    #[serde(default)]
    pub claims: ClaimSources,
}

/// Only what identifies the IAM. The other settings have the secret, or may have one by mistake.
impl fmt::Debug for KeycloakSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeycloakSettings")
            .field("url", &format_args!("{}", plain_url(&self.url)))
            .field("realm", &self.realm)
            .finish_non_exhaustive()
    }
}

impl AdapterSettings for KeycloakSettings {
    fn name(&self) -> &'static str {
        NAME
    }

    fn problems(&self, production: bool) -> Vec<String> {
        let mut problems = SectionProblems::of(SECTION, production, &self.client_auth);
        problems.address("url", Some(&self.url));
        // In a path, dots mean another folder.
        if matches!(self.realm.as_str(), "" | "." | "..") {
            problems.add("realm: must be the name of a realm");
        }
        if let Some(issuer) = &self.issuer {
            problems.issuer(issuer);
        }
        problems.not_empty("permissions_client", self.permissions_client.as_ref());
        problems.certificates(self.ca_file.as_deref());
        problems.claims(&self.claims);
        problems.found
    }

    fn connect(
        &self,
        clock: Arc<dyn Clock>,
        connect_deadline: Duration,
    ) -> Result<Arc<dyn IamAdapter>, SetupError> {
        Ok(Arc::new(Keycloak::new(self, connect_deadline, clock)?))
    }

    fn claims(&self) -> &ClaimSources {
        &self.claims
    }

    fn derived(&self) -> Value {
        json!({
            "issuer": self.expected_issuer(),
            "assertion_audience": self.client_auth.audience(ClientAuthPreset::default()),
        })
    }

    /// Two cores with 15 logins per second each, according to Keycloak's sizing guide.
    fn logins_per_second(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(30)
    }
}

impl ClientSection for KeycloakSettings {
    fn client_auth_mut(&mut self) -> &mut ClientAuthSettings {
        &mut self.client_auth
    }
}

impl KeycloakSettings {
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
