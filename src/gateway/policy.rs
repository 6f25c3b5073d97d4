//! What an operator decides about sessions and tokens.

use std::time::Duration;

use super::knowledge::Freshness;
use super::login_limiter::Limits;
use super::mint::TokenPolicy;

/// All of it.
#[derive(Debug, Clone)]
pub struct Policy {
    /// How old knowledge may be.
    pub freshness: Freshness,
    /// How many logins may be tried.
    pub login_limits: Limits,
    /// The longest life of a session, whatever the IAM promises.
    pub session_max_lifetime: Duration,
    /// What every token says.
    pub token: TokenPolicy,
    /// What a request without a scope asks for.
    pub default_scope: String,
    /// Whether a request of which nothing is granted is refused.
    pub refuse_empty_scope: bool,
}
