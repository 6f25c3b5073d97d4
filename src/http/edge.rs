//! Around every request: its id, a net under panics, the form of errors, one log line, the metrics.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::{ConnectionType, StatusCode};
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{Error, HttpMessage as _, HttpResponse, ResponseError};
use futures_util::FutureExt as _;
use iam_adapters::Subject;
use tracing::{Instrument as _, Span};

use crate::gateway::knowledge::Source;
use crate::gateway::login_limiter::Account;
use crate::server::{Hooks, Refusal, Shed};
use crate::telemetry::metrics::{Outcome, Route};

use super::Front;
use super::client::client_address;
use super::problem::{Code, InvalidRequest, Problem};
use super::request_id::{self, RequestId};

/// What goes with a request from here to its handler and back.
#[derive(Debug)]
pub(super) struct Note {
    /// The request's id.
    pub(super) id: RequestId,
    /// What an exchange was decided on.
    pub(super) source: Option<Source>,
    /// Whose login it is by its own word, whatever comes of it.
    pub(super) account: Option<Account>,
    /// Who logged in.
    pub(super) subject: Option<Subject>,
}

impl Note {
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
/// Where the code panicked: it carries its own response.
pub async fn around(
    front: Data<Front>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let seen = Seen {
        began: Instant::now(),
        id: RequestId::of(request.headers()),
        route: route(&request),
        client: client_address(&front, request.request()),
    };
    handle(&front, &seen, request, next).await
}

/// The route that an outer middleware said, or that of the path.
fn route(request: &ServiceRequest) -> Route {
    let said = request.extensions().get::<Route>().copied();
    said.unwrap_or_else(|| Route::of(request.path()))
}

async fn handle(
    front: &Front,
    seen: &Seen,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    request.extensions_mut().insert(Note::of(seen.id));
    if front.health.is_draining() && seen.route.is_operation() {
        return Ok(turn_down(front, seen, request, &Problem::Draining));
    }
    // From here on the request belongs to the inner services, and is lost with them in a panic.
    let handled = next.call(request).instrument(seen.span());
    let Ok(Ok(response)) = AssertUnwindSafe(handled).catch_unwind().await else {
        seen.finish(
            front,
            StatusCode::INTERNAL_SERVER_ERROR,
            Some(&Problem::Panic),
            None,
        );
        return Err(Broken { id: seen.id }.into());
    };
    let note = response.request().extensions_mut().remove::<Note>();
    let problem = response
        .response()
        .error()
        .and_then(Error::as_error::<Problem>);
    seen.finish(front, response.status(), problem, note.as_ref());
    let response = match problem.map(|problem| problem.response(&seen.id)) {
        Some(told) => response.into_response(told),
        None => response.map_into_boxed_body(),
    };
    Ok(seen.named(response))
}

/// The answer to a request that nobody looks at any further, on a connection that ends with it.
fn turn_down(
    front: &Front,
    seen: &Seen,
    request: ServiceRequest,
    problem: &Problem,
) -> ServiceResponse<BoxBody> {
    let mut response = problem.response(&seen.id);
    response
        .head_mut()
        .set_connection_type(ConnectionType::Close);
    seen.finish(front, response.status(), Some(problem), None);
    seen.named(request.into_response(response))
}

impl Hooks for Front {
    fn connection_shed(&self, reason: Shed) {
        let shed = self.metrics.shed();
        match reason {
            Shed::Refused => shed.full.inc(),
            Shed::Idle => shed.idle.inc(),
        };
    }

    /// Logged and counted as if it were the response to a request.
    fn refusal(&self, peer: Option<SocketAddr>, refusal: Refusal) -> HttpResponse {
        let seen = Seen {
            began: Instant::now(),
            id: RequestId::new(),
            route: Route::Other,
            client: peer.map(|peer| peer.ip().to_canonical()),
        };
        let problem = match refusal {
            Refusal::MalformedHead => Problem::InvalidRequest(InvalidRequest::NotHttp),
            Refusal::HeadTooLarge => Problem::HeadersTooLarge,
            Refusal::HeadTimeout => Problem::TooSlow,
            Refusal::ConnectionLimit => Problem::Overloaded,
        };
        let mut response = problem.response(&seen.id);
        seen.finish(self, response.status(), Some(&problem), None);
        let headers = response.headers_mut();
        headers.insert(request_id::HEADER, seen.id.header_value());
        response
    }
}

struct Seen {
    began: Instant,
    id: RequestId,
    route: Route,
    client: Option<IpAddr>,
}

impl Seen {
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

    fn named(&self, mut response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
        response
            .headers_mut()
            .insert(request_id::HEADER, self.id.header_value());
        response
    }

    /// The one log line of the request, and its metrics.
    fn finish(
        &self,
        front: &Front,
        status: StatusCode,
        problem: Option<&Problem>,
        note: Option<&Note>,
    ) {
        let took = self.began.elapsed();
        let outcome = match problem {
            Some(problem) => problem.answer().code.into(),
            // Other routes may have problems of their own.
            None if status.is_client_error() => Code::InvalidRequest.into(),
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
                    cache = note.and_then(|note| note.source).map(Source::name),
                    account = note.and_then(|note| note.account).map(tracing::field::display),
                    subject = note.and_then(|note| note.subject.as_ref()).map(Subject::as_str),
                    client.address = self.client.map(tracing::field::display),
                    error = problem.and_then(Problem::cause),
                    duration_ms = took.as_secs_f64() * 1e3,
                )
            };
        }
        // Of those there are as many as somebody likes to send, and nothing is broken.
        let shed = matches!(problem, Some(Problem::Overloaded));
        if status.is_server_error() && !shed {
            line!(tracing::Level::ERROR);
        } else if self.route == Route::Management {
            // Probes and scrapes come every few seconds and say nothing.
            line!(tracing::Level::DEBUG);
        } else {
            line!(tracing::Level::INFO);
        }
    }
}

/// The response to a request whose handling panicked. The connection lives on.
#[derive(Debug)]
pub(super) struct Broken {
    id: RequestId,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("panic")
    }
}

impl ResponseError for Broken {
    fn status_code(&self) -> StatusCode {
        StatusCode::INTERNAL_SERVER_ERROR
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = Problem::Panic.response(&self.id);
        response
            .headers_mut()
            .insert(request_id::HEADER, self.id.header_value());
        response
    }
}

#[cfg(test)]
mod tests;
