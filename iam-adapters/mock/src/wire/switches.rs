//! What an administrator can set about a realm, beside its users.

use secrecy::SecretString;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::realm::Realm;

/// How a realm is set.
#[derive(Debug, Clone)]
pub(super) struct Switches {
    pub(super) enabled: bool,
    pub(super) direct_grants: bool,
    pub(super) ssl_required: bool,
    others: Vec<OtherClient>,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            enabled: true,
            direct_grants: true,
            ssl_required: false,
            others: Vec::new(),
        }
    }
}

impl Switches {
    /// The secret of another client of the realm than the gateway's.
    pub(super) fn client(&self, id: &str) -> Option<&SecretString> {
        let mut others = self.others.iter();
        let found = others.find(|other| other.client_id == id);
        found.map(|other| &other.client_secret)
    }
}

/// Another client of the realm: somebody who may ask, and not about the gateway's sessions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherClient {
    client_id: String,
    #[serde(deserialize_with = "secret")]
    client_secret: SecretString,
}

/// Silent about a value that is not a string, which may be the secret all the same.
fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecretString, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(secret) => Ok(secret.into()),
        _ => Err(D::Error::custom("must be a string")),
    }
}

/// What is to be set otherwise; what is none stays as it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    #[serde(default)]
    enabled: Option<bool>,
    #[serde(default)]
    direct_grants: Option<bool>,
    #[serde(default)]
    ssl_required: Option<bool>,
    #[serde(default)]
    other_clients: Option<Vec<OtherClient>>,
}

/// How a realm is set, without a secret.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    realm: String,
    enabled: bool,
    direct_grants: bool,
    ssl_required: bool,
    other_clients: Vec<String>,
}

impl Realm {
    /// How it is set.
    pub(crate) fn shown(&self) -> Shown {
        let switches = self.switches();
        let others = switches.others.iter();
        Shown {
            realm: self.name.clone(),
            enabled: switches.enabled,
            direct_grants: switches.direct_grants,
            ssl_required: switches.ssl_required,
            other_clients: others.map(|other| other.client_id.clone()).collect(),
        }
    }

    /// Sets it otherwise.
    pub(crate) fn change(&self, change: Change) {
        let mut switches = self.switches_mut();
        let set = |switch: &mut bool, to: Option<bool>| *switch = to.unwrap_or(*switch);
        set(&mut switches.enabled, change.enabled);
        set(&mut switches.direct_grants, change.direct_grants);
        set(&mut switches.ssl_required, change.ssl_required);
        if let Some(others) = change.other_clients {
            switches.others = others;
        }
    }
}
