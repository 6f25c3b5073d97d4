//! A Keycloak in good health, as far as its wire goes: one realm, one client, one user.

use serde_json::{Value, json};

use super::{Answer, ScriptedUpstream};

pub(crate) const REALM: &str = "shop";
pub(crate) const CLIENT: &str = "auth-gateway";
pub(crate) const PERMISSIONS_CLIENT: &str = "shop-api";
pub(crate) const SUBJECT: &str = "6a8acbcc-faa9-4f71-b1ac-6537854f8366";
pub(crate) const SESSION: &str = "yZQm5hVTshVX4vPNeGifv91Q";
pub(crate) const PERMISSIONS: [&str; 2] =
    ["urn:shop:orders:order:read", "urn:shop:orders:order:write"];

pub(crate) const DISCOVERY: &str = "/realms/shop/.well-known/openid-configuration";
pub(crate) const TOKEN: &str = "/realms/shop/protocol/openid-connect/token";
pub(crate) const INTROSPECTION: &str = "/realms/shop/protocol/openid-connect/token/introspect";
pub(crate) const LOGOUT: &str = "/realms/shop/protocol/openid-connect/logout";
pub(crate) const KEYS: &str = "/realms/shop/protocol/openid-connect/certs";

impl ScriptedUpstream {
    /// Starts a server that logs everybody in as the one user.
    pub(crate) async fn keycloak() -> Self {
        let upstream = Self::start().await;
        upstream.in_good_health();
        upstream
    }

    /// From now on everybody is logged in as the one user.
    pub(crate) fn in_good_health(&self) -> &Self {
        let issuer = format!("{}/realms/{REALM}", self.url());
        self.on(DISCOVERY, discovery(&issuer))
            .on(TOKEN, Answer::json(200, grant()))
            .on(INTROSPECTION, Answer::json(200, active()))
            .on(LOGOUT, Answer::empty(204))
            .on(KEYS, key_set())
    }
}

/// A discovery document that names an issuer.
pub(crate) fn discovery(issuer: &str) -> Answer {
    Answer::json(
        200,
        json!({"issuer": issuer, "grant_types_supported": ["password"]}),
    )
}

/// 200 of the realm's keys: the one of RFC 8037 appendix A.2.
pub(crate) fn key_set() -> Answer {
    Answer::json(
        200,
        json!({"keys": [{
            "kty": "OKP",
            "crv": "Ed25519",
            "use": "sig",
            "alg": "EdDSA",
            "kid": "k",
            "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
        }]}),
    )
}

/// 200 of a login, to be changed at will.
pub(crate) fn grant() -> Value {
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

/// 200 of an introspection of a living session, to be changed at will.
pub(crate) fn active() -> Value {
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

/// 200 of an introspection of anything else.
pub(crate) fn inactive() -> Answer {
    Answer::json(200, json!({"active": false}))
}

/// An answer that refuses.
pub(crate) fn refusal(status: u16, error: &str, description: &str) -> Answer {
    Answer::json(
        status,
        json!({"error": error, "error_description": description}),
    )
}

/// The user's refresh token, made by a client.
pub(crate) fn refresh_token(client: &str) -> String {
    let claims = json!({"sub": SUBJECT, "sid": SESSION, "azp": client, "typ": "Refresh"});
    jwt(&claims)
}

/// A JWT with these claims and a signature that is none.
pub(crate) fn jwt(claims: &Value) -> String {
    let header = base64url(br#"{"alg":"HS512","typ":"JWT"}"#);
    let claims = base64url(claims.to_string().as_bytes());
    format!("{header}.{claims}.{}", base64url(b"no signature"))
}

fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word = (0..3).fold(0, |word, at| {
            word << 8 | u32::from(three.get(at).copied().unwrap_or(0))
        });
        for at in 0..=three.len() {
            text.push(char::from(ALPHABET[(word >> (18 - 6 * at) & 63) as usize]));
        }
    }
    text
}
