//! One server of the comparison.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use test_support::logout_inbox::LogoutInbox;

/// A client and its secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client<'a>(pub(super) &'a str, pub(super) &'a str);

/// The settings of a realm.
#[derive(Debug, Clone, Copy)]
pub(super) enum Setting {
    Enabled(bool),
    DirectGrants(bool),
    SslRequired(bool),
    /// Three failed logins lock an account out for five minutes.
    Lockout,
}

/// The state that an administrator gives an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Active,
    Disabled,
    Incomplete,
}

/// How a login ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Login {
    Succeeded,
    /// A wrong password or one-time password, or a locked account.
    InvalidCredentials,
    /// The account is disabled or incomplete.
    OtherwiseRefused,
}

/// An administrator's calls, the same on both sides.
#[async_trait]
pub(super) trait RealmServer: Sync {
    /// `http://localhost:PORT`.
    fn url(&self) -> &str;

    fn http(&self) -> &reqwest::Client;

    /// Changes the settings of the realm.
    async fn set(&self, setting: Setting);

    /// Sets the state of an account, and forgets its failed logins.
    async fn set_state(&self, email: &str, state: State);

    /// Creates an account, which needs the one-time passwords of [`test_support::totp`] or none.
    async fn create(&self, email: &str, password: &str, otp: bool);

    /// Sets the password of an account.
    async fn set_password(&self, email: &str, password: &str);

    /// Deletes an account.
    async fn delete(&self, email: &str);

    /// Ends all sessions of an account.
    async fn end_sessions_of(&self, email: &str);

    /// Ends one session by its id, if it is active.
    async fn end_session(&self, id: &str);

    /// Assigns one more permission to an account, or removes one.
    async fn permit(&self, email: &str, permission: &str, held: bool);

    /// Waits until the server has counted a login of an account that exists, which some do after their response.
    async fn login_counted(&self, email: &str, login: Login);

    /// Advances the time of the server.
    async fn advance(&self, by: Duration);

    /// The receiver of the logout tokens of the gateway's client.
    fn inbox(&self) -> &LogoutInbox;

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
