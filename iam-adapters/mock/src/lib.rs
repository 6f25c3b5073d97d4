//! The mock IAM: an in-memory IAM for development and tests, and the program `auth-gateway-dev`, the
//! gateway with the mock.
//!
//! The mock is a program of its own and not a cargo feature, because each namespace has a whole
//! gateway, so the mock depends on the gateway's library. The production program therefore cannot
//! contain the control API, the console, the published key or a function that signs any claims,
//! whatever features a build selects.
//!
//! [`Directory`] is the IAM, [`Mock`] its adapter. [`Namespaces`] isolates tests that run at the same
//! time: each namespace has an IAM, a clock and, in `auth-gateway-dev`, a gateway. [`MockIam`] serves
//! the IAMs to another gateway in Keycloak's protocol ([`wire`]).

pub mod cli;
mod console;
mod control;
pub mod explain;
pub mod fixed_key;
mod fixture;
mod gateways;
mod hosts;
mod iam;
pub mod jws;
mod logout_signer;
mod namespaces;
mod random;
mod routing;
mod server;
mod shifted_clock;
pub mod snapshots;
pub mod test_tokens;
pub mod tokens;
pub mod wire;

use std::collections::BTreeMap;
use std::path::Path;

use auth_gateway::config::{self, InvalidSettings, Registry, Settings};

pub use fixture::MockFixture;
pub use gateways::build;
pub use iam::{
    AccountState, DEMO_USERS, Directory, DirectorySnapshot, Format, Identity, InvalidUser,
    InvalidUsers, LiveSession, Mock, MockSettings, PendingCall, User, Users, UsersError, faults,
    journal, load, parse,
};
pub use logout_signer::{LogoutSigner, logout_claims};
pub use namespaces::{
    DeleteError, InvalidNamespaceName, LogoutNotifier, Namespace, NamespaceFactory,
    NamespaceGateway, NamespaceName, Namespaces, TooManyNamespaces,
};
pub use routing::NAMESPACE;
pub use server::{MockIam, MockIamSettings};
pub use shifted_clock::{Offset, OutOfRange, ShiftedClock};

/// The IAMs of the production program, and the mock, which needs no configuration.
#[must_use]
pub fn registry() -> Registry {
    Registry::default().with_default::<MockSettings>(iam::NAME)
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
