//! Shared by adapters for OAuth 2 servers: the requests of a confidential client, and the meaning of
//! error responses.

use reqwest::header::HeaderValue;
use reqwest::{RequestBuilder, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use url::{Url, form_urlencoded};

use crate::client::{Response, UpstreamClient};
use crate::error::IamError;
use crate::json;
use crate::types::{ClientContext, Credentials};

mod error_response;

pub use error_response::{Dialect, ErrorResponse, Rejected};

/// A confidential client of an authorization server. It authenticates with HTTP Basic (RFC 6749
/// section 2.3.1).
#[derive(Debug)]
pub struct OAuth2Client {
    http: UpstreamClient,
    /// Form-encoded, as RFC 6749 section 2.3.1 requires for HTTP Basic; so is the secret.
    id: String,
    secret: SecretString,
    dialect: Dialect,
}

impl OAuth2Client {
    /// A client with this id and secret.
    #[must_use]
    pub fn new(http: UpstreamClient, id: &str, secret: &SecretString, dialect: Dialect) -> Self {
        Self {
            http,
            id: form_encoded(id),
            secret: form_encoded(secret.expose_secret()).into(),
            dialect,
        }
    }

    /// An authenticated POST request to an endpoint.
    pub fn post(&self, endpoint: &Url) -> RequestBuilder {
        let secret = Some(self.secret.expose_secret());
        self.http.post(endpoint).basic_auth(&self.id, secret)
    }

    /// Sends a request, and reads the JSON object of a 200 response. `what` names the object in errors.
    ///
    /// # Errors
    ///
    /// [`Rejected`] for any other response.
    pub async fn call<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        what: &str,
    ) -> Result<T, Rejected> {
        let response = self.send(request).await?;
        if response.status != StatusCode::OK {
            return Err(self.rejected(&response));
        }
        json::object(&response.body)
            .map_err(|_| IamError::Unreadable(format!("{what} with status 200")).into())
    }

    /// Fetches a JSON object without client authentication, such as a discovery document.
    ///
    /// # Errors
    ///
    /// Faults only.
    pub async fn fetch<T: DeserializeOwned>(&self, url: &Url, what: &str) -> Result<T, IamError> {
        let fetched = self.call(self.http.get(url), what).await;
        fetched.map_err(Rejected::into_fault)
    }

    /// Fetches any document without client authentication.
    ///
    /// # Errors
    ///
    /// Faults only.
    pub async fn fetch_bytes(&self, url: &Url) -> Result<Vec<u8>, IamError> {
        let response = self.send(self.http.get(url)).await?;
        if response.status == StatusCode::OK {
            Ok(response.body)
        } else {
            Err(self.rejected(&response).into_fault())
        }
    }

    /// Sends a request and returns the response, with any status.
    ///
    /// # Errors
    ///
    /// Faults only.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, IamError> {
        self.http.send(request).await
    }

    /// The meaning of a response that is not the expected success.
    #[must_use]
    pub fn rejected(&self, response: &Response) -> Rejected {
        error_response::meaning(response, &self.dialect)
    }

    /// Resource owner password credentials grant (RFC 6749 section 4.3), without a scope. Sends the
    /// client's address and the request id in `X-Forwarded-For` and `X-Request-Id`.
    ///
    /// # Errors
    ///
    /// [`Rejected`].
    pub async fn password_grant<T: DeserializeOwned>(
        &self,
        endpoint: &Url,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<T, Rejected> {
        let mut request = self.post(endpoint).form(&[
            ("grant_type", "password"),
            ("username", credentials.email()),
            ("password", credentials.password().expose_secret()),
        ]);
        if let Some(address) = client.address {
            request = request.header("x-forwarded-for", address.to_string());
        }
        if let Ok(request_id) = HeaderValue::from_str(&client.request_id) {
            request = request.header("x-request-id", request_id);
        }
        self.call(request, TOKEN_RESPONSE).await
    }

    /// Refresh grant (RFC 6749 section 6). A server that rotates refresh tokens invalidates this one.
    ///
    /// # Errors
    ///
    /// [`Rejected`].
    pub async fn refresh_grant<T: DeserializeOwned>(
        &self,
        endpoint: &Url,
        refresh_token: &SecretString,
    ) -> Result<T, Rejected> {
        let request = self.post(endpoint).form(&[
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.expose_secret()),
        ]);
        self.call(request, TOKEN_RESPONSE).await
    }

    /// Introspection (RFC 7662 section 2.1). `hint` is the `token_type_hint`.
    ///
    /// # Errors
    ///
    /// Faults only.
    pub async fn introspect<T: DeserializeOwned>(
        &self,
        endpoint: &Url,
        token: &str,
        hint: &str,
    ) -> Result<T, IamError> {
        let request = self
            .post(endpoint)
            .form(&[("token", token), ("token_type_hint", hint)]);
        let called = self.call(request, "introspection response").await;
        called.map_err(Rejected::into_fault)
    }
}

/// The name of the 200 response of a token endpoint in errors.
const TOKEN_RESPONSE: &str = "token response";

fn form_encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
