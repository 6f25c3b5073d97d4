//! A confidential client of an authorization server, for adapters: its requests, the meaning of error
//! responses, and what has been proven about the server. Each [`IamError`] of it is a fault.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::{RequestBuilder, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Number, Value};
use url::Url;

use crate::adapter::SetupError;
use crate::client::{Response, UpstreamClient, on_behalf_of, within_call};
use crate::clock::Clock;
use crate::error::{IamError, Misconfiguration};
use crate::json;
use crate::types::{ClientContext, Credentials};

mod client_authentication;
mod error_response;
mod issued_tokens;
mod permission_names;
mod proofs;
mod settings;

pub(crate) use error_response::{
    Dialect, ErrorResponse, RefusedStatus, Rejected, UNSUPPORTED_TOKEN_TYPE, as_code, error_code,
};
pub use issued_tokens::TokenKind;
pub(crate) use permission_names::PermissionNames;
pub(crate) use proofs::Proofs;
pub use settings::{AssertionAudience, ClientAuthMethod, ClientSection, OAuth2ClientSettings};
pub(crate) use settings::{ClientAuthPreset, check_issuer, plain_url, shown_issuer};

use client_authentication::ClientAuthentication;
use issued_tokens::issued_tokens;

/// A confidential client of an authorization server.
#[derive(Debug)]
pub(crate) struct OAuth2Client {
    pub(crate) http: UpstreamClient,
    authentication: ClientAuthentication,
    clock: Arc<dyn Clock>,
    /// The configured issuer.
    pub(crate) issuer: String,
    dialect: Dialect,
    /// That of password grants, which can refuse a user.
    grant_dialect: Dialect,
    pub(crate) proofs: Arc<Proofs>,
}

/// Authorization server metadata (RFC 8414 section 2), as far as adapters use it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Metadata {
    issuer: String,
    #[serde(flatten)]
    pub(crate) endpoints: MetadataEndpoints,
    /// Those for clients that authenticate by TLS, as far as they differ (RFC 8705 section 5).
    #[serde(default)]
    pub(crate) mtls_endpoint_aliases: MetadataEndpoints,
}

/// The endpoints of metadata.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct MetadataEndpoints {
    /// The token endpoint.
    #[serde(rename = "token_endpoint")]
    pub(crate) token: Option<String>,
    /// The introspection endpoint (RFC 7662).
    #[serde(rename = "introspection_endpoint")]
    pub(crate) introspection: Option<String>,
    /// The revocation endpoint (RFC 7009).
    #[serde(rename = "revocation_endpoint")]
    pub(crate) revocation: Option<String>,
}

/// The response to a password grant.
pub(crate) struct Granted<T> {
    /// Every token in it, which begins a session whether the rest can be used or not.
    pub(crate) tokens: Vec<(TokenKind, SecretString)>,
    /// Its meaning.
    pub(crate) response: Result<T, Rejected>,
}

impl OAuth2Client {
    /// The client of an adapter whose section of the settings was checked, in place of the one before. Does not
    /// connect.
    pub(crate) fn new(
        section: &str,
        settings: &OAuth2ClientSettings,
        connect_deadline: Duration,
        clock: Arc<dyn Clock>,
        issuer: String,
        dialect: Dialect,
        before: Option<&Self>,
    ) -> Result<Self, SetupError> {
        let authentication = settings.authentication(section, &issuer, dialect.client_auth);
        let authentication = authentication.map_err(SetupError)?;
        let http = UpstreamClient::new(
            connect_deadline,
            settings.ca_file.as_deref(),
            authentication.identity(),
            Arc::clone(&clock),
        );
        Ok(Self {
            http: http.map_err(|error| error.of_section(section))?,
            authentication,
            clock,
            issuer,
            proofs: Proofs::kept(
                before.map(|client| &client.proofs),
                dialect.introspection_hint,
            ),
            // The only credentials in other requests are those of the client.
            dialect: Dialect {
                refused_error: None,
                refused_status: None,
                ..dialect.clone()
            },
            grant_dialect: dialect,
        })
    }

    /// An authenticated POST request to an endpoint, with these parameters.
    pub(crate) fn post(
        &self,
        endpoint: &Url,
        parameters: &[(&str, &str)],
    ) -> Result<RequestBuilder, IamError> {
        let (request, now) = (self.http.post(endpoint), self.clock.now());
        self.authentication
            .authenticate(request, endpoint, parameters, now)
    }

