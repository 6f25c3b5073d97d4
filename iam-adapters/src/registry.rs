//! The kinds of IAM, and how a section `[iam.<name>]` of the configuration becomes an adapter. The
//! settings that all kinds have are not part of it.
//!
//! The registry is a value: a program with another kind of IAM adds it to those of [`Registry::default`].

use std::sync::Arc;

use config::{ConfigError, Value};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_aux::serde_introspection::serde_introspect;

use crate::keycloak::{self, KeycloakSettings};
use crate::kratos::{self, KratosSettings};
use crate::ldap::{self, LdapSettings};
use crate::oauth2::{self, OAuth2Settings};
use crate::oauth2_client::ClientSection;
use crate::settings::AdapterSettings;

/// The settings of the IAM, of any kind.
///
/// The `Debug` form is without the values by their keys, which can be addresses with credentials. Serialized, it is
/// [`IamSettings::json`].
#[derive(Clone, derive_more::Debug, derive_more::Deref, Serialize)]
#[debug("{settings:?}")]
#[serde(transparent)]
pub struct IamSettings {
    #[deref(forward)]
    #[serde(skip)]
    settings: Arc<dyn AdapterSettings>,
    json: serde_json::Value,
}

impl IamSettings {
    /// Wraps the settings of an adapter.
    #[must_use]
    pub fn new(settings: impl AdapterSettings + Serialize) -> Self {
        Self {
            json: serde_json::to_value(&settings).unwrap_or_default(),
            settings: Arc::new(settings),
        }
    }

    /// The settings by their keys, with [`HIDDEN`](crate::secret_file::HIDDEN) for secrets.
    #[must_use]
    pub const fn json(&self) -> &serde_json::Value {
        &self.json
    }
}

/// One kind of IAM.
#[derive(Debug, Clone, Copy)]
pub struct AdapterKind {
    /// The name of its section.
    pub name: &'static str,
    /// A section to start from, with a comment for each setting.
    pub example: Option<&'static str>,
    fields: fn() -> Vec<&'static str>,
    read: fn(Value) -> Result<IamSettings, ConfigError>,
}

impl AdapterKind {
    /// The kind whose section `[iam.<name>]` is deserialized into `S`.
    #[must_use]
    pub const fn of<S: AdapterSettings + DeserializeOwned + Serialize>(
        name: &'static str,
        example: Option<&'static str>,
    ) -> Self {
        Self {
            name,
            example,
            fields: || serde_introspect::<S>().to_vec(),
            read: |section| S::deserialize(section).map(IamSettings::new),
        }
    }

    /// The kind whose section has the settings of a client too.
    #[must_use]
    pub const fn of_client<S: ClientSection + Serialize>(
        name: &'static str,
        example: &'static str,
    ) -> Self {
        Self {
            name,
            example: Some(example),
            fields: S::fields,
            read: |section| S::read(section).map(IamSettings::new),
        }
    }

    /// The keys that the section may have.
    #[must_use]
    pub fn fields(&self) -> Vec<&'static str> {
        (self.fields)()
    }

    /// Reads the section.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a value is missing or of another type. It may quote the value.
    pub fn read(&self, section: Value) -> Result<IamSettings, ConfigError> {
        (self.read)(section)
    }
}

/// All kinds of IAM that a program can be configured for.
#[derive(Debug, Clone)]
pub struct Registry {
    /// The kinds.
    pub kinds: Vec<AdapterKind>,
    /// The settings that are used if the configuration has no section `[iam.…]`; `None`: the service needs one.
    pub default: Option<IamSettings>,
}

/// The IAMs for production.
impl Default for Registry {
    fn default() -> Self {
        Self {
            kinds: vec![
                AdapterKind::of_client::<KeycloakSettings>("keycloak", keycloak::EXAMPLE),
                AdapterKind::of_client::<OAuth2Settings>("oauth2", oauth2::EXAMPLE),
                AdapterKind::of::<LdapSettings>("ldap", Some(ldap::EXAMPLE)),
                AdapterKind::of::<KratosSettings>("kratos", Some(kratos::EXAMPLE)),
            ],
            default: None,
        }
    }
}

impl Registry {
    /// The kind with this name.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<&AdapterKind> {
        self.kinds.iter().find(|kind| kind.name == name)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::SystemClock;

    const KEYCLOAK: &str = r#"
        url = "http://localhost:8081"
        realm = "shop"
        client_id = "auth-gateway"
        client_secret = "secret"
    "#;

    fn read(name: &str, text: &str) -> Result<IamSettings, ConfigError> {
        let section: Value = toml::from_str(text).expect("TOML");
        let registry = Registry::default();
        let kind = registry.kinds.iter().find(|kind| kind.name == name);
        kind.expect("a kind of this name").read(section)
    }

    #[test]
    fn kind_reads_its_section_and_creates_an_adapter_with_its_name() {
        let settings = read("keycloak", KEYCLOAK).expect("settings");
        assert_eq!(settings.name(), "keycloak");
        assert_eq!(settings.problems("iam.corp", false), [""; 0]);
        let clock = Arc::new(SystemClock::default());
        let adapter = settings.connect("iam.corp", clock, Duration::from_secs(1), None);
        assert_eq!(adapter.expect("an adapter").name(), "keycloak");
    }

    #[test]
    fn misspelt_and_missing_keys_are_refused() {
        let misspelt = format!("{KEYCLOAK}\nrelm = 'shop'");
        assert!(read("keycloak", &misspelt).is_err());
        assert!(read("keycloak", "").is_err());
    }

    #[test]
    fn fields_are_those_of_the_settings() {
        let registry = Registry::default();
        let mut kinds = registry.kinds.iter();
        let keycloak = kinds.find(|kind| kind.name == "keycloak");
        assert!(
            keycloak
                .expect("Keycloak's")
                .fields()
                .contains(&"client_secret_file")
        );
    }
}
