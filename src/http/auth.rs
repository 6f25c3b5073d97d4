//! The endpoints login, token and logout: request and response bodies, and the handlers.

use std::borrow::Cow;
use std::sync::Arc;

use actix_web::http::header;
use actix_web::web::{Data, Payload};
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse};
use iam_adapters::trace::Context;
use iam_adapters::types::{EMAIL_MAX, PASSWORD_MAX};
use iam_adapters::{ClientContext, Credentials, InvalidCredentials, Scope};
use jiff::Timestamp;
use jiff::tz::Offset;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use crate::gateway::error::GatewayError;
use crate::gateway::introspection_cache::Source;
use crate::gateway::session::TOKEN_BYTES_MAX;

use super::AppState;
use super::audited::{self, Origin};
use super::body::{self, Presence, RequestBody, no_store};
use super::middleware::{RequestId, RequestLog, warn_of_untrusted_proxy};
use super::problem::{InvalidRequest, Operation, Problem};

/// Session ids have 22 characters. The contract allows up to this many.
const SESSION_ID_BYTES_MAX: usize = 64;

/// The request of a login.
#[derive(Deserialize)]
struct LoginRequest {
    /// The e-mail address.
    email: String,
    /// The password.
    password: SecretString,
}

impl RequestBody<'_> for LoginRequest {
    const MEMBERS: &'static [(&'static str, Presence)] = &[
        ("email", Presence::Required),
        ("password", Presence::Required),
    ];
}

/// The response of a login.
#[derive(Serialize)]
struct SessionResponse<'a> {
    /// The id of the session.
    session_id: &'a str,
    /// The token of the session.
    session_token: &'a str,
    /// When the credentials were verified.
    verified_at: String,
    /// When the session expires.
    expires_at: String,
}

/// The request of an exchange.
#[derive(Deserialize)]
struct TokenRequest<'a> {
    /// From login.
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    /// From login.
    #[serde(borrow)]
    session_token: Cow<'a, str>,
    /// `session`, and nothing else.
    #[serde(borrow)]
    grant_type: Cow<'a, str>,
    /// The requested scope. Absent and empty mean the same; `null` is refused.
    #[serde(borrow, default)]
    scope: Cow<'a, str>,
}

impl<'a> RequestBody<'a> for TokenRequest<'a> {
    const MEMBERS: &'static [(&'static str, Presence)] = &[
        ("session_id", Presence::Required),
        ("session_token", Presence::Required),
        ("grant_type", Presence::Required),
        ("scope", Presence::Optional),
    ];
}

/// The response of an exchange.
struct TokenResponse<'a> {
    /// The signed JWT.
    access_token: &'a str,
    /// The granted scope.
    scope: &'a str,
    /// How long the token is valid, in seconds.
    expires_in: u64,
}

impl TokenResponse<'_> {
    /// The JSON, with `token_type`, which is always `bearer`.
    ///
    /// Not by `serde_json`, which searches the strings for characters to escape, and that costs more
    /// than the rest: neither base64url nor a scope (RFC 6749 section 3.3) has such a character.
    fn to_json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(self.access_token.len() + self.scope.len() + 96);
        json.extend_from_slice(br#"{"access_token":""#);
        json.extend_from_slice(self.access_token.as_bytes());
        json.extend_from_slice(br#"","scope":""#);
        json.extend_from_slice(self.scope.as_bytes());
        json.extend_from_slice(br#"","expires_in":"#);
        json.extend_from_slice(self.expires_in.to_string().as_bytes());
        json.extend_from_slice(br#","token_type":"bearer"}"#);
        json
    }
}

/// The request of a logout.
#[derive(Deserialize)]
struct LogoutRequest<'a> {
    /// From login.
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    /// From login.
    #[serde(borrow)]
    session_token: Cow<'a, str>,
}

impl<'a> RequestBody<'a> for LogoutRequest<'a> {
    const MEMBERS: &'static [(&'static str, Presence)] = &[
        ("session_id", Presence::Required),
        ("session_token", Presence::Required),
    ];
}

/// The response of a logout.
#[derive(Serialize)]
struct LogoutResponse {
    /// Always `Ok`.
    status: &'static str,
}

