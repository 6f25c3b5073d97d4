//! Ory Kratos: login by the password method of an API flow, `/sessions/whoami` for liveness and the user,
//! and logout by the session token. Only the public API is called.
//!
//! `whoami` answers 401 for a session that has ended, without a token, and while the database fails, also when
//! `/health/ready` is 200. The beginning of a login flow with the session token answers differently for an
//! ended session, an active one and a failure, so it decides whether "inactive" is believed.

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::HeaderValue;
use reqwest::{RequestBuilder, StatusCode};
use scopeguard::ScopeGuard;
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use url::Url;

use crate::abandoned;
use crate::adapter::{Capabilities, IamAdapter};
use crate::claims;
use crate::client::{MADE_UP_TOKEN, Response, UpstreamClient, on_behalf_of, url_below};
use crate::error::{IamError, Misconfiguration, Refusal};
use crate::json;
use crate::oauth2_client::{PermissionNames, Proofs, as_code};
use crate::scope::Permissions;
use crate::types::{
    Authenticated, ClientContext, Credentials, Introspection, Subject, UpstreamSession,
};

mod settings;
mod wire;

pub use settings::KratosSettings;

use wire::{KratosError, KratosErrorBody, Login, LoginFlow, Session};

const NAME: &str = "kratos";

/// The path that begins a login flow.
const LOGIN_FLOW: [&str; 3] = ["self-service", "login", "api"];

/// A section of the settings to start from.
pub(crate) const EXAMPLE: &str = include_str!("kratos/example.toml");

/// The message of a login for an unknown address or a wrong password.
const INVALID_CREDENTIALS: u64 = 4_000_006;
/// That for an address that must be verified first.
const ADDRESS_NOT_VERIFIED: u64 = 4_000_010;
/// The error of a login for a disabled identity, which has no id of its own.
const IDENTITY_DISABLED: &str = "identity is disabled";
/// How the reason of the error for a method that is not enabled begins.
const DISABLED_ENDPOINT: &str = "This endpoint was disabled";
/// The error of `whoami` for a session that needs a second factor.
const SECOND_FACTOR_REQUIRED: &str = "session_aal2_required";
/// The error of a login flow that begins with the token of an active session.
const ACTIVE_SESSION: &str = "session_already_available";

/// One Kratos.
#[derive(Debug)]
struct Kratos {
    http: UpstreamClient,
    settings: KratosSettings,
    issuer: String,
    names: PermissionNames,
    proofs: Arc<Proofs>,
}

/// What `whoami` states about a token.
enum Whoami {
    /// The session of the token, and its user.
    Session(Session),
    /// No active session, also by its login flow.
    NoSession,
    /// A session that is not accepted before a second factor.
    SecondFactorRequired,
}

impl Kratos {
    fn endpoint(&self, path: &[&str]) -> Url {
        url_below(&self.settings.url, path)
    }

    /// The meaning of a login's response that is not the expected success.
    fn refusal(&self, response: &Response) -> IamError {
        let error = error(response).unwrap_or_default();
        match (response.status, messages(&response.body)) {
            (StatusCode::BAD_REQUEST, Some(ids)) if ids.contains(&INVALID_CREDENTIALS) => {
                IamError::Refused(Refusal::InvalidCredentials)
            }
            (StatusCode::BAD_REQUEST, Some(ids)) if ids.contains(&ADDRESS_NOT_VERIFIED) => {
                IamError::Refused(Refusal::Incomplete)
            }
            (StatusCode::BAD_REQUEST, Some(ids)) => {
                let unknown = format!("status 400 of a login, with the messages {ids:?}");
                self.proofs
                    .possible_refusal(IamError::Unreadable(unknown.into()))
            }
            (StatusCode::UNAUTHORIZED, _) if error.message == IDENTITY_DISABLED => {
                IamError::Refused(Refusal::Disabled)
            }
            (StatusCode::NOT_FOUND, _) if error.reason.starts_with(DISABLED_ENDPOINT) => {
                IamError::misconfigured(
                    Misconfiguration::PasswordLogin,
                    "status 404: enable selfservice.methods.password in Kratos",
                )
            }
            _ => fault(response),
        }
    }

