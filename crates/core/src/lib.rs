//! Login, exchange and logout, with several IAMs and one set of keys. Independent of HTTP, of the
//! IAM's protocol and of Redis.

mod access_token;
mod account;
mod base64url;
pub mod error;
pub mod event;
mod gateway;
pub mod gateway_keys;
pub mod iams;
pub mod identifiers;
pub mod introspection_cache;
pub mod keys;
pub mod login_limiter;
mod logout_token_limiter;
mod random;
pub mod replica_state;
pub mod request;
pub mod results;
pub mod revocations;
pub mod revoked_sessions;
pub mod sealed_session;
pub mod session;
pub mod session_id;
pub mod session_revoker;
pub mod shared_cache;
pub mod stream_mac_key;
pub mod timeline;
pub mod upstream_logouts;

pub use access_token::{AccessToken, Exchanged, ScopeAudience, TokenPolicy, TokenType};
pub use gateway::{Gateway, Policy};
pub use gateway_keys::{KeyWarning, Keys};
pub use random::Random;
