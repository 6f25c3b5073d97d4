//! The real Keycloak, and its administrator.

use async_trait::async_trait;
use reqwest::Method;
use serde_json::{Value, json};
use test_support::client::http_client;

use super::server::{RealmServer, Setting};
use crate::admin_api::AdminApi;
use crate::administrator::{one_time_password, password};
use crate::keycloak::Keycloak;
use test_support::scripted_upstream::keycloak::PERMISSIONS_CLIENT;

pub(super) struct KeycloakServer {
    url: String,
    http: reqwest::Client,
    api: AdminApi,
}

impl KeycloakServer {
    pub(super) async fn new(keycloak: &Keycloak) -> Self {
        let keycloak_server = Self {
            url: keycloak.url.clone(),
            http: http_client(),
            api: AdminApi::new(keycloak.clone()),
        };
        // The gateway's client of the tests must not send logout tokens.
        assert_eq!(keycloak_server.api.get(&[]).await["realm"], "shop");
        keycloak_server
    }

    async fn user(&self, email: &str) -> String {
        let users = self.api.get(&["users"]).await;
        let all = users.as_array().expect("users").iter();
        let mut named = all.filter(|user| user["email"] == email);
        let user = named.next().expect("a user of that address");
        user["id"].as_str().expect("an id").to_owned()
    }

    async fn client(&self, name: &str) -> (String, Value) {
        let clients = self.api.get(&["clients"]).await;
        let all = clients.as_array().expect("clients").iter();
        let mut named = all.filter(|client| client["clientId"] == name);
        let client = named.next().expect("a client").clone();
        (client["id"].as_str().expect("an id").to_owned(), client)
    }
}

#[async_trait]
impl RealmServer for KeycloakServer {
    fn url(&self) -> &str {
        &self.url
    }

    fn http(&self) -> &reqwest::Client {
        &self.http
    }

    async fn set(&self, setting: Setting) {
        let realm = match setting {
            Setting::Enabled(on) => json!({"enabled": on}),
            Setting::SslRequired(on) => json!({"sslRequired": if on { "all" } else { "none" }}),
            Setting::DirectGrants(on) => {
                let (id, mut client) = self.client("auth-gateway").await;
                client["directAccessGrantsEnabled"] = json!(on);
                let path = ["clients", id.as_str()];
                self.api.done(Method::PUT, &path, Some(client)).await;
                return;
            }
        };
        self.api.done(Method::PUT, &[], Some(realm)).await;
    }

    async fn disable(&self, email: &str, disabled: bool) {
        let id = self.user(email).await;
        let mut user = self.api.get(&["users", &id]).await;
        user["enabled"] = json!(!disabled);
        self.api
            .done(Method::PUT, &["users", &id], Some(user))
            .await;
    }

    async fn create_with_otp(&self, email: &str, secret: &str) {
        let credentials = [password(&secret.into()), one_time_password()];
        self.api.create_user(email, &credentials).await;
    }

    async fn delete(&self, email: &str) {
        let id = self.user(email).await;
        self.api.done(Method::DELETE, &["users", &id], None).await;
    }

    async fn end_sessions_of(&self, email: &str) {
        let id = self.user(email).await;
        let path = ["users", &id, "logout"];
        self.api.done(Method::POST, &path, None).await;
    }

    async fn permit(&self, email: &str, permission: &str) {
        let (user, (client, _)) = (
            self.user(email).await,
            self.client(PERMISSIONS_CLIENT).await,
        );
        let role = self
            .api
            .get(&["clients", &client, "roles", permission])
            .await;
        let path = ["users", &user, "role-mappings", "clients", &client];
        self.api
            .done(Method::POST, &path, Some(json!([role])))
            .await;
    }
}
