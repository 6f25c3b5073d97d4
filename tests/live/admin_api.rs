//! Keycloak's admin REST API, as far as the tests need it.

use std::time::{Duration, Instant};

use iam_adapters::Subject;
use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use test_support::client::http_client;
use tokio::sync::Mutex;

use crate::keycloak::{Keycloak, address};

/// An administrator's token lives for 60 s and must not expire during a call.
const TOKEN_USED_FOR: Duration = Duration::from_secs(30);

/// The API with the rights of the server's administrator.
#[derive(Debug)]
pub(crate) struct AdminApi {
    http: reqwest::Client,
    keycloak: Keycloak,
    token: Mutex<Option<(Instant, SecretString)>>,
}

/// A response: the last part of `Location`, and the body if there is one.
pub(crate) struct Done {
    pub(crate) status: StatusCode,
    pub(crate) id: Option<String>,
    pub(crate) body: Value,
}

impl AdminApi {
    pub(crate) fn new(keycloak: Keycloak) -> Self {
        Self {
            http: http_client(),
            keycloak,
            token: Mutex::default(),
        }
    }

    /// Reads from the realm, which has to succeed.
    pub(crate) async fn get(&self, path: &[&str]) -> Value {
        self.done(Method::GET, path, None).await.body
    }

    /// Makes a call to the realm, which has to succeed.
    pub(crate) async fn done(&self, method: Method, path: &[&str], body: Option<Value>) -> Done {
        let done = self.call(method.clone(), path, body).await;
        assert!(
            done.status.is_success(),
            "{method} {path:?}: {} {}",
            done.status,
            done.body
        );
        done
    }

    /// Creates a user with these credentials.
    pub(crate) async fn create_user(&self, email: &str, credentials: &[Value]) -> Subject {
        let user = json!({
            "username": email,
            "email": email,
            "emailVerified": true,
            "firstName": "Test",
            "lastName": "User",
            "enabled": true,
            "credentials": credentials,
        });
        let created = self.done(Method::POST, &["users"], Some(user)).await;
        created.id.and_then(Subject::new).expect("an id")
    }

    /// Makes a call to the realm.
    pub(crate) async fn call(&self, method: Method, path: &[&str], body: Option<Value>) -> Done {
        let path = [&[self.keycloak.realm.as_str()], path].concat();
        self.call_server(method, &path, body).await
    }

    /// Makes a call to the server, below its realms.
    pub(crate) async fn call_server(
        &self,
        method: Method,
        path: &[&str],
        body: Option<Value>,
    ) -> Done {
        let url = address(&self.keycloak.url, &[&["admin", "realms"], path].concat());
        let token = self.token().await;
        let mut request = self
            .http
            .request(method, url)
            .bearer_auth(token.expose_secret());
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.expect("an answer");
        let location = answer.headers().get("location").cloned();
        let id = location.and_then(|location| {
            let location = location.to_str().ok()?;
            Some(location.rsplit('/').next()?.to_owned())
        });
        let status = answer.status();
        let body = answer.bytes().await.expect("a whole answer");
        Done {
            status,
            id,
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        }
    }

    /// Uses no earlier token of the administrator any more, because the server's time has advanced.
    pub(crate) async fn forget_token(&self) {
        *self.token.lock().await = None;
    }

    async fn token(&self) -> SecretString {
        let mut held = self.token.lock().await;
        if let Some((since, token)) = &*held
            && since.elapsed() < TOKEN_USED_FOR
        {
            return token.clone();
        }
        let below = ["realms", "master", "protocol", "openid-connect", "token"];
        let began = Instant::now();
        let answer: Value = self
            .http
            .post(address(&self.keycloak.url, &below))
            .form(&[
                ("grant_type", "password"),
                ("client_id", "admin-cli"),
                ("username", &self.keycloak.admin_user),
                ("password", self.keycloak.admin_password.expose_secret()),
            ])
            .send()
            .await
            .expect("an answer")
            .json()
            .await
            .expect("JSON");
        let token = answer["access_token"].as_str().expect("an administrator");
        let token = SecretString::from(token);
        *held = Some((began, token.clone()));
        token
    }
}
