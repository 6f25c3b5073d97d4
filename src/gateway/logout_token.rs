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
                let until = begun_until(notice.issued_at, self.clock.now());
                self.end_sessions_of(subject.as_str(), until);
            }
        }
        tokens.take(&notice);
        Ok(notice.ended)
    }
}

/// Which of a subject's sessions a logout token without a session is about: those whose login began
/// at this second or before, in seconds since 1970.
///
/// The token is dated by the IAM's clock, the logins by ours, and the clocks may disagree. So it is
/// the moment at which the token arrives, by our clock, that divides them. A login counts from when
/// its credentials were sent: the IAM may have verified them before it issued the token, however late
/// its answer comes. A login of the same second ends too, because nothing tells which came first, and
/// its user can log in again. A token that was long on its way ends no session that began more than
/// the clocks may disagree after it was issued.
fn begun_until(issued_at: u64, now: Moment) -> u64 {
    let latest = issued_at.saturating_add(SKEW_MAX.as_secs());
    now.unix_seconds().min(latest)
}
