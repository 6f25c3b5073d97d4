//! An HTTP client with a method for each endpoint. Every response is checked with `openapi.yaml`, and
//! those of the mock's control API with its own document, before a test receives it.

use std::fmt::Display;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, redirect};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::contract::Contract;
use crate::endpoints::{BACKCHANNEL_LOGOUT, CONTROL, LOGIN, LOGOUT, READY, TOKEN};
use crate::wait::until_ok;

mod response;

pub use response::{Response, Session, names};

const FORM: &str = "application/x-www-form-urlencoded";

const JSON: &str = "application/json";

/// Far below the 15 s after which the gateway closes an idle connection, so that no request is sent on a
/// connection that is just being closed.
const POOL_IDLE: Duration = Duration::from_secs(5);

/// An HTTP client with its own connections, because each test has its own runtime. It uses no proxy
/// and follows no redirect.
pub fn http_client() -> reqwest::Client {
    http_client_builder().build().expect("an HTTP client")
}

/// The builder of [`http_client`], for a client with more settings.
pub fn http_client_builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .pool_idle_timeout(POOL_IDLE)
}

/// A client of one gateway.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    public: String,
    management: String,
}

impl Client {
    /// A client for the gateway whose two listeners have these addresses.
    pub fn new(public: impl Display, management: impl Display) -> Self {
        Self::with(HeaderMap::new(), public, management)
    }

    /// The same, with these headers on every request.
    pub fn with(headers: HeaderMap, public: impl Display, management: impl Display) -> Self {
        Self {
            http: http_client_builder()
                .default_headers(headers)
                .build()
                .expect("an HTTP client"),
            public: format!("http://{public}"),
            management: format!("http://{management}"),
        }
    }

    /// Logs a user in.
    pub async fn log_in(&self, email: &str, password: &SecretString) -> Response {
        let password = password.expose_secret();
        self.post_json(LOGIN, &json!({ "email": email, "password": password }))
            .await
    }

    /// Logs in a user with a one-time password.
    pub async fn log_in_with_otp(
        &self,
        email: &str,
        password: &SecretString,
        otp: &SecretString,
    ) -> Response {
        let (password, otp) = (password.expose_secret(), otp.expose_secret());
        let body = json!({ "email": email, "password": password, "otp": otp });
        self.post_json(LOGIN, &body).await
    }

    /// Exchanges a session for an access token.
    pub async fn exchange(&self, session: &Session, scope: &str) -> Response {
        let mut body = session.pair();
        body["grant_type"] = json!("session");
        body["scope"] = json!(scope);
        self.post_json(TOKEN, &body).await
    }

    /// Logs a session out.
    pub async fn log_out(&self, session: &Session) -> Response {
        self.post_json(LOGOUT, &session.pair()).await
    }

    /// Sends a logout token, as an IAM does.
    pub async fn send_logout_token(&self, logout_token: &str) -> Response {
        // A compact JWS needs no percent-encoding.
        let form = format!("logout_token={logout_token}");
        self.post(BACKCHANNEL_LOGOUT, &[("content-type", FORM)], form)
            .await
    }

    /// Posts JSON to the public listener.
    pub async fn post_json(&self, path: &str, body: &Value) -> Response {
        self.post(path, &[], body.to_string()).await
    }

    /// Posts a body, as JSON unless the headers have a content type.
    pub async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Response {
        let has_type = headers.iter().any(|(name, _)| *name == "content-type");
        let json = (!has_type).then_some((CONTENT_TYPE.as_str(), JSON));
        let headers: Vec<_> = headers.iter().copied().chain(json).collect();
        self.send(Method::POST, &self.public, path, &headers, body.into())
            .await
    }

    /// GET from the public listener.
    pub async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        self.send(Method::GET, &self.public, path, headers, Vec::new())
            .await
    }

    /// HEAD from the public listener.
    pub async fn head(&self, path: &str) -> Response {
        self.send(Method::HEAD, &self.public, path, &[], Vec::new())
            .await
    }

    /// Posts JSON to the management listener, with this bearer token.
    pub async fn operate(&self, path: &str, token: Option<&str>, body: &str) -> Response {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let bearer = bearer.as_deref().map(|bearer| ("authorization", bearer));
        self.operate_with(path, bearer.as_slice(), body).await
    }

    /// Posts JSON to the management listener, with these headers.
    pub async fn operate_with(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let json = (CONTENT_TYPE.as_str(), JSON);
        let headers: Vec<_> = headers.iter().copied().chain([json]).collect();
        let body = body.as_bytes().to_vec();
        self.send(Method::POST, &self.management, path, &headers, body)
            .await
    }

    /// The readiness of the gateway, from the management listener.
    pub async fn ready(&self) -> Response {
        self.send(Method::GET, &self.management, READY, &[], Vec::new())
            .await
    }

    /// Waits until readiness has this status, for exactly these reasons.
    pub async fn wait_for_readiness(&self, status: &str, codes: &[&str]) {
        let what = format!("readiness to be {status} for {codes:?}");
        let report = until_ok(&what, async || {
            let report = self.ready().await;
            if report.readiness() == (status.to_owned(), codes.join(" ")) {
                Ok(report)
            } else {
                Err(report.text())
            }
        });
        report.await.is_readiness(status, codes);
    }

    /// Calls the control API of the mock, on the management listener.
    pub async fn control(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Response {
        self.send(method, &self.management, path, headers, body.into())
            .await
    }

    async fn send(
        &self,
        method: Method,
        base: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Response {
        let mut request = self
            .http
            .request(method.clone(), format!("{base}{path}"))
            .body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.expect("a response");
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.bytes().await.expect("a complete response");
        // The public listener has no control API.
        let contract = if base == self.management && path.starts_with(CONTROL) {
            Contract::of_the_control()
        } else {
            Contract::get()
        };
        contract.check(method.as_str(), path, status, &headers, &body);
        Response {
            status,
            headers,
            body: body.to_vec(),
        }
    }
}
