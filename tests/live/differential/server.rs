//! One server of the comparison.

use async_trait::async_trait;
use reqwest::{Method, RequestBuilder};
use serde_json::Value;

/// A client and its secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client<'a>(pub(super) &'a str, pub(super) &'a str);

/// The settings of a realm.
#[derive(Debug, Clone, Copy)]
pub(super) enum Setting {
    Enabled(bool),
    DirectGrants(bool),
    SslRequired(bool),
}

/// An administrator's calls, the same on both sides.
#[async_trait]
pub(super) trait RealmServer: Sync {
    /// `http://localhost:PORT`.
    fn url(&self) -> &str;

    fn http(&self) -> &reqwest::Client;

    /// Changes the settings of the realm.
    async fn set(&self, setting: Setting);

    /// Disables or enables an account.
    async fn disable(&self, email: &str, disabled: bool);

    /// Creates an account that needs the one-time passwords of [`test_support::totp`].
    async fn create_with_otp(&self, email: &str, password: &str);

    /// Deletes an account.
    async fn delete(&self, email: &str);

    /// Ends all sessions of an account.
    async fn end_sessions_of(&self, email: &str);

    /// Assigns one more permission to an account.
    async fn permit(&self, email: &str, permission: &str);

    fn request(&self, method: Method, host: &str, path: &str) -> RequestBuilder {
        let url = self.url().replace("localhost", host);
        self.http().request(method, format!("{url}{path}"))
    }
}

/// The names in a list of roles, sorted, without Keycloak's default roles.
pub(super) fn roles(of: &Value) -> Vec<String> {
    let all = of["roles"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<_> = all
        .iter()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    names.sort();
    names
}
