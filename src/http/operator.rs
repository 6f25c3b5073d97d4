//! Calls of operators on the management listener that change something. Each handler requires an
//! [`Operator`], which actix-web extracts only from a request with the right bearer token.

use std::future::{Ready, ready};
use std::net::IpAddr;

use actix_web::dev;
use actix_web::http::header;
use actix_web::web::{Data, Payload};
use actix_web::{FromRequest, HttpRequest, HttpResponse};
use iam_adapters::name::Name as _;
use iam_adapters::{ClientAddress, Credentials, Subject};
use jiff::Timestamp;
use scopeguard::ScopeGuard;
use secrecy::ExposeSecret as _;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use subtle::ConstantTimeEq as _;

use super::api_error::{ApiError, InvalidRequest, JSON};
use super::app_state::AppState;
use super::auth::{json, timestamp};
use super::body::{self, Presence, RequestBody, present};
use super::caching::no_store;
use super::middleware::request_context;
use auth_gateway_core::event::Event;
use auth_gateway_core::revoked_sessions::RevokedSessions;
use auth_gateway_core::session_id::SessionId;

/// The request has the bearer token `management.token`.
#[derive(Debug)]
pub(super) struct Operator(());

impl FromRequest for Operator {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut dev::Payload) -> Self::Future {
        ready(authenticate(request))
    }
}

fn authenticate(request: &HttpRequest) -> Result<Operator, ApiError> {
    let app_state = request.app_data::<Data<AppState>>();
    let app_state = app_state.ok_or(ApiError::NoOperatorToken)?;
    let (reason, error) = match check_token(app_state, request) {
        Ok(()) => return Ok(Operator(())),
        Err(refused) => refused,
    };
    app_state.gateway.emit(&Event::OperatorRefused {
        request: &request_context(request),
        path: request.path(),
        reason,
    });
    Err(error)
}

/// The error has the reason for the audit log.
fn check_token(
    app_state: &AppState,
    request: &HttpRequest,
) -> Result<(), (&'static str, ApiError)> {
    let token = app_state.operator_token.as_ref();
    let token = token.ok_or(("no_token_configured", ApiError::NoOperatorToken))?;
    let mut headers = request.headers().get_all(header::AUTHORIZATION);
    let sent = headers.next();
    let sent = sent.ok_or(("missing_token", ApiError::OperatorTokenMissing))?;
    let sent = bearer(sent.as_bytes()).filter(|_| headers.next().is_none());
    let token = token.load();
    let expected = token.expose_secret().as_bytes();
    if sent.is_some_and(|sent| sent.ct_eq(expected).into()) {
        return Ok(());
    }
    Err(("invalid_token", ApiError::OperatorTokenInvalid))
}

/// The token of `Bearer TOKEN`. The scheme is case-insensitive (RFC 9110 section 11.1).
fn bearer(credentials: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = credentials.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginLimitsResetRequest {
    email: String,
    /// An address in a known network of the account, which is reset too.
    #[serde(default, deserialize_with = "present")]
    client_address: Option<String>,
}

impl RequestBody<'_> for LoginLimitsResetRequest {
    const MEMBERS: &'static [(&'static str, Presence)] = &[
        ("email", Presence::Required),
        ("client_address", Presence::Optional),
    ];
    // Without a misspelt `client_address`, its network would stay limited.
    const REFUSES_OTHERS: bool = true;
}

/// `POST /admin/v1/login-limits/reset`.
pub(super) async fn reset_login_limits(
    _: Operator,
    app_state: Data<AppState>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let body = body::read(JSON, &request, payload, &app_state).await?;
    let LoginLimitsResetRequest {
        email,
        client_address: network,
    } = body::parse(&body)?;
    // An address that login refuses has no counts.
    let credentials = Credentials::new(email, "".into())
        .map_err(|invalid| ApiError::InvalidRequest(InvalidRequest::Credentials(invalid)))?;
    let network = network
        .map(|address| address.parse::<IpAddr>().map(ClientAddress::from))
        .transpose()
        .map_err(|_| ApiError::InvalidRequest(InvalidRequest::NotAnIpAddress("client_address")))?;
    let (gateway, context) = (&app_state.gateway, request_context(&request));
    let event = |is_done| Event::LoginLimitsReset {
        request: &context,
        email: credentials.email(),
        network,
        is_done,
    };
    let audit_gate = app_state.audit.admit()?;
    // Before the reset, which cannot be undone.
    gateway.emit(&event(true));
    // Also if the connection breaks meanwhile.
    let not_done = scopeguard::guard((), |()| gateway.emit(&event(false)));
    audit_gate.written().await?;
    ScopeGuard::into_inner(not_done);
    let limiter = &gateway.replica.login_limiter;
    limiter.clear_failures(credentials.email(), network);
    let mut response = HttpResponse::NoContent();
    no_store(&mut response);
    Ok(response.finish())
}

