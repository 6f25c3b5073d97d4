//! Calls of operators on the management listener that change something. Each handler requires an
//! [`Operator`], which actix-web extracts only from a request with the right bearer token.

use std::future::{Ready, ready};
use std::net::IpAddr;

use actix_web::dev;
use actix_web::http::header;
use actix_web::web::{Data, Payload};
use actix_web::{FromRequest, HttpRequest, HttpResponse};
use iam_adapters::{ClientAddress, Credentials};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Deserializer};
use subtle::ConstantTimeEq as _;

use super::Front;
use super::auth::invalid_credentials;
use super::body::{self, Presence, RequestBody, no_store};
use super::middleware::client_address;
use super::problem::{InvalidRequest, Problem};

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
    let front = request.app_data::<Data<Front>>();
    let front = front.ok_or(Problem::NoOperatorToken)?;
    let token = front.operator_token.as_ref();
    let token = token.ok_or(Problem::NoOperatorToken)?;
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
        client.address = client_address(front, request).map(tracing::field::display),
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
    front: Data<Front>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let body = body::read(&request, payload, &front).await?;
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
    let account = front
        .gateway
        .reset_login_limits(credentials.email(), network);
    tracing::info!(
        target: "auth_gateway::audit",
        %account,
        network = network.map(tracing::field::display),
        client.address = client_address(&front, &request).map(tracing::field::display),
        "an operator has reset the login limits of an account"
    );
    let mut response = HttpResponse::NoContent();
    no_store(&mut response);
    Ok(response.finish())
}
