#![doc = include_str!("../README.md")]

pub mod abandoned;
pub mod adapter;
pub mod choice;
pub mod claims;
pub mod client;
mod client_address;
pub mod clock;
pub mod error;
pub mod files;
pub mod json;
pub mod jwk;
pub mod keycloak;
pub mod kratos;
pub mod ldap;
pub mod list;
pub mod logout_token;
pub mod name;
pub mod oauth2;
mod oauth2_client;
pub mod pem;
pub mod permission_source;
pub mod registry;
pub mod resilient;
pub mod scope;
#[cfg(test)]
mod scripted_adapter;
pub mod secret_file;
pub mod settings;
pub mod single_flight;
pub mod trace;
pub mod types;

pub use adapter::{Capabilities, IamAdapter, PermissionAge, SessionLocation, SetupError};
pub use claims::{ClaimSources, Claims};
pub use client_address::ClientAddress;
pub use clock::{Clock, Moment};
pub use error::{Detail, IamError, Misconfiguration, Refusal};
pub use logout_token::{LogoutNotice, LogoutTokenError, LogoutTokens};
pub use oauth2_client::{AssertionAudience, ClientAuthMethod, ClientSection, OAuth2ClientSettings};
pub use resilient::ResilientAdapter;
pub use scope::{AllowedScopes, InvalidScope, Permission, Permissions, Scope, ScopePattern};
pub use types::{
    Authenticated, ClientContext, Credentials, Introspection, InvalidCredentials, Subject,
    UpstreamSession, UserData,
};
