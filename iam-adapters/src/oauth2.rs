//! A generic authorization server: login by password grant (RFC 6749 section 4.3), introspection
//! (RFC 7662) of one of its tokens for liveness, subject and permissions, and logout by revocation
//! (RFC 7009).
//!
//! It never refreshes, because a session is sealed in tokens that clients hold: a server that rotates
//! refresh tokens would invalidate the sealed one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use reqwest::{RequestBuilder, StatusCode};
use scopeguard::ScopeGuard;
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use url::Url;

use crate::abandoned;
use crate::adapter::{Capabilities, IamAdapter, PermissionAge, SessionLocation};
use crate::client::{MADE_UP_TOKEN, Response, within_call};
use crate::clock::Clock;
use crate::error::{IamError, Misconfiguration, Refusal};
use crate::json;
use crate::name::Name as _;
use crate::oauth2_client::{
    ClientAuthMethod, ErrorResponse, Granted, Metadata, MetadataEndpoints, OAuth2Client,
    PermissionNames, Rejected, UNSUPPORTED_TOKEN_TYPE, error_code, foreign_client, seconds,
};
use crate::scope::Permissions;
use crate::types::{Authenticated, ClientContext, Credentials, Introspection, UpstreamSession};

mod claims;
mod settings;
mod tokens;

pub use crate::oauth2_client::TokenKind;
pub use settings::{DeletedAccount, OAuth2Settings, Preset, RevocationEndpoint};

use claims::IntrospectionClaims;
use tokens::{Token, UpstreamTokens};

const NAME: &str = "oauth2";

const NO_SUBJECT: &str = "the introspection response has no subject: check subject_claim, and \
                          deleted_account if the account was deleted";

/// A section of the settings to start from.
pub(crate) const EXAMPLE: &str = include_str!("oauth2/example.toml");

/// One authorization server, as one confidential client.
#[derive(Debug)]
struct OAuth2 {
    server: OAuth2Client,
    settings: OAuth2Settings,
    /// Parameters of the token request of a login.
    login_parameters: Vec<(String, String)>,
    discovered: Mutex<Option<Arc<Endpoints>>>,
    names: PermissionNames,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct Endpoints {
    token: Url,
    introspection: Url,
    /// `None`: the server revokes no tokens.
    revocation: Option<Url>,
}

impl Endpoints {
    /// The endpoints of the settings, and else those of the discovery document.
    fn select(settings: &OAuth2Settings, metadata: &Metadata) -> Result<Self, IamError> {
        let by_tls = settings.client.client_auth_method == ClientAuthMethod::TlsClientAuth;
        // An endpoint of the discovery document must be https if the issuer is.
        let only_https = by_tls || settings.issuer.starts_with("https:");
        let usable = |url: &Url| {
            matches!((url.scheme(), only_https), ("https", _) | ("http", false))
                && url.username().is_empty()
                && url.password().is_none()
        };
        let aliases = by_tls.then_some(&metadata.mtls_endpoint_aliases);
        let discovered = |name: &str, of: fn(&MetadataEndpoints) -> Option<&String>| {
            let url = aliases.and_then(of).or_else(|| of(&metadata.endpoints));
            let url = url.and_then(|url| Url::parse(url).ok()).filter(usable);
            url.ok_or_else(|| {
                IamError::misconfigured(
                    Misconfiguration::Other,
                    format!("the discovery document has no usable {name}: set {name}"),
                )
            })
        };
        Ok(Self {
            token: match &settings.token_endpoint {
                Some(url) => url.clone(),
                None => discovered("token_endpoint", |all| all.token.as_ref())?,
            },
            introspection: match &settings.introspection_endpoint {
                Some(url) => url.clone(),
                None => discovered("introspection_endpoint", |all| all.introspection.as_ref())?,
            },
            revocation: match &settings.revocation_endpoint {
                Some(configured) => configured.url().cloned(),
                None => Some(discovered("revocation_endpoint", |all| {
                    all.revocation.as_ref()
                })?),
            },
        })
    }
}

/// The 200 of a grant (RFC 6749 section 5.1).
#[derive(Deserialize)]
struct IssuedTokens {
    access_token: Token,
    refresh_token: Option<Token>,
    /// Of the access token, in seconds; read only if that is the session's.
    expires_in: Option<Value>,
}

impl OAuth2 {
    /// The endpoints that are known; fetches the discovery document if there are none.
    async fn endpoints(&self) -> Result<Arc<Endpoints>, IamError> {
        let known = self.discovered.lock().clone();
        match known {
            Some(known) => Ok(known),
            None => self.discover().await,
        }
    }