fn credentials(body: &[u8]) -> Result<Credentials, Problem> {
    let LoginRequest { email, password } = body::parse(body)?;
    Credentials::new(email, password)
        .map_err(|invalid| Problem::InvalidRequest(invalid_credentials(invalid)))
}

/// `POST /api/v1/auth/login`.
pub(super) async fn log_in(
    app_state: Data<AppState>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let body = body::read(&request, payload, &app_state).await?;
    let (audit, origin) = (&*app_state.audit, Origin::of(&request));
    // After the body has been read: its connection can serve the next request.
    audit.admit()?;
    let credentials = credentials(&body);
    let email = credentials.as_ref().ok().map(Credentials::email);
    if let Err(error) = app_state.gateway.admit_login(origin.address, email) {
        warn_of_untrusted_proxy(&app_state, &request);
        audited::refused_login(audit, origin, &error).await?;
        return Err(app_state.failed_login(error, None));
    }
    let credentials = credentials?;
    let client = ClientContext {
        address: origin.address,
        request_id: origin.id.as_str().to_owned(),
    };
    let mut line = audited::Login::begin(audit, origin, credentials.email());
    let attempt = app_state.gateway.log_in(&credentials, &client).await;
    let recorded = line.record(&attempt).await;
    with_log(&request, |log| {
        log.account = Some(attempt.account);
        log.iam.clone_from(&attempt.iam);
    });
    if let Err(unwritable) = recorded {
        if let Ok(session) = &attempt.result {
            line.withdraw(&attempt);
            let id = session.session_id.to_string();
            let token = session.session_token.expose_secret();
            // If the IAM fails, the gateway repeats it.
            let _ = app_state.gateway.log_out(&id, token, drop).await;
        }
        return Err(unwritable.into());
    }
    let session = attempt
        .result
        .map_err(|error| app_state.failed_login(error, attempt.iam.as_deref()))?;
    with_log(&request, |log| log.subject = Some(session.sub));
    Ok(json(&SessionResponse {
        session_id: &session.session_id.to_string(),
        session_token: session.session_token.expose_secret(),
        verified_at: timestamp(session.verified_at),
        expires_at: timestamp(session.expires_at),
    }))
}

/// `POST /api/v1/auth/token`.
pub(super) async fn exchange(
    app_state: Data<AppState>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let body = body::read(&request, payload, &app_state).await?;
    let exchange: TokenRequest<'_> = body::parse(&body)?;
    check_lengths(&exchange.session_id, &exchange.session_token)?;
    if exchange.grant_type != "session" {
        return Err(Problem::UnsupportedGrantType);
    }
    let scope = Scope::parse(&exchange.scope).map_err(Problem::InvalidScope)?;
    let (id, trace) = with_log(&request, |log| (log.id, log.trace.clone()))
        .unwrap_or_else(|| (RequestId::new(), Context::new()));
    let mut iam = None;
    let exchanged = app_state
        .gateway
        .exchange(
            &exchange.session_id,
            &exchange.session_token,
            scope,
            id.as_str(),
            trace,
            |name| iam = Some(Arc::clone(name)),
        )
        .await;
    let source = exchanged.as_ref().ok().map(|exchanged| exchanged.source);
    if let (Some(iam), Some(Source::Stale)) = (&iam, source) {
        app_state.health.serves_stale(iam);
    }
    with_log(&request, |log| (log.iam, log.source) = (iam, source));
    let exchanged = exchanged.map_err(|error| app_state.failed(Operation::Token, error))?;
    let response = TokenResponse {
        access_token: exchanged.token.expose(),
        scope: &exchanged.scope,
        expires_in: exchanged.token.expires_in,
    };
    Ok(json_response(response.to_json()))
}

