//! Who hears of it when a session ends at the mock (OpenID Connect Back-Channel Logout 1.0).

use std::fmt;

use actix_web::web::Data;
use async_trait::async_trait;

use crate::http::Front;
use crate::telemetry::metrics::LogoutTokenOutcome;

/// Where the mock's logout tokens go.
#[async_trait]
pub trait LogoutReceiver: fmt::Debug + Send + Sync {
    /// Hands one token over; whether it was taken.
    async fn receive(&self, token: &str) -> bool;
}

/// The gateway in the same process takes them as it does those from the network.
#[async_trait]
impl LogoutReceiver for Data<Front> {
    async fn receive(&self, token: &str) -> bool {
        let received = self.gateway.receive_logout_token(token).await;
        if let Some(outcome) = LogoutTokenOutcome::of(&received) {
            self.metrics.logout_token(outcome);
        }
        if let Err(error) = &received {
            tracing::warn!(error = %error, "the gateway refused the mock's logout token");
        }
        received.is_ok()
    }
}