    /// Sends a request, and reads the JSON object of a 200 response. `what` names the object in errors.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        what: &str,
    ) -> Result<T, Rejected> {
        let response = self.http.send(request).await?;
        if response.status != StatusCode::OK {
            return Err(self.rejected(&response));
        }
        Ok(response.object(what)?)
    }

    /// Fetches any document without client authentication.
    pub(crate) async fn fetch_bytes(&self, url: &Url) -> Result<Vec<u8>, IamError> {
        let response = self.http.send(self.http.get(url)).await?;
        if response.status == StatusCode::OK {
            Ok(response.body)
        } else {
            Err(self.rejected(&response).into_fault())
        }
    }

    /// The meaning of a response that is not the expected success, except that to a password grant.
    pub(crate) fn rejected(&self, response: &Response) -> Rejected {
        error_response::meaning(response, &self.dialect, self.authentication.method)
    }

    fn rejected_grant(&self, response: &Response) -> Rejected {
        error_response::meaning(response, &self.grant_dialect, self.authentication.method)
    }

    /// Resource owner password credentials grant (RFC 6749 section 4.3). Sends the client's address and
    /// the request id in `X-Forwarded-For` and `X-Request-Id`. `more` are further parameters.
    pub(crate) async fn password_grant<'a, T: DeserializeOwned>(
        &self,
        endpoint: &Url,
        credentials: &'a Credentials,
        more: impl IntoIterator<Item = (&'a str, &'a str)> + Send,
        client: &ClientContext,
    ) -> Result<Granted<T>, IamError> {
        let mut parameters = vec![
            ("grant_type", "password"),
            ("username", credentials.email()),
            ("password", credentials.password().expose_secret()),
        ];
        parameters.extend(more);
        let request = self.post(endpoint, &parameters)?;
        let response = self.http.send(on_behalf_of(request, client)).await?;
        let tokens = issued_tokens(&response.body);
        let response = match response.status {
            StatusCode::OK => response.object(TOKEN_RESPONSE).map_err(Rejected::from),
            _ => Err(self.rejected_grant(&response)),
        };
        match &response {
            Ok(_) => {
                self.proofs.grant.record();
                self.proofs.login.record();
            }
            Err(Rejected::InvalidGrant(_) | Rejected::Unproven) => self.proofs.grant.record(),
            Err(Rejected::Unclassified { .. } | Rejected::Fault(_)) => {}
        }
        Ok(Granted { tokens, response })
    }

    /// Refresh grant (RFC 6749 section 6). A server that rotates refresh tokens invalidates this one.
    pub(crate) async fn refresh_grant<T: DeserializeOwned>(
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
    pub(crate) async fn introspect<T: DeserializeOwned>(
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
                format!(
                    "status 401, error {code}: {}",
                    self.authentication.method.hint()
                ),
            ),
            rejected => rejected.into_fault(),
        })
    }

    /// Fetches the metadata, and checks that the server is the configured issuer (RFC 8414 section 3.3:
    /// identical).
    pub(crate) async fn confirm_issuer(&self, metadata: &Url) -> Result<Metadata, IamError> {
        let request = self.http.get(metadata);
        let fetched = self.call(request, "discovery document").await;
        let metadata: Metadata = fetched.map_err(Rejected::into_fault)?;
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
        self.proofs.issuer.record();
        Ok(metadata)
    }

    /// Proves that the server accepts this client and its grants, without a user.
    pub(crate) async fn prove(&self, token: &Url, introspection: &Url) -> Result<(), IamError> {
        self.prove_credentials(introspection).await?;
        // Only until they are proven, because the server may record it as a failed login.
        if !self.proofs.grant.is_recorded() {
            self.prove_grants(token).await?;
        }
        self.proofs.check_introspection()
    }

    /// Proves the client's own credentials by the introspection of an invalid token.
    pub(crate) async fn prove_credentials(&self, introspection: &Url) -> Result<(), IamError> {
        #[derive(Deserialize)]
        struct Activity {
            active: bool,
        }
        let hint = "refresh_token";
        let response: Activity = self.introspect(introspection, "probe", hint).await?;
        if response.active {
            return Err(IamError::Unreadable(
                "introspection reports an invalid token as active".into(),
            ));
        }
        Ok(())
    }

    /// Proves that password grants are enabled by one without a user. A server that checks the client
    /// first rejects the missing user only afterwards.
    pub(crate) async fn prove_grants(&self, token: &Url) -> Result<(), IamError> {
        let request = self.post(token, &[("grant_type", "password")])?;
        let response = self.http.send(request).await?;
        if response.status != StatusCode::OK {
            match self.rejected_grant(&response) {
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
        self.proofs.grant.record();
        Ok(())
    }

    /// The fault of a password grant that was [`Rejected::Unclassified`]: the reason that introspection
    /// states, if it does not accept the client. Otherwise the server may refuse the user like this.
    /// Without a login that has succeeded, the cause may as well be the client or its grants.
    pub(crate) async fn unclassified(&self, fault: IamError, introspection: &Url) -> IamError {
        let of_client = self.client_fault(introspection).await;
        of_client.unwrap_or_else(|| self.proofs.possible_refusal(fault))
    }

    /// Why introspection does not accept the client; `None`: it does, or does not respond.
    pub(crate) async fn client_fault(&self, introspection: &Url) -> Option<IamError> {
        let proven = within_call(Duration::MAX, self.prove_credentials(introspection)).await;
        let fault = proven.err()?;
        matches!(fault, IamError::Misconfigured { .. }).then_some(fault)
    }

    /// Resets what was proven if the result is a misconfiguration.
    pub(crate) fn record<T>(&self, result: Result<T, IamError>) -> Result<T, IamError> {
        if let Err(IamError::Misconfigured { what, .. }) = &result {
            self.proofs.record_misconfiguration(*what);
        }
        result
    }
}

/// The claims of a JWT, **not verified**; `None`: not a JWT with these claims.
pub(crate) fn unverified_claims<T: DeserializeOwned>(token: &str) -> Option<T> {
    let parts: Vec<_> = token.split('.').collect();
    let [_, claims, _] = *parts else {
        return None;
    };
    json::object(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}

/// Whole seconds, rounded down, from a number (RFC 7519 section 2: `NumericDate`) or a text of one.
pub(crate) fn seconds(value: &Value) -> Option<u64> {
    let number: Number = match value {
        Value::Number(number) => number.clone(),
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    number.as_u64().or_else(|| {
        let whole = Duration::try_from_secs_f64(number.as_f64()?.floor()).ok()?;
        Some(whole.as_secs())
    })
}

/// The name of the 200 response of a token endpoint in errors.
const TOKEN_RESPONSE: &str = "token response";

/// The error for a session of another client, because only that client may introspect or end it.
pub(crate) fn foreign_client() -> IamError {
    IamError::misconfigured(
        Misconfiguration::ForeignClient,
        "check client_id: was it changed while sessions exist?",
    )
}
