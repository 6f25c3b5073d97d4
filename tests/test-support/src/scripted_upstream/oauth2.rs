//! The responses of a Glewlwyd and of a django-oauth-toolkit that work: one client, one user.

use serde_json::{Value, json};

use super::keycloak::{CLIENT, PERMISSIONS, SUBJECT, inactive, refusal};
use super::{Answer, ScriptedUpstream, WireProtocol};

/// Glewlwyd, with the preset `glewlwyd`.
pub const GLEWLWYD: WireProtocol = WireProtocol {
    name: "glewlwyd",
    adapter: "oauth2",
    discovery: "/api/oidc/.well-known/openid-configuration",
    token: "/api/oidc/token",
    introspection: "/api/oidc/introspect",
    logout: "/api/oidc/revoke",
    grant,
    active: || {
        json!({
            "active": true,
            "sub": SUBJECT,
            "username": "alice",
            "client_id": CLIENT,
            "iat": 4_000_000_000_u64,
            "exp": 4_000_001_800_u64,
            "scope": format!("openid {}", PERMISSIONS.join(" ")),
            "token_type": "refresh_token",
        })
    },
    inactive,
    probe: || (GLEWLWYD.introspection, inactive()),
    refusals: || vec![Answer::empty(403)],
    proves_refusals: true,
    logout_is_revocation: true,
    metadata: |issuer| metadata(&GLEWLWYD, issuer),
    works: |upstream| works(&GLEWLWYD, upstream),
    settings: |url, secret| {
        let scope = format!("openid {}", PERMISSIONS.join(" "));
        let mut settings = settings(&GLEWLWYD, url, secret);
        settings.push(("iam.oauth2.scope", scope));
        settings
    },
};

/// django-oauth-toolkit, with the preset `django-oauth-toolkit`.
pub const DJANGO_OAUTH_TOOLKIT: WireProtocol = WireProtocol {
    name: "django-oauth-toolkit",
    adapter: "oauth2",
    discovery: "/o/.well-known/oauth-authorization-server",
    token: "/o/token/",
    introspection: "/o/introspect/",
    logout: "/o/revoke_token/",
    grant,
    active: || {
        json!({
            "active": true,
            "username": SUBJECT,
            "client_id": CLIENT,
            "exp": 4_000_001_800_u64,
            "scope": PERMISSIONS.join(" "),
        })
    },
    inactive,
    probe: || (DJANGO_OAUTH_TOOLKIT.introspection, inactive()),
    refusals: || vec![refusal(400, "invalid_grant", "Invalid credentials given.")],
    proves_refusals: false,
    logout_is_revocation: true,
    metadata: |issuer| metadata(&DJANGO_OAUTH_TOOLKIT, issuer),
    works: |upstream| works(&DJANGO_OAUTH_TOOLKIT, upstream),
    settings: |url, secret| settings(&DJANGO_OAUTH_TOOLKIT, url, secret),
};

/// The issuer of a server at this address.
fn issuer(protocol: &WireProtocol, url: &str) -> String {
    let (path, _) = protocol
        .discovery
        .split_once("/.well-known")
        .expect("a path");
    format!("{url}{path}")
}

/// Its endpoints are below the issuer.
fn metadata(protocol: &WireProtocol, issuer: &str) -> Answer {
    let (path, _) = protocol
        .discovery
        .split_once("/.well-known")
        .expect("a path");
    let endpoint = |endpoint: &str| {
        let below = endpoint.strip_prefix(path).expect("below the issuer");
        format!("{issuer}{below}")
    };
    Answer::json(
        200,
        json!({
            "issuer": issuer,
            "token_endpoint": endpoint(protocol.token),
            "introspection_endpoint": endpoint(protocol.introspection),
            "revocation_endpoint": endpoint(protocol.logout),
        }),
    )
}

fn works<'a>(protocol: &WireProtocol, upstream: &'a ScriptedUpstream) -> &'a ScriptedUpstream {
    let issuer = issuer(protocol, &upstream.url());
    upstream
        .on(protocol.discovery, metadata(protocol, &issuer))
        .on(protocol.token, Answer::json(200, grant()))
        .on(
            protocol.introspection,
            Answer::json(200, (protocol.active)()),
        )
        .on(protocol.logout, Answer::empty(200))
}

fn settings(protocol: &WireProtocol, url: &str, secret: &str) -> Vec<(&'static str, String)> {
    vec![
        ("iam.oauth2.preset", protocol.name.to_owned()),
        ("iam.oauth2.issuer", issuer(protocol, url)),
        ("iam.oauth2.client_id", CLIENT.to_owned()),
        ("iam.oauth2.client_secret", secret.to_owned()),
    ]
}

fn grant() -> Value {
    json!({
        "access_token": "an access token of the IAM",
        "expires_in": 1800,
        "refresh_token": "a refresh token of the IAM",
        "token_type": "bearer",
        "scope": PERMISSIONS.join(" "),
    })
}
