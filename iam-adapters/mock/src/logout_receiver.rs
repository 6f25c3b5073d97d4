//! Who is told when a session ends at the mock.

use std::fmt;

use async_trait::async_trait;
use auth_gateway::gateway::Gateway;

/// Takes logout tokens (OpenID Connect Back-Channel Logout 1.0 section 2.5).
#[async_trait]
pub trait LogoutReceiver: fmt::Debug + Send + Sync {
    /// Hands over a token; whether it was accepted.
    async fn receive(&self, token: &str) -> bool;
}

#[async_trait]
impl LogoutReceiver for Gateway {
    async fn receive(&self, token: &str) -> bool {
        let received = self.receive_logout_token(token).await;
        received
            .inspect_err(|error| tracing::warn!(%error, "the mock's logout token was refused"))
            .is_ok()
    }
}