    /// Reads the endpoints from the settings and the discovery document.
    async fn discover(&self) -> Result<Arc<Endpoints>, IamError> {
        let metadata = match self.settings.discovery() {
            Some(url) => self.server.confirm_issuer(&url).await?,
            None => Metadata::default(),
        };
        let endpoints = Arc::new(Endpoints::select(&self.settings, &metadata)?);
        *self.discovered.lock() = Some(Arc::clone(&endpoints));
        Ok(endpoints)
    }

    /// Logs in, and introspects the new session: the response has its subject, and proves that the
    /// server recognises the session as active.
    async fn log_in(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        let is_confirmed = self.server.proofs.issuer.is_recorded();
        let endpoints = if is_confirmed || self.settings.discovery().is_none() {
            self.endpoints().await?
        } else {
            self.discover().await?
        };
        let more = self.login_parameters.iter();
        let more = more.map(|(name, value)| (name.as_str(), value.as_str()));
        let granted = self
            .server
            .password_grant(&endpoints.token, credentials, more, client);
        let Granted { tokens, response } = granted.await?;
        let abandoned = abandoned::guard(NAME, &self.server.http, || {
            let requests = endpoints.revocation.iter().flat_map(|endpoint| {
                tokens.iter().map(move |(kind, token)| {
                    self.revocation_request(endpoint, token.expose_secret(), *kind)
                })
            });
            requests.collect()
        });
        let IssuedTokens {
            access_token,
            refresh_token,
            expires_in,
        } = match response {
            Ok(grant) => grant,
            Err(Rejected::InvalidGrant(_)) => {
                return Err(IamError::Refused(Refusal::InvalidCredentials));
            }
            Err(Rejected::Unproven) => {
                // Some servers refuse a client the same way. Then this fails too.
                let proven = self.server.prove_credentials(&endpoints.introspection);
                return Err(match within_call(Duration::MAX, proven).await {
                    Ok(()) => IamError::Refused(Refusal::InvalidCredentials),
                    Err(of_client @ IamError::Misconfigured { .. }) => of_client,
                    // Otherwise guesses would not be limited while introspection fails.
                    Err(fault) => self.server.proofs.possible_refusal(fault),
                });
            }
            Err(Rejected::Unclassified {
                fault,
                status,
                code,
            }) => {
                let fault = fault.with_hint(&refusal_setting(status, code.as_deref()));
                let introspection = &endpoints.introspection;
                return Err(self.server.unclassified(fault, introspection).await);
            }
            Err(Rejected::Fault(fault)) => {
                // Some servers reject a wrong secret like a grant that the client may not use.
                let of_client = match fault {
                    IamError::Misconfigured {
                        what: Misconfiguration::PasswordLogin,
                        ..
                    } => self.server.client_fault(&endpoints.introspection).await,
                    _ => None,
                };
                return Err(of_client.unwrap_or(fault));
            }
        };
        let session_tokens = UpstreamTokens {
            client_id: self.settings.client.client_id.clone(),
            introspected: self.settings.introspect(),
            access_token,
            refresh_token,
        };
        let introspected = self.introspect_tokens(&endpoints, &session_tokens).await?;
        if !self.is_active(&introspected)? {
            return Err(self.server.proofs.active_session_reported_inactive());
        }
        let subject = introspected.subject(self.settings.subject_claim());
        let subject = subject.ok_or_else(|| IamError::Unreadable(NO_SUBJECT.into()))?;
        let session = session_tokens.seal(subject)?;
        let permissions = self.permissions(&introspected)?;
        let expires_in = self.lifetime(expires_in.as_ref(), &introspected)?;
        if expires_in.is_some_and(|lifetime| lifetime.is_zero()) {
            return Err(self.server.proofs.active_session_reported_inactive());
        }
        let claims = self.settings.client.claims.read(introspected.members())?;
        ScopeGuard::into_inner(abandoned);
        Ok(Authenticated {
            session,
            expires_in,
            permissions: Some(permissions),
            groups: self.groups(&introspected),
            claims,
        })
    }

    /// The lifetime of the introspected token: the shortest that the server states.
    fn lifetime(
        &self,
        expires_in: Option<&Value>,
        introspected: &IntrospectionClaims,
    ) -> Result<Option<Duration>, IamError> {
        let is_of_session = self.settings.introspect() == TokenKind::AccessToken;
        let of_access_token = expires_in.filter(|_| is_of_session);
        let granted = of_access_token.map(|value| {
            let unreadable = || IamError::Unreadable("token response: expires_in".into());
            seconds(value).ok_or_else(unreadable)
        });
        let granted = granted.transpose()?.map(Duration::from_secs);
        let stated = introspected.lifetime(self.clock.now())?;
        Ok(granted.into_iter().chain(stated).min())
    }