    /// Asks about a token. That it has no session is confirmed.
    async fn whoami(&self, token: &SecretString) -> Result<Whoami, IamError> {
        let request = self.get(&["sessions", "whoami"], token)?;
        let response = self.http.send(request).await?;
        match (response.status, error(&response)) {
            (StatusCode::UNAUTHORIZED, Some(_)) => {}
            (StatusCode::FORBIDDEN, Some(error)) if error.id == SECOND_FACTOR_REQUIRED => {
                return Ok(Whoami::SecondFactorRequired);
            }
            _ => {
                let session: Session = read(&response, "whoami")?;
                if session.active {
                    return Ok(Whoami::Session(session));
                }
            }
        }
        self.confirm_no_session(token).await?;
        Ok(Whoami::NoSession)
    }

    /// Proves that the token has no active session, after a response that could also be a failure.
    async fn confirm_no_session(&self, token: &SecretString) -> Result<(), IamError> {
        // Without a token, a flow begins too. So it is also in the header that Kratos reads if a proxy has removed
        // the first one.
        let request = self.get(&LOGIN_FLOW, token)?;
        let request = request.bearer_auth(token.expose_secret());
        let response = self.http.send(request).await?;
        if error(&response).is_some_and(|error| error.id == ACTIVE_SESSION) {
            let contradiction = "it denied a session that is active: check its database, and that \
                                 X-Session-Token reaches Kratos";
            return Err(IamError::Failed(contradiction.to_owned()));
        }
        read::<LoginFlow>(&response, "login flow").map(drop)
    }

    /// A GET request with a session token.
    fn get(&self, path: &[&str], token: &SecretString) -> Result<RequestBuilder, IamError> {
        let value = HeaderValue::from_str(token.expose_secret());
        let mut value = value
            .map_err(|_| IamError::Unreadable("the session is not one of this adapter".into()))?;
        value.set_sensitive(true);
        let request = self.http.get(&self.endpoint(path));
        Ok(request.header("x-session-token", value))
    }

    fn permissions(&self, identity: &Value) -> Result<Permissions, IamError> {
        let names = public_list(identity, self.settings.permissions_member());
        let names = names.ok_or_else(|| {
            let what =
                "the permissions in metadata_public are no list of texts: check permissions_member";
            IamError::UnreadableSession(what.into())
        })?;
        Ok(self.names.read(names))
    }

    fn groups(&self, identity: &Value) -> Option<Vec<String>> {
        let names = public_list(identity, self.settings.groups_member.as_deref()?)?;
        Some(names.into_iter().map(str::to_owned).collect())
    }

    /// Ends the session of a token. Kratos denies the logout of a token that it does not know.
    async fn end(&self, token: &SecretString) -> Result<(), IamError> {
        let response = self.http.send(self.logout_request(token)).await?;
        match response.status {
            StatusCode::NO_CONTENT => Ok(()),
            StatusCode::FORBIDDEN if error(&response).is_some() => {
                self.confirm_no_session(token).await
            }
            _ => Err(fault(&response)),
        }
    }

    fn logout_request(&self, session_token: &SecretString) -> RequestBuilder {
        let url = self.endpoint(&["self-service", "logout", "api"]);
        let body = json!({"session_token": session_token.expose_secret()});
        self.http.delete(&url).json(&body)
    }
}

