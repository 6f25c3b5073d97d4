//! Calls of operators on the management listener that change something. Each handler requires an
//! [`Operator`], which actix-web extracts only from a request with the right bearer token.

use std::future::{Ready, ready};
use std::net::IpAddr;

use actix_web::dev;
use actix_web::http::header;
use actix_web::web::{Data, Payload};
use actix_web::{FromRequest, HttpRequest, HttpResponse};
use iam_adapters::{ClientAddress, Credentials, Subject};
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use subtle::ConstantTimeEq as _;

use super::AppState;
use super::auth::{invalid_credentials, json, timestamp};
use super::body::{self, Presence, RequestBody, no_store};
use super::middleware::client_address;
use super::problem::{InvalidRequest, Problem};
use crate::gateway::session::SessionId;
use crate::gateway::session_revoker::{NotRevocable, Propagation, RevokedSessions};

/// The request has the bearer token `management.token`.
#[derive(Debug)]
pub(super) struct Operator(());

impl FromRequest for Operator {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut dev::Payload) -> Self::Future {
        ready(authenticate(request))
    }
}

fn authenticate(request: &HttpRequest) -> Result<Operator, Problem> {
    let app_state = request.app_data::<Data<AppState>>();
    let app_state = app_state.ok_or(Problem::NoOperatorToken)?;
    let token = app_state.operator_token.as_ref();
    let token = token.ok_or(Problem::NoOperatorToken)?.get();
    let mut headers = request.headers().get_all(header::AUTHORIZATION);
    let sent = headers.next().ok_or(Problem::OperatorTokenMissing)?;
    let sent = bearer(sent.as_bytes()).filter(|_| headers.next().is_none());
    let expected = token.expose_secret().as_bytes();
    if sent.is_some_and(|sent| sent.ct_eq(expected).into()) {
        return Ok(Operator(()));
    }
    tracing::warn!(
        target: "auth_gateway::audit",
        path = request.path(),
        client.address = client_address(app_state, request).map(tracing::field::display),
        "operator call refused: wrong bearer token"
    );
    Err(Problem::OperatorTokenInvalid)
}

/// The token of `Bearer TOKEN`. The scheme is case-insensitive (RFC 9110 section 11.1).
fn bearer(credentials: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = credentials.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

/// The request to reset the login limits.
#[derive(Deserialize)]
struct LoginLimitsResetRequest {
    /// The e-mail address of the account.
    email: String,
    /// An address in a known network of the account, which is reset too.
    #[serde(default, deserialize_with = "present")]
    client_address: Option<String>,
}

/// A member that may be absent, and must not be `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

impl RequestBody<'_> for LoginLimitsResetRequest {
    const MEMBERS: &'static [(&'static str, Presence)] = &[
        ("email", Presence::Required),
        ("client_address", Presence::Optional),
    ];
}

/// `POST /admin/v1/login-limits/reset`.
pub(super) async fn reset_login_limits(
    _: Operator,
    app_state: Data<AppState>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let body = body::read(&request, payload, &app_state).await?;
    let LoginLimitsResetRequest {
        email,
        client_address: network,
    } = body::parse(&body)?;
    // An address that login refuses has no counts.
    let credentials = Credentials::new(email, "".into())
        .map_err(|invalid| Problem::InvalidRequest(invalid_credentials(invalid)))?;
    let network = network
        .map(|address| address.parse::<IpAddr>().map(ClientAddress::from))
        .transpose()
        .map_err(|_| Problem::InvalidRequest(InvalidRequest::NotAnIpAddress("client_address")))?;
    let account = app_state
        .gateway
        .reset_login_limits(credentials.email(), network);
    tracing::info!(
        target: "auth_gateway::audit",
        %account,
        network = network.map(tracing::field::display),
        client.address = client_address(&app_state, &request).map(tracing::field::display),
        "an operator has reset the login limits of an account"
    );
    let mut response = HttpResponse::NoContent();
    no_store(&mut response);
    Ok(response.finish())
}

