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
mod server;
pub mod snapshots;
pub mod test_tokens;
pub mod tokens;

use std::collections::BTreeMap;
use std::path::Path;

use auth_gateway::config::{self, InvalidSettings, Registry, Settings};
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
    Registry::default().with_default::<MockSettings>(mock_iam::NAME)
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
    config::load(file, environment, &registry())
}