#[async_trait]
impl IamAdapter for Kratos {
    fn name(&self) -> &'static str {
        NAME
    }

    fn issuer(&self) -> &str {
        &self.issuer
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            back_channel_logout: false,
            one_time_password: false,
            ..Capabilities::FULL
        }
    }

    /// Logs in by a flow, and asks `whoami` about the new session, as introspections do.
    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        let request = self.http.get(&self.endpoint(&LOGIN_FLOW));
        let begun = self.http.send(on_behalf_of(request, client)).await?;
        let flow: LoginFlow = read(&begun, "login flow")?;
        // Not the address in the flow, which is that of Kratos for browsers and could be any.
        let mut action = self.endpoint(&["self-service", "login"]);
        action.query_pairs_mut().append_pair("flow", &flow.id);
        let body = json!({
            "method": "password",
            "identifier": credentials.email(),
            "password": credentials.password().expose_secret(),
        });
        let complete = self.http.post(&action).json(&body);
        let response = self.http.send(on_behalf_of(complete, client)).await?;
        if response.status != StatusCode::OK {
            return Err(self.refusal(&response));
        }
        let Login { session_token } = read(&response, "login")?;
        let abandoned = abandoned::guard(NAME, &self.http, || {
            Ok(vec![self.logout_request(&session_token)])
        });
        let found = match self.whoami(&session_token).await? {
            Whoami::Session(found) => found,
            Whoami::SecondFactorRequired => return Err(IamError::Refused(Refusal::Incomplete)),
            Whoami::NoSession => return Err(self.proofs.active_session_reported_inactive()),
        };
        self.proofs.record_active();
        self.proofs.login.record();
        let (subject, expires_in) = (subject(&found.identity), found.lifetime());
        let (Some(subject), Some(expires_in)) = (subject, expires_in) else {
            let missing = "whoami: a session without a user, or without time left";
            return Err(IamError::Unreadable(missing.into()));
        };
        let login = Authenticated {
            expires_in: Some(expires_in),
            permissions: Some(self.permissions(&found.identity)?),
            groups: self.groups(&found.identity),
            claims: self.settings.claims.read(&found.identity)?,
            session: UpstreamSession {
                subject,
                id: found.id,
                secret: session_token.clone(),
            },
        };
        ScopeGuard::into_inner(abandoned);
        Ok(login)
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let found = match self.whoami(&session.secret).await? {
            Whoami::Session(found) => found,
            Whoami::SecondFactorRequired => return Ok(Introspection::Inactive),
            Whoami::NoSession => {
                self.proofs.check_introspection()?;
                return Ok(Introspection::Inactive);
            }
        };
        let subject = subject(&found.identity);
        if found.id != session.id || subject.as_ref() != Some(&session.subject) {
            let other = "whoami is about another session or subject";
            return Err(IamError::UnreadableSession(other.into()));
        }
        self.proofs.record_active();
        Ok(Introspection::Active {
            subject: session.subject.clone(),
            permissions: self.permissions(&found.identity)?,
            groups: self.groups(&found.identity),
            claims: self.settings.claims.read(&found.identity)?,
        })
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        self.end(&session.secret).await
    }

    async fn probe(&self) -> Result<(), IamError> {
        let request = self.http.get(&self.endpoint(&["health", "ready"]));
        let health: Value = read(&self.http.send(request).await?, "health")?;
        match health.get("status") {
            Some(status) if status == "ok" => self.proofs.check_introspection(),
            _ => Err(IamError::Unreadable("health: not ok".into())),
        }
    }

    async fn probe_logout(&self) -> Result<(), IamError> {
        self.end(&MADE_UP_TOKEN.into()).await
    }
}

/// Reads the JSON object of a 200 response. `what` names the object in errors.
fn read<T: DeserializeOwned>(response: &Response, what: &'static str) -> Result<T, IamError> {
    if response.status != StatusCode::OK {
        return Err(fault(response));
    }
    response.object(what)
}

/// The error in a response; `None`: it is none of Kratos with this status.
fn error(response: &Response) -> Option<KratosError> {
    let body: KratosErrorBody = json::object(&response.body).ok()?;
    (body.error.code == response.status.as_u16()).then_some(body.error)
}

/// The fault of a response without a known meaning.
fn fault(response: &Response) -> IamError {
    if let Some(fault) = response.fault() {
        return fault;
    }
    let status = response.status.as_u16();
    if response.status == StatusCode::NOT_FOUND {
        let detail = format!("status {status}: check url");
        return IamError::misconfigured(Misconfiguration::Other, detail);
    }
    let error = error(response).unwrap_or_default();
    IamError::Unreadable(match as_code(&error.id) {
        Some(id) => format!("status {status}, error {id}").into(),
        None => format!("status {status}").into(),
    })
}

/// The immutable id of the user.
fn subject(identity: &Value) -> Option<Subject> {
    identity.get("id")?.as_str().and_then(Subject::new)
}

/// The texts in a list of the user's public data that only administrators can write; none if it is missing, and
/// `None` if it is no list of texts.
fn public_list<'i>(identity: &'i Value, member: &str) -> Option<Vec<&'i str>> {
    let metadata = identity.get("metadata_public");
    match metadata.and_then(|metadata| claims::member(metadata, member)) {
        None => Some(Vec::new()),
        Some(list) => list.as_array()?.iter().map(Value::as_str).collect(),
    }
}

/// The identifiers of the messages of a login flow about the whole login.
fn messages(flow: &[u8]) -> Option<Vec<u64>> {
    let flow: Value = json::object(flow).ok()?;
    let messages = flow.pointer("/ui/messages")?.as_array()?.iter();
    messages
        .map(|message| message.get("id")?.as_u64())
        .collect()
}
