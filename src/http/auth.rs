//! The three endpoints: a body into an operation of the gateway, and its result into a body.

use actix_web::http::header;
use actix_web::web::{Data, Payload};
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse};
use iam_adapters::types::{EMAIL_MAX, PASSWORD_MAX};
use iam_adapters::{ClientContext, Credentials, InvalidCredentials, Scope};
use secrecy::ExposeSecret as _;
use serde::Serialize;

use crate::gateway::error::GatewayError;
use crate::gateway::knowledge::Source;
use crate::gateway::seal::TOKEN_BYTES_MAX;

use super::Front;
use super::body;
use super::client::{client_address, suspect_proxy};
use super::dto::{
    LoginRequest, LogoutRequest, LogoutResponse, SessionResponse, TokenRequest, TokenResponse,
    timestamp,
};
use super::edge::Note;
use super::problem::{InvalidRequest, Operation, Problem, no_store};
use super::request_id::RequestId;

/// Ids have 22 characters; clients are promised no more than this.
const SESSION_ID_BYTES_MAX: usize = 64;

/// `POST /api/v1/auth/login`.
pub(super) async fn log_in(
    front: Data<Front>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let body = body::read(&request, payload, &front).await?;
    let address = client_address(&front, &request);
    // A body is read though nobody will parse it: its connection can serve the next request.
    if let Err(error) = front.gateway.login_limiter().admit(address) {
        suspect_proxy(&front, &request);
        return Err(front.failed(Operation::Login, error));
    }
    let LoginRequest { email, password } = body::parse(&body)?;
    let credentials = Credentials::new(email, password)
        .map_err(|invalid| Problem::InvalidRequest(wrong_with(invalid)))?;
    let request_id = note(&request, |note| {
        note.account = Some(front.gateway.login_limiter().account(credentials.email()));
        note.id.as_str().to_owned()
    });
    let client = ClientContext {
        address,
        request_id: request_id.unwrap_or_default(),
    };
    let session = front
        .gateway
        .log_in(&credentials, &client)
        .await
        .map_err(|error| front.failed(Operation::Login, error))?;
    note(&request, |note| note.subject = Some(session.subject));
    Ok(json(&SessionResponse {
        session_id: &session.session_id.to_string(),
        session_token: session.session_token.expose_secret(),
        verified_at: timestamp(session.verified_at),
        expires_at: timestamp(session.expires_at),
    }))
}

/// `POST /api/v1/auth/token`.
pub(super) async fn exchange(
    front: Data<Front>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let body = body::read(&request, payload, &front).await?;
    let asked: TokenRequest<'_> = body::parse(&body)?;
    bounded(&asked.session_id, &asked.session_token)?;
    if asked.grant_type != "session" {
        return Err(Problem::UnsupportedGrantType);
    }
    let scope = Scope::parse(&asked.scope).map_err(Problem::InvalidScope)?;
    let id = note(&request, |note| note.id).unwrap_or_else(RequestId::new);
    let exchanged = front
        .gateway
        .exchange(&asked.session_id, &asked.session_token, scope, id.as_str())
        .await
        .map_err(|error| front.failed(Operation::Token, error))?;
    front.metrics.knowledge(exchanged.source);
    if exchanged.source == Source::Stale {
        front.health.served_stale();
    }
    note(&request, |note| note.source = Some(exchanged.source));
    let response = TokenResponse {
        access_token: exchanged.token.expose(),
        scope: &exchanged.scope,
        expires_in: exchanged.token.expires_in,
    };
    Ok(ok(response.to_json()))
}

/// `POST /api/v1/auth/logout`.
pub(super) async fn log_out(
    front: Data<Front>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let body = body::read(&request, payload, &front).await?;
    let asked: LogoutRequest<'_> = body::parse(&body)?;
    bounded(&asked.session_id, &asked.session_token)?;
    front
        .gateway
        .log_out(&asked.session_id, &asked.session_token)
        .await
        .map_err(|error| front.failed(Operation::Logout, error))?;
    Ok(json(&LogoutResponse { status: "Ok" }))
}

/// Notes something for the request's log line.
fn note<T>(request: &HttpRequest, write: impl FnOnce(&mut Note) -> T) -> Option<T> {
    request.extensions_mut().get_mut::<Note>().map(write)
}

pub(super) const fn wrong_with(credentials: InvalidCredentials) -> InvalidRequest {
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

/// Over-long is told apart from wrong, whatever else is right about the pair.
fn bounded(session_id: &str, session_token: &str) -> Result<(), Problem> {
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

fn json(body: &impl Serialize) -> HttpResponse {
    // Strings and numbers have no way to fail.
    serde_json::to_vec(body).map_or_else(|_| HttpResponse::InternalServerError().finish(), ok)
}

fn ok(json: Vec<u8>) -> HttpResponse {
    let mut response = HttpResponse::Ok();
    no_store(&mut response);
    response.insert_header((
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    ));
    response.body(json)
}

impl Front {
    pub(super) fn failed(&self, operation: Operation, error: GatewayError) -> Problem {
        if let GatewayError::TooManyLogins { limit, .. } = &error {
            self.metrics.throttled(*limit);
        }
        Problem::Gateway {
            operation,
            error,
            precise: self.precise_backend_status,
        }
    }
}
