//! A session that Keycloak has begun and nobody holds yet.

use std::time::Duration;

use tokio::runtime::Handle;
use tracing::Instrument as _;

use super::{Keycloak, NAME};
use crate::types::UpstreamSession;

/// Nobody waits for it, so it may take its time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends the session where the login is given up, by its deadline or by its client, before anybody
/// was told of it: nobody else could.
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

    /// Somebody holds it, or it has ended.
    pub(super) fn claim(mut self) {
        self.session = None;
    }
}

impl Drop for Unclaimed<'_> {
    fn drop(&mut self) {
        // Outside of a runtime nothing can be sent; the session ends by its own time.
        let (Some(session), Ok(runtime)) = (self.session.take(), Handle::try_current()) else {
            return;
        };
        let request = self.keycloak.ending(&session).timeout(PATIENCE);
        let end = async move {
            let ended = request.send().await;
            if !ended.is_ok_and(|answer| answer.status().is_success()) {
                tracing::warn!(
                    iam.adapter = NAME,
                    "could not end the IAM session of a cancelled login"
                );
            }
        };
        runtime.spawn(end.in_current_span());
    }
}
