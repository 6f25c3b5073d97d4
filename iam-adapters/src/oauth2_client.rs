//! A confidential client of an authorization server, for adapters: its requests, the meaning of error
//! responses, and what has been proven about the server.

use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{RequestBuilder, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::client::{Response, UpstreamClient};
use crate::error::{IamError, Misconfiguration};
use crate::json;
use crate::types::{ClientContext, Credentials};

mod client_authentication;
mod error_response;
mod issued_tokens;
mod permission_names;
mod proofs;
mod setup;

pub use client_authentication::{
    AssertionAudience, ClientAssertions, ClientAuthentication, ClientSecret, SigningKey,
};
pub use error_response::{
    Dialect, ErrorResponse, RefusedStatus, Rejected, UNSUPPORTED_TOKEN_TYPE, as_code, error_code,
};
pub use issued_tokens::TokenKind;
pub use permission_names::PermissionNames;
pub use setup::{client_secret, http_client, is_issuer, plain_url, secret_problems, shown_issuer};

use issued_tokens::issued_tokens;
use proofs::Proofs;

/// For the end of an abandoned session. No client waits for it, so it may take longer than a logout.
const ABANDONED_SESSION_DEADLINE: Duration = Duration::from_secs(10);

/// A confidential client of an authorization server.
#[derive(Debug)]
pub struct OAuth2Client {
    http: UpstreamClient,
    authentication: ClientAuthentication,
    issuer: String,
    dialect: Dialect,
    proofs: Proofs,
}

/// Authorization server metadata (RFC 8414 section 2), as far as adapters use it.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    issuer: String,
    /// The token endpoint.
    #[serde(default)]
    pub token_endpoint: Option<String>,
    /// The introspection endpoint (RFC 7662).
    #[serde(default)]
    pub introspection_endpoint: Option<String>,
    /// The revocation endpoint (RFC 7009).
    #[serde(default)]
    pub revocation_endpoint: Option<String>,
}

/// The response to a password grant.
pub struct Granted<T> {
    /// Every token in it, which begins a session whether the rest can be used or not.
    pub tokens: Vec<(TokenKind, SecretString)>,
    /// Its meaning.
    pub response: Result<T, Rejected>,
}

impl OAuth2Client {
    /// A client of the server with this issuer.
    #[must_use]
    pub fn new(
        http: UpstreamClient,
        authentication: ClientAuthentication,
        issuer: String,
        dialect: Dialect,
    ) -> Self {
        Self {
            http,
            authentication,
            issuer,
            dialect,
            proofs: Proofs::default(),
        }
    }

    /// The configured issuer.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// An authenticated POST request to an endpoint, with these parameters.
    ///
    /// # Errors
    ///
    /// Faults only.
    pub fn post(
        &self,
        endpoint: &Url,
        parameters: &[(&str, &str)],
    ) -> Result<RequestBuilder, IamError> {
        self.authentication
            .authenticate(self.http.post(endpoint), endpoint, parameters)
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
        self.read(&self.send(request).await?, what)
    }

    fn read<T: DeserializeOwned>(&self, response: &Response, what: &str) -> Result<T, Rejected> {
        if response.status != StatusCode::OK {
            return Err(self.rejected(response));
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

    /// Resource owner password credentials grant (RFC 6749 section 4.3). Sends the client's address and
    /// the request id in `X-Forwarded-For` and `X-Request-Id`. `more` are further parameters.
    ///
    /// # Errors
    ///
    /// Faults only: there is no response.
    pub async fn password_grant<T: DeserializeOwned>(
        &self,
        endpoint: &Url,
        credentials: &Credentials,
        more: &[(String, String)],
        client: &ClientContext,
    ) -> Result<Granted<T>, IamError> {
        let mut parameters = vec![
            ("grant_type", "password"),
            ("username", credentials.email()),
            ("password", credentials.password().expose_secret()),
        ];
        let more = more.iter();
        parameters.extend(more.map(|(name, value)| (name.as_str(), value.as_str())));
        let mut request = self.post(endpoint, &parameters)?;
        if let Some(address) = client.address {
            request = request.header("x-forwarded-for", address.to_string());
        }
        if let Ok(request_id) = HeaderValue::from_str(&client.request_id) {
            request = request.header("x-request-id", request_id);
        }
        let response = self.send(request).await?;
        let tokens = issued_tokens(&response.body);
        let response = self.read(&response, TOKEN_RESPONSE);
        match &response {
            Ok(_) => {
                self.proofs.record_grant();
                self.proofs.record_login();
            }
            Err(Rejected::InvalidGrant(_) | Rejected::Unproven) => self.proofs.record_grant(),
            Err(Rejected::Unclassified { .. } | Rejected::Fault(_)) => {}
        }
        Ok(Granted { tokens, response })
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
        let parameters = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.expose_secret()),
        ];
        let request = self.post(endpoint, &parameters)?;
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
        let parameters = [("token", token), ("token_type_hint", hint)];
        let request = self.post(endpoint, &parameters)?;
        let called = self.call(request, "introspection response").await;
        called.map_err(|rejected| match rejected {
            // Whatever the code is: RFC 7662 section 2.3.
            Rejected::Unclassified {
                status: 401,
                code: Some(code),
                ..
            } => IamError::misconfigured(
                Misconfiguration::ClientSecret,
                format!("status 401, error {code}: check the client id and its secret or key"),
            ),
            rejected => rejected.into_fault(),
        })
    }

