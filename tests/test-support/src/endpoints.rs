//! The paths of the gateway's endpoints.

/// Logs a user in.
pub const LOGIN: &str = "/api/v1/auth/login";
/// Exchanges a session for an access token.
pub const TOKEN: &str = "/api/v1/auth/token";
/// Logs a session out.
pub const LOGOUT: &str = "/api/v1/auth/logout";
/// Receives logout tokens (OpenID Connect Back-Channel Logout 1.0).
pub const BACKCHANNEL_LOGOUT: &str = "/api/v1/auth/backchannel-logout";
/// The public signing keys (RFC 7517).
pub const JWKS: &str = "/.well-known/jwks.json";
/// The metadata of the authorization server (RFC 8414).
pub const METADATA: &str = "/.well-known/oauth-authorization-server";
/// The same, for clients of OpenID Connect Discovery.
pub const OPENID_METADATA: &str = "/.well-known/openid-configuration";
/// Revokes sessions, on the management listener.
pub const REVOKE: &str = "/admin/v1/sessions/revoke";
/// Resets the login limits of an account, on the management listener.
pub const RESET: &str = "/admin/v1/login-limits/reset";
/// Readiness, on the management listener.
pub const READY: &str = "/health/ready";
/// Begins the paths of the mock's control API, on the management listener.
pub const CONTROL: &str = "/mock/v1";
