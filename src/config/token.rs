//! `[token]`: access tokens.

use std::time::Duration;

use iam_adapters::Scope;
use serde::{Deserialize, Serialize};

use super::problems::Problems;
use super::public_url::PublicUrl;

/// The most for `lifetime`: an access token cannot be revoked.
const LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// The access tokens (RFC 9068).
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default)]
pub struct TokenSettings {
    /// How long a token is valid; whole seconds.
    #[serde(with = "humantime_serde")]
    pub lifetime: Duration,
    /// The claim `aud`. Never empty after [`load`](super::load).
    #[serde(deserialize_with = "super::list::deserialize")]
    pub audience: Vec<String>,
    /// The claim `client_id`.
    pub client_id: String,
    /// The scope of a request without one.
    pub default_scope: String,
    /// Whether a request is refused if no scope is granted.
    pub refuse_empty_scope: bool,
}

impl Default for TokenSettings {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_secs(3600),
            audience: Vec::new(),
            client_id: "auth-gateway".to_owned(),
            default_scope: String::new(),
            refuse_empty_scope: false,
        }
    }
}

impl TokenSettings {
    pub(super) fn default_audience(&mut self, public_url: &PublicUrl) {
        if self.audience.is_empty() {
            self.audience.push(public_url.issuer().to_owned());
        }
    }

    pub(super) fn check(&self, problems: &mut Problems) {
        let lifetime = self.lifetime;
        problems.duration_within(
            "token.lifetime",
            lifetime,
            Duration::from_secs(1)..=LIFETIME_MAX,
        );
        if lifetime.subsec_nanos() != 0 {
            problems.add("token.lifetime", "must be whole seconds, as expires_in is");
        }
        if self.audience.iter().any(String::is_empty) {
            problems.add("token.audience", "must not name an empty audience");
        }
        if self.client_id.is_empty() {
            problems.add("token.client_id", "must not be empty");
        }
        if Scope::parse(&self.default_scope).is_err() {
            problems.add(
                "token.default_scope",
                "must be scope names with one space between them (RFC 6749 section 3.3)",
            );
        }
    }
}