/// The request to revoke sessions: exactly one of the first four members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RevocationRequest {
    #[serde(default, deserialize_with = "present")]
    session_id: Option<String>,
    #[serde(default, deserialize_with = "present")]
    subject: Option<String>,
    /// All sessions of an IAM, by its name in the settings.
    #[serde(default, deserialize_with = "present")]
    iam: Option<String>,
    #[serde(default, deserialize_with = "only_true")]
    all: bool,
    /// Only sessions whose login began then or before.
    #[serde(default, deserialize_with = "present")]
    begun_until: Option<String>,
}

/// A member that may be absent, and must not be `false`.
fn only_true<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    bool::deserialize(deserializer)?
        .then_some(true)
        .ok_or_else(|| D::Error::custom("false"))
}

impl RequestBody<'_> for RevocationRequest {
    const MEMBERS: &'static [(&'static str, Presence)] = &[
        ("session_id", Presence::Optional),
        ("subject", Presence::Optional),
        ("iam", Presence::Optional),
        ("all", Presence::OptionalTrue),
        ("begun_until", Presence::Optional),
    ];
    // Without a misspelt `begun_until`, more sessions would be revoked.
    const REFUSES_OTHERS: bool = true;
}

impl RevocationRequest {
    /// The sessions. `now` is in seconds since 1970.
    fn sessions(self, now: u64) -> Result<RevokedSessions, InvalidRequest> {
        let begun_until = self.begun_until.as_deref();
        let begun_until = begun_until.map(|time| seconds(time, now)).transpose()?;
        match (self.session_id, self.subject, self.iam, self.all) {
            (Some(_), None, None, false) if begun_until.is_some() => {
                Err(InvalidRequest::NotTogether("session_id", "begun_until"))
            }
            (Some(id), None, None, false) => {
                let id = SessionId::parse(&id);
                let id = id.ok_or(InvalidRequest::NotASessionId("session_id"))?;
                Ok(RevokedSessions::One(id))
            }
            (None, Some(subject), None, false) => {
                let subject = Subject::new(subject).ok_or(InvalidRequest::Empty("subject"))?;
                Ok(RevokedSessions::OfSubject {
                    subject,
                    begun_until,
                })
            }
            (None, None, iam @ Some(_), false) | (None, None, iam @ None, true) => {
                Ok(RevokedSessions::OfIam { iam, begun_until })
            }
            _ => Err(InvalidRequest::NotExactlyOne(
                "`session_id`, `subject`, `iam` and `all`",
            )),
        }
    }
}

/// The time in seconds since 1970. No session began before 1970.
fn seconds(time: &str, now: u64) -> Result<u64, InvalidRequest> {
    let time: Timestamp = time
        .parse()
        .map_err(|_| InvalidRequest::NotATime("begun_until"))?;
    let seconds = u64::try_from(time.as_second()).unwrap_or_default();
    if seconds > now {
        return Err(InvalidRequest::InTheFuture("begun_until"));
    }
    Ok(seconds)
}

#[derive(Serialize)]
struct RevocationResponse {
    /// The member that selected the sessions.
    revoked: &'static str,
    /// Sessions whose login began then or before are revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    begun_until: Option<String>,
    /// Whether the other replicas have the revocation.
    replication: &'static str,
}

/// `POST /admin/v1/sessions/revoke`.
pub(super) async fn revoke_sessions(
    _: Operator,
    app_state: Data<AppState>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let body = body::read(JSON, &request, payload, &app_state).await?;
    let body: RevocationRequest = body::parse(&body)?;
    // Not the clock of this replica, which can be behind that of the operator.
    let gateway = &app_state.gateway;
    let now = gateway.replica.timeline.now() / 1_000;
    let sessions = body.sessions(now).map_err(ApiError::InvalidRequest)?;
    let begun_until = match &sessions {
        RevokedSessions::One(_) => None,
        RevokedSessions::OfSubject { begun_until, .. }
        | RevokedSessions::OfIam { begun_until, .. } => Some(begun_until.unwrap_or(now)),
    };
    let begun_until = begun_until.map(timestamp);
    let delivered = gateway.session_revoker.revoke(&sessions);
    // Before the delivery, during which the client may disconnect.
    gateway.emit(&Event::SessionRevocation {
        request: &request_context(&request),
        sessions: &sessions,
        begun_until: begun_until.as_deref(),
        result: delivered.as_ref().map(|_| ()).map_err(|why| *why),
    });
    let delivered =
        delivered.map_err(|why| ApiError::InvalidRequest(InvalidRequest::NotRevocable(why)))?;
    Ok(json(&RevocationResponse {
        revoked: sessions.selector(),
        begun_until,
        replication: delivered.await.name(),
    }))
}
