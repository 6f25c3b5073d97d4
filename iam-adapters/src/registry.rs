//! The one place that knows which IAMs there are.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

use crate::adapter::IamAdapter;
use crate::clock::Clock;
use crate::keycloak::{self, Keycloak, KeycloakSettings};
use crate::mock::{InvalidUsers, Mock, MockSettings};

/// `[iam.…]`: the section's name is the adapter's, and there is exactly one.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IamSettings {
    /// `[iam.keycloak]`.
    Keycloak(KeycloakSettings),
    /// `[iam.mock]`.
    Mock(MockSettings),
}

/// The mock with its demo users, so that a gateway runs without any configuration.
impl Default for IamSettings {
    fn default() -> Self {
        Self::Mock(MockSettings::default())
    }
}

/// Why there is no adapter.
#[derive(Debug, Error)]
pub enum SetupError {
    /// No Keycloak.
    #[error(transparent)]
    Keycloak(#[from] keycloak::SetupError),
    /// No mock.
    #[error("iam.mock.users_file: {0}")]
    Mock(#[from] InvalidUsers),
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

    /// How many logins a second a small installation bears, from all replicas together; none: any
    /// number.
    #[must_use]
    pub const fn logins_per_second(&self) -> Option<NonZeroU32> {
        match self {
            // Two cores: 15 logins a second each, by Keycloak's own sizing guide.
            Self::Keycloak(_) => NonZeroU32::new(30),
            Self::Mock(_) => None,
        }
    }

    /// How many sessions an account may begin in a minute by default; 0: any number.
    #[must_use]
    pub const fn sessions_per_minute(&self) -> u32 {
        match self {
            Self::Keycloak(_) => 20,
            // Tests log one user in as often as they like.
            Self::Mock(_) => 0,
        }
    }

    /// Whether the gateway shall sign with the key that is published in its repository.
    #[must_use]
    pub const fn fixed_signing_key(&self) -> bool {
        match self {
            Self::Keycloak(_) => false,
            Self::Mock(settings) => settings.fixed_signing_key,
        }
    }

    /// Everything that is wrong with the settings, each line beginning with the key and a colon;
    /// production asks for more. Reads the files that they name.
    #[must_use]
    pub fn problems(&self, production: bool) -> Vec<String> {
        match self {
            Self::Keycloak(settings) => settings.problems(production),
            Self::Mock(settings) => settings.problems(production),
        }
    }

    /// Makes the adapter; `connect_deadline` is for each connection to the IAM. Speaks to nobody
    /// yet.
    ///
    /// # Errors
    ///
    /// [`SetupError`] where the settings cannot be used.
    pub fn connect(
        &self,
        clock: Arc<dyn Clock>,
        connect_deadline: Duration,
    ) -> Result<Arc<dyn IamAdapter>, SetupError> {
        Ok(match self {
            Self::Keycloak(settings) => Arc::new(Keycloak::new(settings, connect_deadline, clock)?),
            Self::Mock(settings) => Arc::new(Mock::connect(settings, clock)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    const KEYCLOAK: &str = r#"
        [iam.keycloak]
        url = "http://localhost:8081"
        realm = "shop"
        client_id = "auth-gateway"
        client_secret = "secret"
    "#;

    #[derive(Debug, Deserialize)]
    struct File {
        iam: IamSettings,
    }

    fn read(text: &str) -> Result<IamSettings, String> {
        let file = toml::from_str::<File>(text);
        file.map(|file| file.iam).map_err(|error| error.to_string())
    }

    fn connect(settings: &IamSettings) -> Result<Arc<dyn IamAdapter>, SetupError> {
        settings.connect(Arc::new(SystemClock::default()), Duration::from_secs(1))
    }

    #[test]
    fn the_name_of_the_section_chooses_the_adapter() {
        for (text, name) in [(KEYCLOAK, "keycloak"), ("[iam.mock]", "mock")] {
            let settings = read(text).expect(name);
            assert_eq!(settings.name(), name);
            assert_eq!(settings.problems(false), [""; 0]);
            assert_eq!(connect(&settings).expect(name).name(), name);
        }
        assert_eq!(IamSettings::default().name(), "mock");
    }

    #[test]
    fn no_adapter_two_adapters_and_misspelt_keys_are_refused() {
        for text in [
            "[iam]",
            "[iam.ldap]",
            "[iam.Mock]",
            &format!("[iam.mock]\n{KEYCLOAK}"),
            &format!("{KEYCLOAK}\nrelm = 'shop'"),
            "[iam.mock]\nuser_file = 'users.toml'",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_a_problem_and_makes_no_adapter() {
        let settings = read("[iam.mock]\nusers_file = 'no/such/file.json'").expect("settings");
        let told = connect(&settings).expect_err("no adapter").to_string();
        assert_eq!(settings.problems(false), [told.as_str()]);
        assert!(
            told.starts_with("iam.mock.users_file: no/such/file.json: "),
            "{told}"
        );
    }
}
