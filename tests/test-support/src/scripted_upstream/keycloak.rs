//! The responses of a Keycloak that works: one realm, one client, one user.

use serde_json::{Value, json};

use super::{Answer, ScriptedUpstream, WireProtocol};
use crate::gateway::keycloak_settings;
use crate::logout_token::SIGNER;

/// The name of the realm.
pub const REALM: &str = "shop";
/// The gateway's client in the realm.
pub const CLIENT: &str = "auth-gateway";
/// The secret of the gateway's client, which the server does not check.
pub const CLIENT_SECRET: &str = "a-secret-of-the-client";
/// The client whose roles are the permissions.
pub const PERMISSIONS_CLIENT: &str = "shop-api";
/// The `sub` of the user.
pub const SUBJECT: &str = "6a8acbcc-faa9-4f71-b1ac-6537854f8366";
/// The `sid` of the user's session.
pub const SESSION: &str = "yZQm5hVTshVX4vPNeGifv91Q";
/// The permissions of the user.
pub const PERMISSIONS: [&str; 2] = ["urn:shop:orders:order:read", "urn:shop:orders:order:write"];

/// The path of the realm's discovery document.
pub const DISCOVERY: &str = "/realms/shop/.well-known/openid-configuration";
/// The path of the realm's token endpoint.
pub const TOKEN: &str = "/realms/shop/protocol/openid-connect/token";
/// The path of the realm's introspection endpoint.
pub const INTROSPECTION: &str = "/realms/shop/protocol/openid-connect/token/introspect";
/// The path of the realm's logout endpoint.
pub const LOGOUT: &str = "/realms/shop/protocol/openid-connect/logout";
/// The path of the realm's key set.
pub const KEYS: &str = "/realms/shop/protocol/openid-connect/certs";

/// Keycloak.
pub const KEYCLOAK: WireProtocol = WireProtocol {
    name: "keycloak",
    adapter: "keycloak",
    discovery: DISCOVERY,
    token: TOKEN,
    introspection: INTROSPECTION,
    logout: LOGOUT,
    grant,
    active,
    inactive,
    probe: || (INTROSPECTION, inactive()),
    refusals: || {
        [
            (400, "Invalid user credentials"),
            (401, "Invalid user credentials"),
            (400, "Account disabled"),
            (400, "Account is not fully set up"),
            (400, "an unknown description"),
        ]
        .map(|(status, description)| refusal(status, "invalid_grant", description))
        .to_vec()
    },
    proves_refusals: false,
    logout_is_revocation: false,
    metadata: discovery,
    works: ScriptedUpstream::in_good_health,
    settings: |url, secret| {
        let settings = keycloak_settings(url, REALM, CLIENT, secret);
        settings
            .map(|(name, value)| (name, value.to_owned()))
            .to_vec()
    },
};

impl ScriptedUpstream {
    /// Starts a server whose every login succeeds, as the one user.
    pub async fn keycloak() -> Self {
        Self::of(&KEYCLOAK).await
    }

    /// From now on every login succeeds, as the one user.
    pub fn in_good_health(&self) -> &Self {
        let issuer = format!("{}/realms/{REALM}", self.url());
        self.on(DISCOVERY, discovery(&issuer))
            .on(TOKEN, Answer::json(200, grant()))
            .on(INTROSPECTION, Answer::json(200, active()))
            .on(LOGOUT, Answer::empty(204))
            .on(KEYS, key_set())
    }
}

/// A discovery document that names an issuer.
pub fn discovery(issuer: &str) -> Answer {
    Answer::json(
        200,
        json!({"issuer": issuer, "grant_types_supported": ["password"]}),
    )
}

/// The response with the realm's keys.
pub fn key_set() -> Answer {
    Answer::json(200, SIGNER.key_set().expect("a key set"))
}

/// The body of a successful login.
pub fn grant() -> Value {
    json!({
        "access_token": "unused",
        "expires_in": 300,
        "refresh_expires_in": 1800,
        "refresh_token": refresh_token(CLIENT),
        "token_type": "Bearer",
        "not-before-policy": 0,
        "session_state": SESSION,
        "scope": "email profile",
    })
}

/// The body of an introspection of an active session.
pub fn active() -> Value {
    json!({
        "active": true,
        "sub": SUBJECT,
        "sid": SESSION,
        "azp": CLIENT,
        "client_id": CLIENT,
        "username": "alice",
        "realm_access": {"roles": ["default-roles-shop", "offline_access", "buyer"]},
        "resource_access": {
            PERMISSIONS_CLIENT: {"roles": PERMISSIONS},
            "account": {"roles": ["manage-account"]},
        },
    })
}

/// The response to an introspection of anything else.
pub fn inactive() -> Answer {
    Answer::json(200, json!({"active": false}))
}

/// An error response.
pub fn refusal(status: u16, error: &str, description: &str) -> Answer {
    Answer::json(
        status,
        json!({"error": error, "error_description": description}),
    )
}

/// The user's refresh token, issued to a client.
pub fn refresh_token(client: &str) -> String {
    let claims = json!({"sub": SUBJECT, "sid": SESSION, "azp": client, "typ": "Refresh"});
    jwt(&claims)
}

/// A JWT with these claims and an invalid signature.
pub fn jwt(claims: &Value) -> String {
    let header = r#"{"alg":"HS512","typ":"JWT"}"#;
    let token = mock_iam::jws::compact(header, claims.to_string(), |_| {
        Some(b"no signature".to_vec())
    });
    token.expect("a signature")
}
