#![doc = include_str!("../README.md")]

pub mod adapter;
pub mod client;
pub mod clock;
pub mod conformance;
pub mod error;
pub mod guarded;
pub mod keycloak;
pub mod mock;
pub mod registry;
pub mod scope;
pub mod secret_file;
pub mod types;

pub use adapter::IamAdapter;
pub use clock::{Clock, Moment};
pub use error::{IamError, Misconfiguration, Refusal};
pub use guarded::Guarded;
pub use scope::{InvalidScope, Permission, Permissions, Scope};
pub use types::{
    Authenticated, ClientContext, Credentials, Introspection, InvalidCredentials, Subject,
    UpstreamSession,
};
