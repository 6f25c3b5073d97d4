//! Responses of the gateway.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};

/// One response, which `openapi.yaml` describes.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    /// The body, as received.
    pub body: Vec<u8>,
}

/// A session, as login returned it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Session {
    /// The identifier of the session.
    pub session_id: String,
    /// The sealed token of the session.
    pub session_token: String,
    /// When the IAM last confirmed the session (RFC 3339).
    pub verified_at: String,
    /// When the session ends (RFC 3339).
    pub expires_at: String,
}

/// The names of a JSON object's members, in alphabetical order.
pub fn names(object: &Value) -> Vec<String> {
    let members = object.as_object().expect("a JSON object");
    let mut names: Vec<_> = members.keys().cloned().collect();
    names.sort();
    names
}

/// The response to an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the contract names them so")]
pub struct Token {
    /// The access token.
    pub access_token: String,
    /// The granted scope.
    pub scope: String,
    /// Seconds until the token expires.
    pub expires_in: u64,
}

impl Token {
    /// The claims of the access token, unverified.
    pub fn claims(&self) -> Value {
        let claims = self.access_token.split('.').nth(1).expect("claims");
        let claims = URL_SAFE_NO_PAD.decode(claims).expect("base64url");
        serde_json::from_slice(&claims).expect("JSON")
    }
}

impl Session {
    /// The two members that the other endpoints need.
    pub fn pair(&self) -> Value {
        json!({ "session_id": self.session_id, "session_token": self.session_token })
    }
}

impl Response {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// A header that has to exist.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        let value = value.unwrap_or_else(|| panic!("no header {name}: {self:?}"));
        value.to_str().expect("a header of text")
    }

    /// The session of a login that has to succeed.
    #[track_caller]
    pub fn session(&self) -> Session {
        self.success()
    }

    /// The token of an exchange that has to succeed.
    #[track_caller]
    pub fn token(&self) -> Token {
        self.success()
    }

    #[track_caller]
    fn success<T: for<'a> Deserialize<'a>>(&self) -> T {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_slice(&self.body).expect("the body of a success")
    }

    /// The names of the body's members, in alphabetical order.
    pub fn members(&self) -> Vec<String> {
        let body = self.json();
        names(&body)
    }

    /// Panics unless this is that error.
    #[track_caller]
    pub fn is_error(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.json()["error"], json!(code), "{}", self.text());
        assert_eq!(
            self.members(),
            ["error", "error_description", "request_id"],
            "{}",
            self.text()
        );
    }

    /// The status and the reason codes, separated by spaces, of a readiness report.
    pub fn readiness(&self) -> (String, String) {
        let report = self.json();
        let reasons = report["reasons"].as_array().expect("a list of reasons");
        let codes = reasons.iter().map(|reason| reason["code"].as_str());
        let codes: Vec<_> = codes.map(|code| code.expect("a code")).collect();
        let status = report["status"].as_str().expect("a status");
        (status.to_owned(), codes.join(" "))
    }

    /// Panics unless this readiness report has this status, for exactly these reasons.
    #[track_caller]
    pub fn is_readiness(&self, status: &str, codes: &[&str]) {
        let expected = (status.to_owned(), codes.join(" "));
        assert_eq!(self.readiness(), expected, "{}", self.text());
        let http = if status == "not_ready" { 503 } else { 200 };
        assert_eq!(self.status, http, "{}", self.text());
    }

    /// Status, headers and body, without what differs between any two responses.
    pub fn text(&self) -> String {
        let id = self.header("x-request-id");
        let mut headers: Vec<_> = self
            .headers
            .iter()
            .filter(|(name, _)| !["date", "x-request-id"].contains(&name.as_str()))
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or("?")))
            .collect();
        headers.sort();
        let body = String::from_utf8_lossy(&self.body).replace(id, "{request_id}");
        format!("{}\n{}\n\n{body}", self.status, headers.join("\n"))
    }
}
