//! A session that Keycloak has begun and that no client has received yet.

use std::time::Duration;

use super::{Keycloak, NAME};
use crate::abandoned;
use crate::error::IamError;
use crate::types::UpstreamSession;

/// No client waits for it, so it may take longer than a logout.
const DEADLINE: Duration = Duration::from_secs(10);

/// Ends the session where the login fails or is cancelled, by its deadline or by its client.
pub(super) struct Unclaimed<'a> {
    keycloak: &'a Keycloak,
    session: Option<UpstreamSession>,
}

impl<'a> Unclaimed<'a> {
    pub(super) fn new(keycloak: &'a Keycloak, session: &UpstreamSession) -> Self {
        Self {
            keycloak,
            session: Some(session.clone()),
        }
    }

    /// The login has succeeded.
    pub(super) fn claim(mut self) {
        self.session = None;
    }
}

impl Drop for Unclaimed<'_> {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        let request = self.keycloak.ending(&session).timeout(DEADLINE);
        abandoned::end_session(NAME, async move {
            match request.send().await.map(|answer| answer.status()) {
                Ok(status) if status.is_success() => Ok(()),
                Ok(status) => Err(IamError::Failed(format!("status {}", status.as_u16()))),
                Err(_) => Err(IamError::Unreachable("no answer".to_owned())),
            }
        });
    }
}