/// The request to revoke sessions: exactly one of the first four members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RevocationRequest {
    /// One session.
    #[serde(default, deserialize_with = "present")]
    session_id: Option<String>,
    /// All sessions of a subject.
    #[serde(default, deserialize_with = "present")]
    subject: Option<String>,
    /// All sessions of an IAM, by its name in the settings.
    #[serde(default, deserialize_with = "present")]
    iam: Option<String>,
    /// All sessions.
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
    /// The sessions, and the member that selects them. `now` is in seconds since 1970.
    fn sessions(self, now: u64) -> Result<(&'static str, RevokedSessions), InvalidRequest> {
        let until = self.begun_until.as_deref();
        let until = until.map(|time| begun_until(time, now)).transpose()?;
        let begun_until = until.unwrap_or(now);
        match (self.session_id, self.subject, self.iam, self.all) {
            (Some(_), None, None, false) if until.is_some() => {
                Err(InvalidRequest::NotTogether("session_id", "begun_until"))
            }
            (Some(id), None, None, false) => {
                let id = SessionId::parse(&id);
                let id = id.ok_or(InvalidRequest::NotASessionId("session_id"))?;
                Ok(("session_id", RevokedSessions::One(id)))
            }
            (None, Some(subject), None, false) => {
                let subject = Subject::new(subject).ok_or(InvalidRequest::Empty("subject"))?;
                let sessions = RevokedSessions::OfSubject {
                    subject,
                    begun_until,
                };
                Ok(("subject", sessions))
            }
            (None, None, iam @ Some(_), false) => {
                Ok(("iam", RevokedSessions::OfIam { iam, begun_until }))
            }
            (None, None, None, true) => {
                let iam = None;
                Ok(("all", RevokedSessions::OfIam { iam, begun_until }))
            }
            _ => Err(InvalidRequest::NotExactlyOne(
                "`session_id`, `subject`, `iam` and `all`",
            )),
        }
    }
}

/// The time in seconds since 1970. No session began before 1970.
fn begun_until(time: &str, now: u64) -> Result<u64, InvalidRequest> {
    let time: Timestamp = time
        .parse()
        .map_err(|_| InvalidRequest::NotATime("begun_until"))?;
    let seconds = u64::try_from(time.as_second()).unwrap_or_default();
    if seconds > now {
        return Err(InvalidRequest::InTheFuture("begun_until"));
    }
    Ok(seconds)
}

/// The response to a revocation.
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
) -> Result<HttpResponse, Problem> {
    let body = body::read(&request, payload, &app_state).await?;
    let body: RevocationRequest = body::parse(&body)?;
    let now = app_state.gateway.now().unix_seconds();
    let (revoked, sessions) = body.sessions(now).map_err(Problem::InvalidRequest)?;
    let delivered = app_state.gateway.session_revoker().revoke(&sessions);
    let delivered = delivered.map_err(|why| {
        Problem::InvalidRequest(match why {
            NotRevocable::UnknownIam => InvalidRequest::UnknownIam("iam"),
            NotRevocable::UnknownPrefix => InvalidRequest::UnknownPrefix("subject"),
        })
    })?;
    let (subject, iam, begun_until) = match &sessions {
        RevokedSessions::One(_) => (None, None, None),
        RevokedSessions::OfSubject {
            subject,
            begun_until,
        } => (Some(subject.as_str()), None, Some(*begun_until)),
        RevokedSessions::OfIam { iam, begun_until } => (None, iam.as_deref(), Some(*begun_until)),
    };
    let begun_until = begun_until.map(timestamp);
    // Before the delivery, during which the client may disconnect.
    tracing::info!(
        target: "auth_gateway::audit",
        revoked,
        subject,
        iam,
        begun_until = begun_until.as_deref(),
        client.address = client_address(&app_state, &request).map(tracing::field::display),
        "an operator has revoked sessions"
    );
    Ok(json(&RevocationResponse {
        revoked,
        begun_until,
        replication: match delivered.await {
            Propagation::Off => "off",
            Propagation::Delivered => "delivered",
            Propagation::Pending => "pending",
        },
    }))
}
