//! The bodies of the three endpoints, member for member as the contract has them.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::tz::Offset;
use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serialize};

/// Whether a member of a request has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// A request without it is refused.
    Required,
    /// It may be left out.
    Optional,
}

/// The body of a request: a JSON object whose known members are strings, each there at most once.
/// Other members are ignored.
pub(super) trait RequestBody<'a>: Deserialize<'a> {
    /// The known members.
    const MEMBERS: &'static [(&'static str, Presence)];
}

/// What login is sent.
#[derive(Deserialize)]
pub(super) struct LoginRequest {
    /// The e-mail address.
    pub(super) email: String,
    /// The password.
    pub(super) password: SecretString,
}

impl RequestBody<'_> for LoginRequest {
    const MEMBERS: &'static [(&'static str, Presence)] = &[
        ("email", Presence::Required),
        ("password", Presence::Required),
    ];
}

/// What login answers.
#[derive(Serialize)]
pub(super) struct SessionResponse<'a> {
    /// Identifies the session.
    pub(super) session_id: &'a str,
    /// Proves its possession.
    pub(super) session_token: &'a str,
    /// When the credentials were verified.
    pub(super) verified_at: String,
    /// When the session expires.
    pub(super) expires_at: String,
}

/// What token is sent.
#[derive(Deserialize)]
pub(super) struct TokenRequest<'a> {
    /// From login.
    #[serde(borrow)]
    pub(super) session_id: Cow<'a, str>,
    /// From login.
    #[serde(borrow)]
    pub(super) session_token: Cow<'a, str>,
    /// `session`, and nothing else.
    #[serde(borrow)]
    pub(super) grant_type: Cow<'a, str>,
    /// What is asked for; absent and empty are alike. `null` is neither.
    #[serde(borrow, default)]
    pub(super) scope: Cow<'a, str>,
}

impl<'a> RequestBody<'a> for TokenRequest<'a> {
    const MEMBERS: &'static [(&'static str, Presence)] = &[
        ("session_id", Presence::Required),
        ("session_token", Presence::Required),
        ("grant_type", Presence::Required),
        ("scope", Presence::Optional),
    ];
}

/// What token answers.
pub(super) struct TokenResponse<'a> {
    /// The signed JWT.
    pub(super) access_token: &'a str,
    /// What was granted.
    pub(super) scope: &'a str,
    /// How long the token is valid, in seconds.
    pub(super) expires_in: u64,
}

impl TokenResponse<'_> {
    /// The JSON, with `token_type`, which is always `bearer`.
    ///
    /// Written by hand: neither base64url nor the grammar of scopes (RFC 6749 section 3.3) has a
    /// character that JSON would escape, and to look for one costs more than all the rest.
    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(self.access_token.len() + self.scope.len() + 96);
        json.extend_from_slice(br#"{"access_token":""#);
        json.extend_from_slice(self.access_token.as_bytes());
        json.extend_from_slice(br#"","scope":""#);
        json.extend_from_slice(self.scope.as_bytes());
        json.extend_from_slice(br#"","expires_in":"#);
        json.extend_from_slice(self.expires_in.to_string().as_bytes());
        json.extend_from_slice(br#","token_type":"bearer"}"#);
        json
    }
}

/// What logout is sent.
#[derive(Deserialize)]
pub(super) struct LogoutRequest<'a> {
    /// From login.
    #[serde(borrow)]
    pub(super) session_id: Cow<'a, str>,
    /// From login.
    #[serde(borrow)]
    pub(super) session_token: Cow<'a, str>,
}

impl<'a> RequestBody<'a> for LogoutRequest<'a> {
    const MEMBERS: &'static [(&'static str, Presence)] = &[
        ("session_id", Presence::Required),
        ("session_token", Presence::Required),
    ];
}

/// What logout answers.
#[derive(Serialize)]
pub(super) struct LogoutResponse {
    /// Always `Ok`.
    pub(super) status: &'static str,
}

/// What resetting the login limits is sent.
#[derive(Deserialize)]
pub(super) struct LoginLimitsResetRequest {
    /// Whose failures to forget.
    pub(super) email: String,
    /// An address in a known network, whose failures to forget too.
    #[serde(default, deserialize_with = "present")]
    pub(super) client_address: Option<String>,
}

/// A member that may be left out, and is a string where it is there.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

impl RequestBody<'_> for LoginLimitsResetRequest {
    const MEMBERS: &'static [(&'static str, Presence)] = &[
        ("email", Presence::Required),
        ("client_address", Presence::Optional),
    ];
}

/// RFC 3339 with a numeric offset: `Z` is not an offset to every parser of ISO 8601.
pub(super) fn timestamp(unix_seconds: u64) -> String {
    let seconds = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
    let last = Timestamp::MAX.as_second();
    let time = Timestamp::from_second(seconds.min(last)).unwrap_or(Timestamp::MAX);
    time.display_with_offset(Offset::UTC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_response_is_the_json_that_it_looks_like() {
        let response = TokenResponse {
            access_token: "a-b_c.d.e",
            scope: "urn:shop:orders:order:read !#[]~",
            expires_in: 3600,
        };
        let json: serde_json::Value = serde_json::from_slice(&response.to_json()).unwrap();
        let expected = serde_json::json!({
            "access_token": "a-b_c.d.e",
            "scope": "urn:shop:orders:order:read !#[]~",
            "expires_in": 3600,
            "token_type": "bearer",
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn a_timestamp_has_whole_seconds_and_a_numeric_offset() {
        assert_eq!(timestamp(1_795_229_441), "2026-11-21T02:50:41+00:00");
        assert_eq!(timestamp(u64::MAX), "9999-12-30T22:00:00+00:00");
    }
}
