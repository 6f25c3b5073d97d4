//! The responses of an Ory Kratos 1.3.1 that works: one user. They are those of a real one, without members that
//! repeat others.

use serde_json::{Value, json};

use super::keycloak::{PERMISSIONS, SUBJECT};
use super::{Answer, WireProtocol};

/// The path that begins a login, and tells whether a session token has an active session.
pub const LOGIN_FLOW: &str = "/self-service/login/api";
/// The path that completes a login.
pub const LOGIN: &str = "/self-service/login?flow=2d446da5-70fb-4860-b27c-4350e3630c5c";
/// The path about a session.
pub const WHOAMI: &str = "/sessions/whoami";
/// The path that ends a session.
pub const LOGOUT: &str = "/self-service/logout/api";
/// The path of the probe.
pub const READY: &str = "/health/ready";

/// The token of the session.
pub const SESSION_TOKEN: &str = "ory_st_QZGit3rCwzZV7It3wk6eXy4yye7XPSzZ";
/// The id of the session.
pub const SESSION: &str = "d59180cf-aee8-4bc1-ba4f-883da836cafb";

/// Ory Kratos.
pub const KRATOS: WireProtocol = WireProtocol {
    name: "kratos",
    adapter: "kratos",
    discovery: READY,
    token: LOGIN,
    introspection: WHOAMI,
    logout: LOGOUT,
    grant: || json!({"session_token": SESSION_TOKEN, "session": session(), "continue_with": null}),
    active: session,
    inactive: || {
        let reason = "No valid session credentials found in the request.";
        error(
            401,
            json!({"reason": reason, "message": "The request could not be authorized"}),
        )
    },
    probe: || (READY, ready()),
    refusals: || {
        vec![
            failed_login(&[4_000_006]),
            failed_login(&[4_000_010]),
            error(401, json!({"message": "identity is disabled"})),
        ]
    },
    proves_refusals: false,
    logout_is_revocation: false,
    metadata: |_| ready(),
    works: |upstream| {
        upstream
            .on(READY, ready())
            .on(LOGIN_FLOW, Answer::json(200, flow()))
            .on(LOGIN, Answer::json(200, (KRATOS.grant)()))
            .on(WHOAMI, Answer::json(200, session()))
            .on(LOGOUT, Answer::empty(204))
    },
    settings: |url, _| vec![("iam.kratos.url", url.to_owned())],
};

fn ready() -> Answer {
    Answer::json(200, json!({"status": "ok"}))
}

/// A login flow that has begun. Its address is one that no test serves.
pub fn flow() -> Value {
    json!({
        "id": "2d446da5-70fb-4860-b27c-4350e3630c5c",
        "organization_id": null,
        "type": "api",
        "expires_at": "2026-11-24T19:30:19.568189625Z",
        "issued_at": "2026-11-24T18:30:19.568189625Z",
        "request_url": "http://127.0.0.1:1/self-service/login/api",
        "ui": {
            "action": "http://127.0.0.1:1/self-service/login?flow=2d446da5-70fb-4860-b27c-4350e3630c5c",
            "method": "POST",
            "nodes": [],
        },
        "refresh": false,
        "requested_aal": "aal1",
        "state": "choose_method",
    })
}

/// The response to a login that was not completed, with these messages about the whole.
pub fn failed_login(messages: &[u64]) -> Answer {
    let messages = messages.iter();
    let messages = messages.map(|id| json!({"id": id, "text": "a text", "type": "error"}));
    let mut flow = flow();
    flow["ui"]["messages"] = messages.collect();
    Answer::json(400, flow)
}

/// An active session of one hour, with its user.
pub fn session() -> Value {
    json!({
        "id": SESSION,
        "active": true,
        "expires_at": "2026-11-24T19:30:19.921462319Z",
        "authenticated_at": "2026-11-24T18:30:19.921462319Z",
        "authenticator_assurance_level": "aal1",
        "issued_at": "2026-11-24T18:30:19.921462319Z",
        "identity": {
            "id": SUBJECT,
            "schema_id": "default",
            "state": "active",
            "traits": {"email": "alice@example.test"},
            "metadata_public": {"permissions": PERMISSIONS, "teams": ["sales", "two words"]},
            "organization_id": null,
        },
        "devices": [],
    })
}

/// An error with this status and these members.
pub fn error(status: u16, mut members: Value) -> Answer {
    members["code"] = status.into();
    Answer::json(status, json!({"error": members}))
}
