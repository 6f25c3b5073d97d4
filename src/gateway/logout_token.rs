//! A logout token, by which the IAM tells that sessions ended (OpenID Connect Back-Channel Logout
//! 1.0). It is a hint: IAMs send it once or not at all, so that freshness remains the guarantee.

use iam_adapters::Moment;
use iam_adapters::logout_token::{Ended, SKEW_MAX};

use super::Gateway;
use super::error::GatewayError;

impl Gateway {
    /// Ends here what a logout token says has ended at the IAM. Nothing is asked of the IAM but,
    /// seldom, its keys; so an IAM may wait for the answer while the gateway waits for the IAM.
    ///
    /// # Errors
    ///
    /// [`GatewayError::NoLogoutTokens`], [`GatewayError::InvalidLogoutToken`], or a fault. Nothing
    /// has ended then.
    pub async fn receive_logout_token(&self, token: &str) -> Result<Ended, GatewayError> {
        let tokens = self.logout_tokens.as_ref();
        let tokens = tokens.ok_or(GatewayError::NoLogoutTokens)?;
        let notice = tokens.verify(token).await?;
        match &notice.ended {
            Ended::Session(id) => self.end_upstream_session(id),
            Ended::AllOf(subject) => {
                let until = verified_until(notice.issued_at, self.clock.now());
                self.end_sessions_of(subject.as_str(), until);
            }
        }
        tokens.take(&notice);
        Ok(notice.ended)
    }
}

/// Which of a subject's sessions a notice without a session is about: those whose credentials were
/// verified at this second or before.
///
/// The moment is the IAM's, the sessions' times are ours, and the clocks may disagree. So it is
/// the moment at which the notice arrives, by our clock, that divides them: a session of the same
/// second ends too, because nobody can tell whether it came first, and whoever logged in since can
/// do so again. A notice that was long on its way takes no session along that was begun more than
/// the clocks may disagree after it was issued.
fn verified_until(issued_at: u64, now: Moment) -> u64 {
    let latest = issued_at.saturating_add(SKEW_MAX.as_secs());
    now.unix_seconds().min(latest)
}