    /// Introspects the session's token.
    async fn introspect_tokens(
        &self,
        endpoints: &Endpoints,
        tokens: &UpstreamTokens,
    ) -> Result<IntrospectionClaims, IamError> {
        let token = tokens.introspected()?;
        let hint = tokens.introspected.name();
        self.server
            .introspect(&endpoints.introspection, token, hint)
            .await
    }

    fn is_active(&self, introspected: &IntrospectionClaims) -> Result<bool, IamError> {
        let (issuer, now) = (&self.server.issuer, self.clock.now());
        let is_active = introspected.is_active(issuer, &self.settings.client.client_id, now)?;
        if is_active {
            self.server.proofs.record_active();
        }
        Ok(is_active)
    }

    /// The tokens of a session of this client, because only that client may introspect and revoke
    /// them.
    fn tokens(&self, session: &UpstreamSession) -> Result<UpstreamTokens, IamError> {
        let tokens = UpstreamTokens::open(session)?;
        if tokens.client_id == self.settings.client.client_id {
            Ok(tokens)
        } else {
            Err(foreign_client())
        }
    }

    /// "Inactive" needs no further proof: at its login, the same token was introspected as active for
    /// this client.
    async fn introspect_session(
        &self,
        session: &UpstreamSession,
    ) -> Result<Introspection, IamError> {
        let tokens = self.tokens(session)?;
        let endpoints = self.endpoints().await?;
        let introspected = self.introspect_tokens(&endpoints, &tokens).await?;
        // What does not fit is about this session alone, because at its login it did.
        let is_active = self.is_active(&introspected);
        let is_active = is_active.map_err(|fault| match fault {
            IamError::Unreadable(detail) => IamError::UnreadableSession(detail),
            IamError::Misconfigured { detail, .. } => IamError::UnreadableSession(detail.into()),
            fault => fault,
        })?;
        if !is_active {
            self.server.proofs.check_introspection()?;
            return Ok(Introspection::Inactive);
        }
        // So is the subject.
        let subject = match introspected.subject(self.settings.subject_claim()) {
            Some(subject) if subject == session.subject => subject,
            Some(_) => {
                return Err(IamError::UnreadableSession(
                    "the introspection response is about another subject".into(),
                ));
            }
            None if self.settings.deleted_account() == DeletedAccount::WithoutSubject
                && !introspected.has(self.settings.subject_claim()) =>
            {
                return Ok(Introspection::Inactive);
            }
            None => return Err(IamError::UnreadableSession(NO_SUBJECT.into())),
        };
        Ok(Introspection::Active {
            subject,
            permissions: self.permissions(&introspected)?,
            groups: self.groups(&introspected),
            claims: self.settings.client.claims.read(introspected.members())?,
        })
    }

    /// The names in the claim, without the scopes of OpenID Connect Core 1.0 sections 5.4 and 11, and
    /// Ory's name for the last of them, which are about the login.
    fn permissions(&self, introspected: &IntrospectionClaims) -> Result<Permissions, IamError> {
        let Some(claim) = self.settings.permissions_claim() else {
            return Ok(Permissions::default());
        };
        let names = introspected.names(claim)?;
        Ok(self.names.read(names.into_iter().filter(|name| {
            !matches!(
                *name,
                "openid" | "profile" | "email" | "address" | "phone" | "offline_access" | "offline"
            )
        })))
    }

    /// The names in the claim; `None`: the response does not state groups.
    fn groups(&self, introspected: &IntrospectionClaims) -> Option<Vec<String>> {
        let claim = self.settings.groups_claim.as_deref()?;
        introspected.groups(claim, self.settings.groups_delimiter.as_deref())
    }

