//! One of the two that are compared.

use async_trait::async_trait;
use reqwest::{Method, RequestBuilder};
use serde_json::Value;

/// A client and its secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client<'a>(pub(super) &'a str, pub(super) &'a str);

/// How a realm is set.
#[derive(Debug, Clone, Copy)]
pub(super) enum Setting {
    Enabled(bool),
    DirectGrants(bool),
    SslRequired(bool),
}

/// What an administrator does, the same on both sides.
#[async_trait]
pub(super) trait Side: Sync {
    /// `http://localhost:PORT`.
    fn url(&self) -> &str;

    fn http(&self) -> &reqwest::Client;

    /// Sets the realm otherwise.
    async fn set(&self, setting: Setting);

    /// Switches an account off, or on again.
    async fn disable(&self, email: &str, disabled: bool);

    /// Removes an account.
    async fn delete(&self, email: &str);

    /// Ends all sessions of an account.
    async fn end_sessions_of(&self, email: &str);

    /// Gives an account one more permission.
    async fn permit(&self, email: &str, permission: &str);

    fn request(&self, method: Method, host: &str, path: &str) -> RequestBuilder {
        let url = self.url().replace("localhost", host);
        self.http().request(method, format!("{url}{path}"))
    }
}

/// The names in a list of roles, in order, without those of Keycloak's own.
pub(super) fn roles(of: &Value) -> Vec<String> {
    let all = of["roles"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<_> = all
        .iter()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    names.sort();
    names
}
