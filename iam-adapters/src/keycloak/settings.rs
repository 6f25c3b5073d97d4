//! The section `[iam.keycloak]` and its validation.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use url::Url;

use super::dialect::DIALECT;
use super::{Keycloak, NAME};
use crate::adapter::{IamAdapter, SetupError, downcast};
use crate::claims::ClaimSources;
use crate::client::url_below;
use crate::clock::Clock;
use crate::oauth2_client::{
    ClientAuthPreset, ClientSection, OAuth2Client, OAuth2ClientSettings, PermissionNames,
    check_issuer, plain_url,
};
use crate::settings::AdapterSettings;

/// The section `[iam.keycloak]`.
///
/// The `Debug` form has only what identifies the IAM. The other settings have the secret, or may have one by mistake.
#[derive(Clone, derive_more::Debug, Deserialize, Serialize)]
#[debug("KeycloakSettings {{ url: {}, realm: {realm:?}, .. }}", plain_url(url))]
#[serde(deny_unknown_fields)]
pub struct KeycloakSettings {
    /// The address to which `/realms/…` is appended.
    pub url: Url,
    /// The realm's name.
    pub realm: String,
    /// The confidential client of this gateway.
    #[serde(flatten, skip_deserializing)]
    pub client: OAuth2ClientSettings,
    /// The client whose roles are the permissions; `None`: the realm's roles.
    pub permissions_client: Option<String>,
    /// Keycloak's issuer, if `url` is not its public address; `None`: `{url}/realms/{realm}`.
    pub issuer: Option<String>,
}

impl AdapterSettings for KeycloakSettings {
    fn name(&self) -> &'static str {
        NAME
    }

    fn problems(&self, section: &str, production: bool) -> Vec<String> {
        self.client.problems(section, production, |problems| {
            problems.address("url", Some(&self.url));
            // In a path, dots mean another folder.
            if matches!(self.realm.as_str(), "" | "." | "..") {
                problems.add("realm: must be the name of a realm");
            }
            if let Some(issuer) = &self.issuer {
                check_issuer(problems, issuer);
            }
            problems.not_empty("permissions_client", self.permissions_client.as_ref());
        })
    }

    fn connect(
        &self,
        section: &str,
        clock: Arc<dyn Clock>,
        connect_deadline: Duration,
        before: Option<&Arc<dyn IamAdapter>>,
    ) -> Result<Arc<dyn IamAdapter>, SetupError> {
        self.check(section)?;
        let before: Option<&Keycloak> = before.and_then(downcast);
        let protocol =
            |path: &[&str]| self.realm_url(&[&["protocol", "openid-connect"], path].concat());
        Ok(Arc::new(Keycloak {
            server: OAuth2Client::new(
                section,
                &self.client,
                connect_deadline,
                Arc::clone(&clock),
                self.expected_issuer(),
                DIALECT,
                before.map(|keycloak| &keycloak.server),
            )?,
            discovery: self.realm_url(&[".well-known", "openid-configuration"]),
            token: protocol(&["token"]),
            introspection: protocol(&["token", "introspect"]),
            logout: protocol(&["logout"]),
            keys: protocol(&["certs"]),
            default_roles: format!("default-roles-{}", self.realm.to_lowercase()),
            settings: self.clone(),
            clock,
            issuer_confirmed_at: Mutex::default(),
            names: PermissionNames::new(NAME),
        }))
    }

    fn claims(&self) -> &ClaimSources {
        &self.client.claims
    }

    fn derived(&self) -> Value {
        json!({
            "issuer": self.expected_issuer(),
            "assertion_audience": self.client.audience(ClientAuthPreset::STANDARD),
        })
    }
}

impl ClientSection for KeycloakSettings {
    fn client_mut(&mut self) -> &mut OAuth2ClientSettings {
        &mut self.client
    }
}

impl KeycloakSettings {
    /// An address below the realm's.
    pub(super) fn realm_url(&self, path: &[&str]) -> Url {
        let path = [&["realms", self.realm.as_str()], path].concat();
        url_below(&plain_url(&self.url), &path)
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