    /// Revokes all tokens of a session, the refresh token first, because many servers then revoke the
    /// access token too.
    async fn log_out(&self, session: &UpstreamSession) -> Result<(), IamError> {
        let tokens = self.tokens(session)?;
        let endpoints = self.endpoints().await?;
        let Some(revocation) = &endpoints.revocation else {
            return Ok(());
        };
        let mut refused = None;
        for (token, kind) in tokens.all() {
            let request = self.revocation_request(revocation, token, kind)?;
            let response = self.server.http.send(request).await?;
            let is_session = kind == tokens.introspected;
            let code = error_code(&response);
            // Then the introspected token, which is the session, is revoked all the same.
            let is_dispensable = !is_session && code.as_deref() == Some(UNSUPPORTED_TOKEN_TYPE);
            if is_revoked(&response) || is_dispensable {
                continue;
            }
            let fault = self.server.rejected(&response).into_fault();
            if response.fault().is_some() {
                return Err(fault);
            }
            // RFC 7009 section 2.2.1: with 400, the token is refused.
            let is_refused = response.status == StatusCode::BAD_REQUEST && code.is_some();
            if is_session || !is_refused {
                self.check_ended(session, Some(fault)).await?;
            } else {
                refused.get_or_insert(fault);
            }
        }
        self.check_ended(session, refused).await
    }

    /// Whether the session has ended although the server refused to revoke one of its tokens: many servers do so
    /// for a token that has ended, also with the one before.
    async fn check_ended(
        &self,
        session: &UpstreamSession,
        refused: Option<IamError>,
    ) -> Result<(), IamError> {
        match refused {
            Some(fault)
                if self.introspect_session(session).await != Ok(Introspection::Inactive) =>
            {
                Err(fault)
            }
            _ => Ok(()),
        }
    }

    fn revocation_request(
        &self,
        endpoint: &Url,
        token: &str,
        kind: TokenKind,
    ) -> Result<RequestBuilder, IamError> {
        let parameters = [("token", token), ("token_type_hint", kind.name())];
        self.server.post(endpoint, &parameters)
    }

    /// Finds a revocation endpoint that is none, by a token that does not exist. In spite of RFC 7009 section
    /// 2.2, servers refuse such a token in many ways, so any other error code is accepted.
    async fn prove_revocation(&self) -> Result<(), IamError> {
        let endpoints = self.endpoints().await?;
        let Some(endpoint) = &endpoints.revocation else {
            return Ok(());
        };
        let response = self.revoke_made_up(endpoint).await?;
        let status = response.status;
        let found = match error_code(&response).as_deref() {
            Some("invalid_client" | "unsupported_grant_type") => {
                return Err(self.server.rejected(&response).into_fault());
            }
            _ if status == StatusCode::METHOD_NOT_ALLOWED => "status 405".to_owned(),
            Some(_) => return Ok(()),
            None if is_introspection(&response) => {
                "the response of an introspection endpoint".to_owned()
            }
            None if is_revoked(&response) => return Ok(()),
            None => {
                let missing = missing_beside(endpoint);
                let other = self.revoke_made_up(&missing).await;
                // Pages contain the path, so the made-up one has the same length.
                let is_same = |other: Response| {
                    (other.status, other.body.len()) == (status, response.body.len())
                };
                if missing == *endpoint || !other.is_ok_and(is_same) {
                    return Ok(());
                }
                format!(
                    "status {}, as for a path that does not exist",
                    status.as_u16()
                )
            }
        };
        Err(IamError::misconfigured(Misconfiguration::Other, found))
    }

    async fn revoke_made_up(&self, endpoint: &Url) -> Result<Response, IamError> {
        let request = self.revocation_request(endpoint, MADE_UP_TOKEN, TokenKind::RefreshToken)?;
        self.server.http.send(request).await
    }

    async fn prove(&self) -> Result<(), IamError> {
        let endpoints = self.discover().await?;
        self.server
            .prove(&endpoints.token, &endpoints.introspection)
            .await
    }
}

#[async_trait]
impl IamAdapter for OAuth2 {
    fn name(&self) -> &'static str {
        NAME
    }

    fn issuer(&self) -> &str {
        &self.server.issuer
    }

    fn capabilities(&self) -> Capabilities {
        let deleted_account = self.settings.deleted_account();
        Capabilities {
            sessions: match self.settings.revocation_endpoint {
                // Introspection may still find one that has ended.
                Some(RevocationEndpoint::None) => SessionLocation::SessionToken,
                Some(RevocationEndpoint::At(_)) | None => SessionLocation::Iam,
            },
            detects_disabled: self.settings.detects_disabled,
            detects_deleted: deleted_account != DeletedAccount::Active,
            permissions: if self.settings.current_permissions {
                PermissionAge::Current
            } else {
                PermissionAge::Login
            },
            back_channel_logout: false,
            one_time_password: false,
        }
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        self.server.record(self.log_in(credentials, client).await)
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        self.server.record(self.introspect_session(session).await)
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        self.server.record(self.log_out(session).await)
    }

