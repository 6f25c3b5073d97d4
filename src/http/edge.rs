//! The middleware around every request: its id, panics, the form of problem responses, one log line
//! and the metrics.

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::{ConnectionType, StatusCode};
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{Error, HttpMessage as _, HttpResponse, ResponseError};
use futures_util::FutureExt as _;
use iam_adapters::{ClientAddress, Subject};
use tracing::{Instrument as _, Span};

use crate::gateway::knowledge::Source;
use crate::gateway::login_limiter::Account;
use crate::server::{Hooks, Refusal, Shed};
use crate::telemetry::metrics::{Outcome, Route};

use super::Front;
use super::client::client_address;
use super::problem::{InvalidRequest, Problem};
use super::request_id::{self, RequestId};

/// What a handler adds to the log line of its request.
#[derive(Debug)]
pub(super) struct RequestLog {
    /// The id of the request.
    pub(super) id: RequestId,
    /// The source of the knowledge that an exchange used.
    pub(super) source: Option<Source>,
    /// The account that a login names, whether it succeeds or not.
    pub(super) account: Option<Account>,
    /// The subject that logged in.
    pub(super) subject: Option<Subject>,
}

impl RequestLog {
    fn of(id: RequestId) -> Self {
        Self {
            id,
            source: None,
            account: None,
            subject: None,
        }
    }
}

/// The middleware around both listeners.
///
/// An outer middleware can choose the gateway of a request, by adding another [`Front`] to its data,
/// and its [`Route`], by adding one to its extensions.
///
/// # Errors
///
/// The handler panicked. The error has the response.
pub async fn handle_request(
    front: Data<Front>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let context = RequestContext {
        began: Instant::now(),
        id: RequestId::of(request.headers()),
        route: route(&request),
        client: client_address(&front, request.request()),
    };
    let log = RequestLog::of(context.id);
    request.extensions_mut().insert(log);
    if front.health.is_draining() && context.route.is_operation() {
        let mut response = context.problem_response(&front, &Problem::Draining, None);
        let head = response.head_mut();
        head.set_connection_type(ConnectionType::Close);
        return Ok(request.into_response(response));
    }
    // From here on the inner services own the request. In a panic it is lost with them.
    let handled = next.call(request).instrument(context.span());
    let Ok(Ok(response)) = AssertUnwindSafe(handled).catch_unwind().await else {
        let response = context.problem_response(&front, &Problem::Panic, None);
        return Err(PanicError(RefCell::new(Some(response))).into());
    };
    let log = response.request().extensions_mut().remove::<RequestLog>();
    let problem = response.response().error();
    if let Some(problem) = problem.and_then(Error::as_error::<Problem>) {
        let problem_response = context.problem_response(&front, problem, log.as_ref());
        return Ok(response.into_response(problem_response));
    }
    context.finish(&front, response.status(), None, log.as_ref());
    let mut response = response.map_into_boxed_body();
    let headers = response.headers_mut();
    headers.insert(request_id::HEADER, context.id.header_value());
    Ok(response)
}

/// The route that an outer middleware chose, or that of the path.
fn route(request: &ServiceRequest) -> Route {
    let chosen = request.extensions().get::<Route>().copied();
    chosen.unwrap_or_else(|| Route::of(request.path()))
}

impl Hooks for Front {
    fn connection_shed(&self, reason: Shed) {
        let shed = self.metrics.shed();
        match reason {
            Shed::Refused => shed.full.inc(),
            Shed::Idle => shed.idle.inc(),
        };
    }

    /// Logged and counted like the response to a request.
    fn refusal(&self, peer: Option<SocketAddr>, refusal: Refusal) -> HttpResponse {
        let context = RequestContext {
            began: Instant::now(),
            id: RequestId::new(),
            route: Route::Other,
            client: peer.map(|peer| peer.ip().into()),
        };
        let problem = match refusal {
            Refusal::MalformedHead => Problem::InvalidRequest(InvalidRequest::NotHttp),
            Refusal::HeadTooLarge => Problem::HeadersTooLarge,
            Refusal::HeadTimeout => Problem::TooSlow,
            Refusal::ConnectionLimit => Problem::Overloaded,
        };
        context.problem_response(self, &problem, None)
    }
}

/// What is known of a request before it is handled.
struct RequestContext {
    began: Instant,
    id: RequestId,
    route: Route,
    client: Option<ClientAddress>,
}

impl RequestContext {
    /// Adds the id of the request to the log lines of its handler. Not for an exchange, which enters
    /// such a span only before it calls the IAM: a span costs 3,700 instructions, and cached
    /// exchanges log nothing but the request itself.
    fn span(&self) -> Span {
        if self.route == Route::Token {
            Span::none()
        } else {
            tracing::error_span!("request", request_id = self.id.as_str())
        }
    }

    /// The response to a request with a problem. Also logs and counts the request.
    fn problem_response(
        &self,
        front: &Front,
        problem: &Problem,
        log: Option<&RequestLog>,
    ) -> HttpResponse {
        let mut response = problem.response(&self.id);
        let headers = response.headers_mut();
        headers.insert(request_id::HEADER, self.id.header_value());
        self.finish(front, response.status(), Some(problem), log);
        response
    }

    /// Writes the log line of the request, and counts it.
    fn finish(
        &self,
        front: &Front,
        status: StatusCode,
        problem: Option<&Problem>,
        log: Option<&RequestLog>,
    ) {
        let took = self.began.elapsed();
        let outcome = match problem {
            Some(problem) => problem.answer().code.outcome(),
            // Other routes may have problems of their own.
            None if status.is_client_error() => Outcome::InvalidRequest,
            None => Outcome::Ok,
        };
        front.metrics.request(self.route, outcome, took);
        macro_rules! line {
            ($level:expr) => {
                tracing::event!(
                    target: "auth_gateway::request",
                    $level,
                    request_id = self.id.as_str(),
                    route = self.route.name(),
                    status = status.as_u16(),
                    outcome = outcome.name(),
                    iam.adapter = front.adapter,
                    cache = log.and_then(|log| log.source).map(Source::name),
                    account = log.and_then(|log| log.account).map(tracing::field::display),
                    subject = log.and_then(|log| log.subject.as_ref()).map(Subject::as_str),
                    client.address = self.client.map(tracing::field::display),
                    error = problem.and_then(Problem::cause),
                    duration_ms = took.as_secs_f64() * 1e3,
                )
            };
        }
        // A client can cause any number of these, and nothing is broken.
        let shed = matches!(problem, Some(Problem::Overloaded));
        if status.is_server_error() && !shed {
            line!(tracing::Level::ERROR);
        } else if self.route == Route::Management {
            // Probes and scrapes come every few seconds.
            line!(tracing::Level::DEBUG);
        } else {
            line!(tracing::Level::INFO);
        }
    }
}

/// The error of a request whose handler panicked, with its response. The connection stays open.
#[derive(Debug)]
struct PanicError(RefCell<Option<HttpResponse>>);

impl fmt::Display for PanicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("panic")
    }
}

impl ResponseError for PanicError {
    fn error_response(&self) -> HttpResponse {
        let response = self.0.take();
        response.unwrap_or_else(|| HttpResponse::InternalServerError().finish())
    }
}

#[cfg(test)]
mod tests;
