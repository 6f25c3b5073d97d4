//! `[token]`: access tokens.

use std::time::Duration;

use auth_gateway_core::{ScopeAudience, TokenType};
use iam_adapters::{Scope, ScopePattern};
use serde::{Deserialize, Serialize};

use super::errors::ConfigErrors;
use super::known::join;
use super::public_url::PublicUrl;
use super::section::section;

/// The most for `lifetime`: an access token cannot be revoked.
const LIFETIME_MAX: Duration = Duration::from_secs(24 * 3600);

section! {
    /// The access tokens (RFC 9068).
    pub struct TokenSettings {
        /// How long a token is valid; whole seconds.
        #[serde(with = "humantime_serde")]
        pub lifetime: Duration = Duration::from_secs(3600), in Duration::from_secs(1)..=LIFETIME_MAX;
        /// The claim `aud`. Never empty after [`load`](super::load).
        #[serde(deserialize_with = "iam_adapters::list::deserialize")]
        pub audience: Vec<String> = Vec::new();
        /// The claim `aud` by granted scope.
        pub audiences: Vec<AudienceSettings> = Vec::new();
        /// The `typ` in the header.
        #[serde(rename = "type", deserialize_with = "iam_adapters::choice::deserialize")]
        pub token_type: TokenType = TokenType::AtJwt;
        pub client_id: String = "auth-gateway".to_owned();
        /// The scope of a request without one.
        pub default_scope: String = String::new();
        /// Whether a request is refused if no scope is granted.
        pub refuse_empty_scope: bool = false;
    }
}

/// An entry of `[[token.audiences]]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AudienceSettings {
    /// A scope name, or the beginning of scope names followed by `*`.
    pub scope: String,
    /// The claim `aud` of these scopes.
    pub audience: String,
}

impl TokenSettings {
    pub(crate) fn scope_audiences(&self) -> Vec<ScopeAudience> {
        let entries = self.audiences.iter().filter_map(|entry| {
            Some(ScopeAudience {
                scope: ScopePattern::parse(&entry.scope).ok()?,
                audience: entry.audience.clone(),
            })
        });
        entries.collect()
    }

    pub(super) fn default_audience(&mut self, public_url: &PublicUrl) {
        if self.audience.is_empty() {
            self.audience.push(public_url.issuer().to_owned());
        }
    }

    pub(super) fn check(&self, problems: &mut ConfigErrors) {
        self.check_ranges(|name| join("token", name), problems);
        if self.lifetime.subsec_nanos() != 0 {
            problems.add("token.lifetime", "must be whole seconds, as expires_in is");
        }
        if !self.audience.iter().all(|audience| is_audience(audience)) {
            problems.add("token.audience", "must not name an empty audience or `*`");
        }
        for entry in &self.audiences {
            if let Err(invalid) = ScopePattern::parse(&entry.scope) {
                problems.add("token.audiences", format!("{:?} {invalid}", entry.scope));
            }
            if !is_audience(&entry.audience) {
                problems.add(
                    "token.audiences",
                    format!("must name the audience of {:?}", entry.scope),
                );
            }
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

/// Whether it names something. Some services accept a token for `*` although it is not for them.
fn is_audience(audience: &str) -> bool {
    !matches!(audience, "" | "*")
}