    async fn probe(&self) -> Result<(), IamError> {
        self.server.record(self.prove().await)
    }

    async fn probe_logout(&self) -> Result<(), IamError> {
        let proven = self.prove_revocation().await;
        proven.map_err(|fault| fault.with_hint("; check revocation_endpoint"))
    }
}

/// RFC 7009 section 2.2: the status alone. But a 200 with a page is the response of another server.
fn is_revoked(response: &Response) -> bool {
    match response.status {
        StatusCode::NO_CONTENT => true,
        StatusCode::OK => {
            response.body.trim_ascii().is_empty()
                || json::object::<IgnoredAny>(&response.body).is_ok()
        }
        _ => false,
    }
}

/// RFC 7662 section 2.2.
fn is_introspection(response: &Response) -> bool {
    let members = json::object::<Map<String, Value>>(&response.body);
    response.status == StatusCode::OK && members.is_ok_and(|members| members.contains_key("active"))
}

/// An address of the same length, whose last segment is made up.
fn missing_beside(endpoint: &Url) -> Url {
    let mut missing = endpoint.clone();
    let path = endpoint.path();
    let folder = path
        .trim_end_matches('/')
        .rfind('/')
        .map_or(0, |slash| slash + 1);
    let made_up = |(at, c)| if at < folder || c == '/' { c } else { 'x' };
    missing.set_path(&path.char_indices().map(made_up).collect::<String>());
    missing
}

/// Which setting makes a response of the token endpoint a refusal of the credentials.
fn refusal_setting(status: u16, code: Option<&str>) -> String {
    let setting = match (status, code) {
        (_, Some(code)) => format!("refused_error = \"{code}\""),
        (400..=403 | 422, None) => format!("refused_status = {status}"),
        _ => return String::new(),
    };
    format!("; set {setting} if wrong passwords get this response")
}

/// Some servers reject a client without an error code.
fn explain(response: &ErrorResponse<'_>) -> Option<(Misconfiguration, &'static str)> {
    match (response.status, response.code) {
        (401 | 403, "") => Some((
            Misconfiguration::ClientSecret,
            response.client_auth_method.hint(),
        )),
        (400, "") => Some((
            Misconfiguration::Other,
            "check client_id, its authentication, its grants, and scope",
        )),
        // Otherwise every login would be refused, or the probe would not find it.
        (400..500, "invalid_request" | "invalid_grant")
            if response
                .description
                .contains("grant type is not allowed for this client") =>
        {
            Some((
                Misconfiguration::PasswordLogin,
                "the client may not use this grant",
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::oauth2_client::ClientSection as _;

    fn endpoints(method: &str, document: &Value) -> Result<String, String> {
        let section = json!({
            "issuer": "https://x.test",
            "client_id": "auth-gateway",
            "client_auth_method": method,
        });
        let section = serde_json::from_value(section).expect("a section");
        let settings = OAuth2Settings::read(section).expect("settings");
        let metadata = serde_json::from_value(document.clone()).expect("metadata");
        let selected = Endpoints::select(&settings, &metadata);
        let selected = selected.map_err(|fault| fault.to_string())?;
        let revocation = selected.revocation.expect("one");
        Ok(format!(
            "{} {} {revocation}",
            selected.token, selected.introspection
        ))
    }

    #[test]
    fn aliases_of_endpoints_are_used_by_clients_that_authenticate_by_tls() {
        let mut document = json!({
            "issuer": "https://x.test",
            "token_endpoint": "https://x.test/t",
            "introspection_endpoint": "https://x.test/i",
            "revocation_endpoint": "https://x.test/r",
        });
        let plain = "https://x.test/t https://x.test/i https://x.test/r";
        assert_eq!(
            endpoints("tls_client_auth", &document).as_deref(),
            Ok(plain)
        );
        document["mtls_endpoint_aliases"] = json!({
            "token_endpoint": "https://mtls.x.test/t",
            "revocation_endpoint": "https://mtls.x.test/r",
        });
        let aliases = "https://mtls.x.test/t https://x.test/i https://mtls.x.test/r";
        assert_eq!(
            endpoints("tls_client_auth", &document).as_deref(),
            Ok(aliases)
        );
        assert_eq!(
            endpoints("client_secret_basic", &document).as_deref(),
            Ok(plain)
        );
        document["mtls_endpoint_aliases"]["token_endpoint"] = json!("http://x.test/t");
        let refused = endpoints("tls_client_auth", &document).expect_err("without TLS");
        assert!(refused.contains("no usable token_endpoint"), "{refused}");
    }
}