    /// Sends requests that end an abandoned session, each whether the others succeed or not.
    ///
    /// # Errors
    ///
    /// Faults only.
    pub async fn end_abandoned(
        requests: Result<Vec<RequestBuilder>, IamError>,
    ) -> Result<(), IamError> {
        let mut ended = Ok(());
        for request in requests? {
            let request = request.timeout(ABANDONED_SESSION_DEADLINE);
            ended = ended.and(
                match request.send().await.map(|response| response.status()) {
                    Ok(status) if status.is_success() => Ok(()),
                    Ok(status) => Err(IamError::Failed(format!("status {}", status.as_u16()))),
                    Err(_) => Err(IamError::Unreachable("no response".to_owned())),
                },
            );
        }
        ended
    }

    /// Fetches the metadata, and checks that the server is the configured issuer (RFC 8414 section 3.3:
    /// identical).
    ///
    /// # Errors
    ///
    /// Faults only.
    pub async fn confirm_issuer(&self, metadata: &Url) -> Result<Metadata, IamError> {
        let metadata: Metadata = self.fetch(metadata, "discovery document").await?;
        if metadata.issuer != self.issuer {
            return Err(IamError::misconfigured(
                Misconfiguration::Issuer,
                format!(
                    "the discovery document names {}, not {}: check the address and the issuer",
                    shown_issuer(&metadata.issuer),
                    self.issuer
                ),
            ));
        }
        self.proofs.record_issuer();
        Ok(metadata)
    }

    /// Whether [`Self::confirm_issuer`] has succeeded since the last misconfiguration.
    #[must_use]
    pub fn has_confirmed_issuer(&self) -> bool {
        self.proofs.has_issuer()
    }

    /// Proves that the server accepts this client and its grants, without a user.
    ///
    /// # Errors
    ///
    /// Faults only.
    pub async fn prove(&self, token: &Url, introspection: &Url) -> Result<(), IamError> {
        self.prove_credentials(introspection).await?;
        // Only until they are proven, because the server may record it as a failed login.
        if !self.proofs.has_grant() {
            self.prove_grants(token).await?;
        }
        if self.proofs.has_failed_introspection() {
            return Err(self.active_session_reported_inactive());
        }
        Ok(())
    }

    /// Proves the client's own credentials by the introspection of an invalid token.
    ///
    /// # Errors
    ///
    /// Faults only.
    pub async fn prove_credentials(&self, introspection: &Url) -> Result<(), IamError> {
        #[derive(Deserialize)]
        struct Introspected {
            active: bool,
        }
        let hint = "refresh_token";
        let response: Introspected = self.introspect(introspection, "probe", hint).await?;
        if response.active {
            return Err(IamError::Unreadable(
                "introspection reports an invalid token as active".to_owned(),
            ));
        }
        Ok(())
    }

    /// Proves that password grants are enabled by one without a user. A server that checks the client
    /// first rejects the missing user only afterwards.
    ///
    /// # Errors
    ///
    /// Faults only.
    pub async fn prove_grants(&self, token: &Url) -> Result<(), IamError> {
        let request = self.post(token, &[("grant_type", "password")])?;
        let response = self.send(request).await?;
        if response.status != StatusCode::OK {
            match self.rejected(&response) {
                // `invalid_request`: the user is missing.
                Rejected::InvalidGrant(_)
                | Rejected::Unproven
                | Rejected::Unclassified {
                    fault:
                        IamError::Misconfigured {
                            what: Misconfiguration::Other,
                            ..
                        },
                    ..
                } => {}
                rejected => return Err(rejected.into_fault()),
            }
        }
        self.proofs.record_grant();
        Ok(())
    }

    /// The fault of a password grant that was [`Rejected::Unclassified`]: the reason that introspection
    /// states, if it does not accept the client. Otherwise the server may refuse the user like this.
    /// Without a login that has succeeded, the cause may as well be the client or its grants.
    pub async fn unclassified(&self, fault: IamError, introspection: &Url) -> IamError {
        match self.client_fault(introspection).await {
            Some(reason) => reason,
            None if self.proofs.has_login() => IamError::PossibleRefusal(Box::new(fault)),
            None => fault,
        }
    }

    /// Why introspection does not accept the client; `None`: it does, or does not respond.
    pub async fn client_fault(&self, introspection: &Url) -> Option<IamError> {
        let proven = self.prove_credentials(introspection).await;
        let fault = proven.err()?;
        matches!(fault, IamError::Misconfigured { .. }).then_some(fault)
    }

    /// Records that introspection has reported a session as active.
    pub fn record_active(&self) {
        self.proofs.record_active();
    }

    /// Whether introspection has reported a session as active since the last misconfiguration.
    #[must_use]
    pub fn has_reported_active(&self) -> bool {
        self.proofs.has_active()
    }

    /// Whether introspection has reported an active session as inactive, and no session as active since.
    #[must_use]
    pub fn has_failed_introspection(&self) -> bool {
        self.proofs.has_failed_introspection()
    }

    /// Resets what was proven if the result is a misconfiguration.
    ///
    /// # Errors
    ///
    /// That of the result.
    pub fn record<T>(&self, result: Result<T, IamError>) -> Result<T, IamError> {
        if let Err(IamError::Misconfigured { what, .. }) = &result {
            self.proofs.record_misconfiguration(*what);
        }
        result
    }

    /// The error for an active session that introspection reports as inactive.
    #[must_use]
    pub fn active_session_reported_inactive(&self) -> IamError {
        IamError::misconfigured(
            Misconfiguration::Introspection,
            format!(
                "an active session is reported as inactive: {}",
                self.dialect.introspection_hint
            ),
        )
    }
}

/// The name of the 200 response of a token endpoint in errors.
const TOKEN_RESPONSE: &str = "token response";
