//! A running Keycloak: the shared one, or one of a single test that may kill it.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use test_support::client::http_client;
use test_support::gateway::keycloak_settings;

use crate::launched::Launched;

/// The address of a realm and the credentials for it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Keycloak {
    pub(crate) url: String,
    pub(crate) realm: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: SecretString,
    pub(crate) admin_user: String,
    pub(crate) admin_password: SecretString,
}

impl Keycloak {
    /// The shared instance. Each test creates its own users.
    pub(crate) fn shared() -> Self {
        Self {
            url: environment("KEYCLOAK_URL"),
            realm: environment("KEYCLOAK_REALM"),
            client_id: environment("KEYCLOAK_CLIENT_ID"),
            client_secret: environment("KEYCLOAK_CLIENT_SECRET").into(),
            admin_user: environment("KEYCLOAK_ADMIN_USER"),
            admin_password: environment("KEYCLOAK_ADMIN_PASSWORD").into(),
        }
    }

    /// The same realm with the credentials of another client.
    pub(crate) fn as_client(&self, client_id: &str, client_secret: &str) -> Self {
        Self {
            client_id: client_id.to_owned(),
            client_secret: client_secret.into(),
            ..self.clone()
        }
    }

    /// The settings of a gateway in front of this realm.
    pub(crate) fn settings(&self) -> [(&'static str, &str); 5] {
        let secret = self.client_secret.expose_secret();
        keycloak_settings(&self.url, &self.realm, &self.client_id, secret)
    }

    pub(crate) fn port(&self) -> u16 {
        let url = Url::parse(&self.url).expect("an address");
        url.port().expect("a port of its own")
    }

    /// Introspects a session at Keycloak without the gateway.
    pub(crate) async fn introspect(&self, refresh_token: &SecretString) -> Value {
        let answer = self
            .post(&["token", "introspect"])
            .form(&[
                ("token", refresh_token.expose_secret()),
                ("token_type_hint", "refresh_token"),
            ])
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status(), 200);
        answer.json().await.expect("JSON")
    }

    /// Logs in without the gateway; returns the status.
    pub(crate) async fn log_in(&self, email: &str, password: &str) -> u16 {
        self.grant(email, password).await.status().as_u16()
    }

    /// The access token of a login without the gateway.
    pub(crate) async fn access_token(&self, email: &str, password: &SecretString) -> SecretString {
        let answer = self.grant(email, password.expose_secret()).await;
        let answer: Value = answer.json().await.expect("JSON");
        answer["access_token"].as_str().expect("a login").into()
    }

    async fn grant(&self, email: &str, password: &str) -> reqwest::Response {
        self.post(&["token"])
            .form(&[
                ("grant_type", "password"),
                ("username", email),
                ("password", password),
            ])
            .send()
            .await
            .expect("an answer")
    }

    fn post(&self, endpoint: &[&str]) -> reqwest::RequestBuilder {
        let below = ["realms", &self.realm, "protocol", "openid-connect"];
        let url = address(&self.url, &[&below[..], endpoint].concat());
        let secret = self.client_secret.expose_secret();
        http_client()
            .post(url)
            .basic_auth(&self.client_id, Some(secret))
    }
}

pub(crate) fn environment(variable: &str) -> String {
    env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: tests/run sets it"))
}

/// A URL below another; each part is percent-encoded.
pub(crate) fn address(base: &str, below: &[&str]) -> Url {
    let mut url = Url::parse(base).expect("an address");
    url.path_segments_mut()
        .expect("an address with a path")
        .pop_if_empty()
        .extend(below);
    url
}

/// Committed data must survive a kill.
const DURABLE: &str = "--durable";

/// A Keycloak for one test. It is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) keycloak: Keycloak,
    /// Its address with TLS.
    pub(crate) tls_url: Option<String>,
    home: String,
    process: Launched,
}

#[derive(Deserialize)]
struct Facts {
    #[serde(flatten)]
    keycloak: Keycloak,
    tls_url: Option<String>,
    home: String,
}

impl Instance {
    /// Starts one with the initial data.
    pub(crate) async fn start() -> Self {
        Self::launch(vec![DURABLE.to_owned()]).await
    }

    /// Starts one without `--hostname`, which uses the host name of each request. Its time can be shifted, and it counts
    /// failed logins without refusing others of the user meanwhile.
    pub(crate) async fn start_for_any_host() -> Self {
        let arguments = ["--any-host", "--shifted-time", "--concurrent-logins"];
        Self::launch(arguments.map(str::to_owned).to_vec()).await
    }

    /// Sets how far its time is ahead of the machine's. Only for one of [`Self::start_for_any_host`].
    pub(crate) fn shift_time(&self, ahead: Duration) {
        // Written in place, because the server has mapped the file.
        let file = OpenOptions::new()
            .write(true)
            .open(format!("{}/shifted-time", self.home));
        let seconds = ahead.as_secs().to_ne_bytes();
        file.and_then(|mut file| file.write_all(&seconds))
            .expect("the file of its time");
    }

    /// Starts one that also serves TLS and requests certificates. The folder has its certificate, its key
    /// and the authorities of clients.
    pub(crate) async fn start_with_tls(folder: &Path) -> Self {
        let folder = folder.to_str().expect("text").to_owned();
        Self::launch(vec!["--any-host".to_owned(), "--tls".to_owned(), folder]).await
    }

    /// Kills it without a graceful shutdown.
    pub(crate) fn kill(mut self) -> Killed {
        assert!(self.process.is_running());
        Killed {
            home: self.home,
            port: self.keycloak.port(),
        }
    }

    async fn launch(arguments: Vec<String>) -> Self {
        let (process, facts) = Launched::start("KEYCLOAK_LAUNCHER", arguments).await;
        let Facts {
            keycloak,
            tls_url,
            home,
        } = facts;
        Self {
            keycloak,
            tls_url,
            home,
            process,
        }
    }
}

/// The data and address of a killed instance.
#[derive(Debug)]
pub(crate) struct Killed {
    home: String,
    port: u16,
}

impl Killed {
    /// Starts it again, with the same data, at the same address.
    pub(crate) async fn start_again(self) -> Instance {
        let port = self.port.to_string();
        let arguments = ["--home", &self.home, "--http-port", &port, DURABLE];
        Instance::launch(arguments.map(str::to_owned).to_vec()).await
    }
}
