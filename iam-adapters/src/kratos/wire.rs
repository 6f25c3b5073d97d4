//! Kratos' response bodies.

use std::time::Duration;

use jiff::Timestamp;
use secrecy::SecretString;
use serde::Deserialize;

use crate::json::UniqueMembers;

/// A login flow that has begun.
#[derive(Deserialize)]
pub(super) struct LoginFlow {
    pub(super) id: String,
    /// Not used, but required: a response without it is not that of Kratos.
    #[serde(rename = "requested_aal")]
    _requested_aal: String,
}

/// The 200 of a login. What it states about the session is read from `whoami`.
#[derive(Deserialize)]
pub(super) struct Login {
    pub(super) session_token: SecretString,
}

/// The 200 of `/sessions/whoami`.
#[derive(Deserialize)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) active: bool,
    issued_at: Timestamp,
    expires_at: Timestamp,
    /// The user.
    pub(super) identity: UniqueMembers,
}

impl Session {
    /// By Kratos' clock alone; `None`: it has no time left.
    pub(super) fn lifetime(&self) -> Option<Duration> {
        let lifetime = self.expires_at.duration_since(self.issued_at);
        let lifetime = Duration::try_from(lifetime).ok()?;
        (!lifetime.is_zero()).then_some(lifetime)
    }
}

/// The body of an error.
#[derive(Deserialize)]
pub(super) struct KratosErrorBody {
    pub(super) error: KratosError,
}

#[derive(Default, Deserialize)]
pub(super) struct KratosError {
    pub(super) code: u16,
    #[serde(default)]
    pub(super) id: String,
    #[serde(default)]
    pub(super) reason: String,
    #[serde(default)]
    pub(super) message: String,
}