/// `POST /api/v1/auth/logout`.
pub(super) async fn log_out(
    app_state: Data<AppState>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let body = body::read(&request, payload, &app_state).await?;
    let logout: LogoutRequest<'_> = body::parse(&body)?;
    check_lengths(&logout.session_id, &logout.session_token)?;
    let mut line = audited::Logout::begin(&app_state.audit, Origin::of(&request));
    let ended = app_state
        .gateway
        .log_out(&logout.session_id, &logout.session_token, |session| {
            with_log(&request, |log| log.iam = Some(Arc::clone(&session.iam)));
            line.opened(session);
        })
        .await;
    line.ended(&ended);
    ended.map_err(|error| app_state.failed(Operation::Logout, error))?;
    Ok(json(&LogoutResponse { status: "Ok" }))
}

/// Reads or changes the fields of the request's log line.
pub(super) fn with_log<T>(
    request: &HttpRequest,
    access: impl FnOnce(&mut RequestLog) -> T,
) -> Option<T> {
    request.extensions_mut().get_mut::<RequestLog>().map(access)
}

/// Why credentials are invalid, for the client.
pub(super) const fn invalid_credentials(credentials: InvalidCredentials) -> InvalidRequest {
    match credentials {
        InvalidCredentials::Email => InvalidRequest::NotAnEmailAddress("email"),
        InvalidCredentials::EmailTooLong => InvalidRequest::TooLong {
            member: "email",
            bytes_max: EMAIL_MAX,
        },
        InvalidCredentials::PasswordTooLong => InvalidRequest::TooLong {
            member: "password",
            bytes_max: PASSWORD_MAX,
        },
    }
}

/// A member that is too long is invalid input, not an invalid session.
fn check_lengths(session_id: &str, session_token: &str) -> Result<(), Problem> {
    for (member, value, bytes_max) in [
        ("session_id", session_id, SESSION_ID_BYTES_MAX),
        ("session_token", session_token, TOKEN_BYTES_MAX),
    ] {
        if value.len() > bytes_max {
            let too_long = InvalidRequest::TooLong { member, bytes_max };
            return Err(Problem::InvalidRequest(too_long));
        }
    }
    Ok(())
}

pub(super) fn json(body: &impl Serialize) -> HttpResponse {
    // Serializing strings cannot fail.
    let json = serde_json::to_vec(body);
    json.map_or_else(
        |_| HttpResponse::InternalServerError().finish(),
        json_response,
    )
}

fn json_response(json: Vec<u8>) -> HttpResponse {
    let mut response = HttpResponse::Ok();
    no_store(&mut response);
    response.insert_header((
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    ));
    response.body(json)
}

impl AppState {
    /// The problem of a login that failed, at the IAM with this name if one was chosen. Counts logins that
    /// a limit refused.
    fn failed_login(&self, error: GatewayError, iam: Option<&str>) -> Problem {
        if let GatewayError::TooManyLogins { limit, .. } = &error {
            let iam = self.gateway.iams().attributed(iam);
            self.metrics.throttled(*limit, iam);
        }
        self.failed(Operation::Login, error)
    }

    /// The problem of an operation that failed.
    pub(super) fn failed(&self, operation: Operation, error: GatewayError) -> Problem {
        Problem::Gateway {
            operation,
            error,
            precise: self.precise_backend_status,
        }
    }
}

/// RFC 3339 with a numeric offset: not every parser of ISO 8601 accepts `Z`.
pub(super) fn timestamp(unix_seconds: u64) -> String {
    let seconds = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
    let last = Timestamp::MAX.as_second();
    let time = Timestamp::from_second(seconds.min(last)).unwrap_or(Timestamp::MAX);
    time.display_with_offset(Offset::UTC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_response_is_valid_json() {
        let response = TokenResponse {
            access_token: "a-b_c.d.e",
            scope: "urn:shop:orders:order:read !#[]~",
            expires_in: 3600,
        };
        let json: serde_json::Value = serde_json::from_slice(&response.to_json()).unwrap();
        let expected = serde_json::json!({
            "access_token": "a-b_c.d.e",
            "scope": "urn:shop:orders:order:read !#[]~",
            "expires_in": 3600,
            "token_type": "bearer",
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn timestamp_has_whole_seconds_and_a_numeric_offset() {
        assert_eq!(timestamp(1_795_229_441), "2026-11-21T02:50:41+00:00");
        assert_eq!(timestamp(u64::MAX), "9999-12-30T22:00:00+00:00");
    }
}
