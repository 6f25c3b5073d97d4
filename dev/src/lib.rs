//! The program `auth-gateway-dev`: the gateway with the mock IAM, for development and tests.
//!
//! It is a program of its own and not a cargo feature, because each namespace has a whole gateway. The
//! production program therefore cannot contain the control API, the console, the published key or a
//! function that signs any claims, whatever features a build selects.
//!
//! [`Namespaces`] isolates tests that run at the same time: each namespace has an IAM, a clock and a
//! gateway. [`MockIam`] has no gateway: it serves the IAMs of its namespaces to another process, in
//! Keycloak's protocol.

pub mod cli;
mod console;
mod control;
pub mod explain;
pub mod fixed_key;
mod gateways;
mod hosts;
mod namespaces;
mod routing;
mod safety;
mod server;
pub mod snapshots;
pub mod test_tokens;
pub mod tokens;

use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;

use auth_gateway::config::{self, IamSettings, InvalidSettings, Registry, Settings};
use auth_gateway::startup::PassedSockets;
use iam_adapters::registry::AdapterKind;
use iam_adapters::settings::AdapterSettings;
use mock_iam::MockSettings;

pub use gateways::build;
pub use namespaces::{
    DeleteError, Front, InvalidNamespaceName, Namespace, NamespaceFactory, NamespaceName,
    Namespaces, TooManyNamespaces,
};
pub use routing::NAMESPACE;
pub use server::{MockIam, MockIamSettings};

/// The IAMs of the production program, and the mock, which needs no configuration.
#[must_use]
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    let mock = AdapterKind::of::<MockSettings>(mock_iam::NAME, None);
    registry.kinds.push(mock);
    registry.default = Some(IamSettings::new(MockSettings::default()));
    registry
}

/// The first IAM of this kind: the name of its section, and its settings.
pub(crate) fn of_kind<S: AdapterSettings>(settings: &Settings) -> Option<(&str, &S)> {
    settings.iams.iter().find_map(|iam| {
        let adapter: &dyn Any = &*iam.adapter;
        Some((iam.name.as_str(), adapter.downcast_ref()?))
    })
}

/// The settings of the mock, if it is the only IAM.
pub(crate) fn only_mock(settings: &Settings) -> Option<&MockSettings> {
    match &*settings.iams {
        [_] => of_kind(settings).map(|(_, mock)| mock),
        _ => None,
    }
}

/// Reads the settings of `auth-gateway-dev`.
///
/// # Errors
///
/// [`InvalidSettings`] with every problem that could be found.
pub fn settings(
    file: Option<&Path>,
    environment: &BTreeMap<String, String>,
) -> Result<Settings, InvalidSettings> {
    let settings = config::load(file, environment, &registry())?;
    safety::check(&settings, &PassedSockets::default())?;
    Ok(settings)
}
