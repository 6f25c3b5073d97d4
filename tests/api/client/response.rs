//! What the gateway answered.

use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};

/// One response, of which `openapi.yaml` approves.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// A session, as login returned it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the contract names them so")]
pub(crate) struct Session {
    pub(crate) session_id: String,
    pub(crate) session_token: String,
    pub(crate) verified_at: String,
    pub(crate) expires_at: String,
}

/// The names of a JSON object's members, in alphabetical order.
pub(crate) fn names(object: &Value) -> Vec<String> {
    let members = object.as_object().expect("a JSON object");
    let mut names: Vec<_> = members.keys().cloned().collect();
    names.sort();
    names
}

/// What an exchange returned.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the contract names them so")]
pub(crate) struct Token {
    pub(crate) access_token: String,
    pub(crate) scope: String,
    pub(crate) expires_in: u64,
}

impl Session {
    /// The two members that the other endpoints need.
    pub(crate) fn pair(&self) -> Value {
        json!({ "session_id": self.session_id, "session_token": self.session_token })
    }
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// A header that has to be there.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        let value = value.unwrap_or_else(|| panic!("no header {name}: {self:?}"));
        value.to_str().expect("a header of text")
    }

    /// The session, where this is a login that succeeded.
    #[track_caller]
    pub(crate) fn session(&self) -> Session {
        self.success()
    }

    /// The token, where this is an exchange that succeeded.
    #[track_caller]
    pub(crate) fn token(&self) -> Token {
        self.success()
    }

    #[track_caller]
    fn success<T: for<'a> Deserialize<'a>>(&self) -> T {
        assert_eq!(self.status, 200, "{}", self.told());
        serde_json::from_slice(&self.body).expect("the body of a success")
    }

    /// The names of the body's members, in alphabetical order.
    pub(crate) fn members(&self) -> Vec<String> {
        let body = self.json();
        names(&body)
    }

    /// Panics unless this is that error.
    #[track_caller]
    pub(crate) fn is_error(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}", self.told());
        assert_eq!(self.json()["error"], json!(code), "{}", self.told());
        assert_eq!(
            self.members(),
            ["error", "error_description", "request_id"],
            "{}",
            self.told()
        );
    }

    /// All that the client is told: status, headers and body, to the byte, but for what differs
    /// between any two responses.
    pub(crate) fn told(&self) -> String {
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
