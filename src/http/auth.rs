//! The endpoints login, token and logout: request and response bodies, and the handlers.

use std::borrow::Cow;

use actix_web::http::header;
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use iam_adapters::{Credentials, Scope};
use jiff::Timestamp;
use jiff::tz::Offset;
use scopeguard::ScopeGuard;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use auth_gateway_core::session::TOKEN_BYTES_MAX;

use super::api_error::{ApiError, InvalidRequest, JSON};
use super::app_state::AppState;
use super::body::{self, Presence, RequestBody, present};
use super::caching::no_store;
use super::middleware::{request_context, warn_of_untrusted_proxy};

/// Session ids have 22 characters. The contract allows up to this many.
const SESSION_ID_BYTES_MAX: usize = 64;

#[derive(Deserialize)]
struct LoginRequest {
    email: String,
    password: SecretString,
    #[serde(default, deserialize_with = "present")]
    otp: Option<SecretString>,
}

impl RequestBody<'_> for LoginRequest {
    const MEMBERS: &'static [(&'static str, Presence)] = &[
        ("email", Presence::Required),
        ("password", Presence::Required),
        ("otp", Presence::Optional),
    ];
}

#[derive(Serialize)]
struct SessionResponse<'a> {
    session_id: &'a str,
    session_token: &'a str,
    verified_at: String,
    expires_at: String,
}

#[derive(Deserialize)]
struct TokenRequest<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    session_token: Cow<'a, str>,
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

/// The response of an exchange as JSON, with `token_type`, which is always `bearer`. `expires_in`: how long the token
/// is valid, in seconds.
///
/// Not by `serde_json`, which searches the strings for characters to escape, and that costs more
/// than the rest: neither base64url nor a scope (RFC 6749 section 3.3) has such a character.
fn token_response(access_token: &str, scope: &str, expires_in: u64) -> Vec<u8> {
    let mut json = Vec::with_capacity(access_token.len() + scope.len() + 96);
    json.extend_from_slice(br#"{"access_token":""#);
    json.extend_from_slice(access_token.as_bytes());
    json.extend_from_slice(br#"","scope":""#);
    json.extend_from_slice(scope.as_bytes());
    json.extend_from_slice(br#"","expires_in":"#);
    json.extend_from_slice(expires_in.to_string().as_bytes());
    json.extend_from_slice(br#","token_type":"bearer"}"#);
    json
}

#[derive(Deserialize)]
struct LogoutRequest<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    session_token: Cow<'a, str>,
}

impl<'a> RequestBody<'a> for LogoutRequest<'a> {
    const MEMBERS: &'static [(&'static str, Presence)] = &[
        ("session_id", Presence::Required),
        ("session_token", Presence::Required),
    ];
}

fn credentials(body: &[u8]) -> Result<Credentials, ApiError> {
    let LoginRequest {
        email,
        password,
        otp,
    } = body::parse(body)?;
    let credentials = Credentials::new(email, password);
    let credentials = credentials.and_then(|credentials| credentials.with_otp(otp));
    credentials.map_err(|invalid| ApiError::InvalidRequest(InvalidRequest::Credentials(invalid)))
}

/// `POST /api/v1/auth/login`.
pub(super) async fn log_in(
    app_state: Data<AppState>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let body = body::read(JSON, &request, payload, &app_state).await?;
    let context = &request_context(&request);
    let gateway = &app_state.gateway;
    // After the body has been read: its connection can serve the next request.
    let audit_gate = app_state.audit.admit()?;
    let credentials = credentials(&body);
    let email = credentials.as_ref().ok().map(Credentials::email);
    if let Err(error) = gateway.admit_login(context, email) {
        warn_of_untrusted_proxy(&app_state, &request);
        audit_gate.written().await?;
        return Err(ApiError::Gateway(error));
    }
    let credentials = credentials?;
    if credentials.otp().is_some() && !gateway.iams.take_otp(credentials.email()) {
        return Err(ApiError::InvalidRequest(InvalidRequest::Unsupported("otp")));
    }
    let session = gateway.log_in(context, &credentials).await;
    // Also if the connection breaks meanwhile.
    let unrecorded = scopeguard::guard(session, |session| {
        if let Ok(session) = session {
            gateway.withdraw_login(context, &credentials, session);
        }
    });
    audit_gate.written().await?;
    let session = ScopeGuard::into_inner(unrecorded).map_err(ApiError::Gateway)?;
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
) -> Result<HttpResponse, ApiError> {
    let body = body::read(JSON, &request, payload, &app_state).await?;
    let exchange: TokenRequest<'_> = body::parse(&body)?;
    check_lengths(&exchange.session_id, &exchange.session_token)?;
    if exchange.grant_type != "session" {
        return Err(ApiError::UnsupportedGrantType);
    }
    let scope = Scope::parse(&exchange.scope).map_err(ApiError::InvalidScope)?;
    let exchanged = (app_state.gateway)
        .exchange(
            &request_context(&request),
            &exchange.session_id,
            &exchange.session_token,
            scope,
        )
        .await
        .map_err(ApiError::Gateway)?;
    Ok(json_response(token_response(
        exchanged.token.expose(),
        &exchanged.scope,
        exchanged.token.expires_in,
    )))
}

/// `POST /api/v1/auth/logout`.
pub(super) async fn log_out(
    app_state: Data<AppState>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let body = body::read(JSON, &request, payload, &app_state).await?;
    let logout: LogoutRequest<'_> = body::parse(&body)?;
    check_lengths(&logout.session_id, &logout.session_token)?;
    (app_state.gateway)
        .log_out(
            &request_context(&request),
            &logout.session_id,
            &logout.session_token,
        )
        .await
        .map_err(ApiError::Gateway)?;
    Ok(json(&serde_json::json!({ "status": "Ok" })))
}

/// A member that is too long is invalid input, not an invalid session.
fn check_lengths(session_id: &str, session_token: &str) -> Result<(), ApiError> {
    for (member, value, bytes_max) in [
        ("session_id", session_id, SESSION_ID_BYTES_MAX),
        ("session_token", session_token, TOKEN_BYTES_MAX),
    ] {
        if value.len() > bytes_max {
            let too_long = InvalidRequest::TooLong { member, bytes_max };
            return Err(ApiError::InvalidRequest(too_long));
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
        let response = token_response("a-b_c.d.e", "urn:shop:orders:order:read !#[]~", 3600);
        let json: serde_json::Value = serde_json::from_slice(&response).unwrap();
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
