//! The middleware around every request: its id and the address of its client, panics, the form of
//! error responses, one log line and the metrics.

use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Once};
use std::time::Instant;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::InternalError;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{ConnectionType, StatusCode};
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{Error, HttpMessage, HttpRequest, HttpResponse};
use futures_util::FutureExt as _;
use futures_util::future::Either;
use iam_adapters::ClientAddress;
use iam_adapters::name::Name;
use ipnet::IpNet;
use opentelemetry::Context;
use opentelemetry::trace::{FutureExt as _, TraceContextExt as _};
use scopeguard::ScopeGuard;
use tracing::{Instrument as _, Span, field};

use crate::telemetry::metrics::{Outcome, Route, ShedCause};
use auth_gateway_core::error::GatewayError;
use auth_gateway_core::event::{Event, LoginEnd, Subscriber};
use auth_gateway_core::request::{RequestContext, RequestId};
use auth_gateway_server::{ConnectionEvents, ConnectionRefusal, RequestHead, ShedReason};

use super::api_error::{ApiError, InvalidRequest};
use super::app_state::AppState;
use super::cors::Readers;
use super::trace;

/// Keeps what the events of a request contain for its log line.
#[derive(Debug)]
pub(crate) struct RequestLog;

impl Subscriber for RequestLog {
    fn on_event(&self, event: &Event<'_>) {
        match *event {
            Event::Login {
                request,
                account,
                iam,
                end,
                ..
            } => {
                let mut fields = request.log_fields();
                fields.account = account.map(|(_, account)| account);
                fields.iam = iam.cloned();
                fields.subject = match end {
                    LoginEnd::Decided(Ok(session)) => Some(session.sub.clone()),
                    _ => None,
                };
            }
            Event::Exchange {
                request,
                iam,
                result,
            } => {
                let mut fields = request.log_fields();
                (fields.iam, fields.source) = (iam.cloned(), result.ok());
            }
            Event::Logout {
                request, session, ..
            } => request.log_fields().iam = session.map(|session| Arc::clone(&session.iam)),
            Event::LogoutToken { request, iam, .. } => request.log_fields().iam = iam.cloned(),
            _ => {}
        }
    }
}

/// The middleware around both listeners.
///
/// An outer middleware can choose the gateway of a request, by adding another [`AppState`] to its data,
/// and its [`Route`], by adding one to its extensions. If the handler panics, the error has the response.
pub(super) async fn handle_request(
    app_state: Data<AppState>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let route = route(&request);
    let readers = Readers::of(&app_state, route, Some(request.headers()));
    let preflight = readers.preflight(&request);
    // A preflight is no operation.
    let route = preflight.as_ref().map_or(route, |_| Route::Other);
    let context = Arc::new(RequestContext::new(
        id_of(request.headers()),
        client_address(&app_state, request.request()),
        begin_trace(&app_state, request.request(), route),
    ));
    request.extensions_mut().insert(Arc::clone(&context));
    let in_progress = InProgress {
        is_routine: route == Route::Management && !request.path().starts_with("/admin/"),
        ..InProgress::new(&app_state, route, context, readers)
    };
    if let Some(mut response) = preflight {
        in_progress.complete(&mut response);
        in_progress.finish(Some(response.status()), None);
        return Ok(request.into_response(response));
    }
    if app_state.lifecycle.is_draining() && route.is_operation() {
        app_state.metrics.shed(ShedCause::Draining);
        let response = in_progress.error_response(&ApiError::Draining);
        return Ok(request.into_response(response));
    }
    // From here on the inner services own the request. In a panic it is lost with them.
    let handled = next.call(request).instrument(in_progress.span());
    let handled = match in_progress.handler_trace() {
        Some(trace) => Either::Left(handled.with_context(trace)),
        None => Either::Right(handled),
    };
    // A connection that breaks drops this future.
    let in_progress = scopeguard::guard(in_progress, |aborted| aborted.finish(None, None));
    let handled = AssertUnwindSafe(handled).catch_unwind().await;
    let in_progress = ScopeGuard::into_inner(in_progress);
    let Ok(Ok(response)) = handled else {
        // The connection stays open.
        let response = in_progress.error_response(&ApiError::Panic);
        return Err(InternalError::from_response("panic", response).into());
    };
    let error = response.response().error();
    if let Some(api_error) = error.and_then(Error::as_error::<ApiError>) {
        let error_response = in_progress.error_response(api_error);
        return Ok(response.into_response(error_response));
    }
    in_progress.finish(Some(response.status()), None);
    let mut response = response.map_into_boxed_body();
    in_progress.complete(response.response_mut());
    Ok(response)
}

/// The route that an outer middleware chose, or that of the path.
fn route(request: &ServiceRequest) -> Route {
    let chosen = request.extensions().get::<Route>().copied();
    // Only the management listener has a route among its data, these paths and `/`.
    let of_listener = || request.app_data().copied().unwrap_or(Route::Other);
    chosen.unwrap_or_else(|| match Route::of(request.path()) {
        Route::Management => of_listener(),
        Route::Other if request.path() == "/" => of_listener(),
        route => route,
    })
}

/// The trace of a request. Only a trusted proxy can continue one: other clients could otherwise choose
/// that they are sampled. Probes and scrapes are not traced.
fn begin_trace(app_state: &AppState, request: &HttpRequest, route: Route) -> Context {
    match &app_state.traces {
        Some(traces) if route != Route::Management => {
            let peer = request.peer_addr().map(|peer| peer.ip().into());
            let is_trusted = peer.is_some_and(|peer| is_in(&app_state.trusted_proxies, peer));
            let headers = is_trusted.then(|| request.headers());
            let now = app_state.gateway.replica.clock.now().monotonic;
            traces.begin(headers, now, || trace::server_span(request))
        }
        _ => Context::new(),
    }
}

impl ConnectionEvents for AppState {
    fn connection_shed(&self, reason: ShedReason) {
        self.metrics.shed(match reason {
            ShedReason::Refused => ShedCause::Full,
            ShedReason::Idle => ShedCause::Idle,
        });
    }

    /// Logged and counted like the response to a request.
    fn refusal(&self, peer: Option<SocketAddr>, refusal: ConnectionRefusal) -> HttpResponse {
        let client = peer.map(|peer| peer.ip().into());
        let context = RequestContext::new(RequestId::default(), client, Context::new());
        let readers = Readers::of(self, Route::Other, None);
        let in_progress = InProgress::new(self, Route::Other, Arc::new(context), readers);
        let api_error = match refusal {
            ConnectionRefusal::MalformedHead => ApiError::InvalidRequest(InvalidRequest::NotHttp),
            ConnectionRefusal::HeadTooLarge => ApiError::HeadersTooLarge,
            ConnectionRefusal::HeadTimeout => ApiError::TooSlow,
            ConnectionRefusal::ConnectionLimit => ApiError::Overloaded,
        };
        in_progress.error_response(&api_error)
    }
}

/// The events of a listener of the API whose requests are all for the gateway of this state.
///
/// Not for the management listener, which does not have the path of logout tokens, nor where a request chooses its
/// gateway: the gateway that a head is refused by could be another one.
#[derive(Debug)]
pub(crate) struct ApiListenerEvents(pub(crate) Arc<AppState>);

impl ConnectionEvents for ApiListenerEvents {
    fn connection_shed(&self, reason: ShedReason) {
        self.0.connection_shed(reason);
    }

    fn refusal(&self, peer: Option<SocketAddr>, refusal: ConnectionRefusal) -> HttpResponse {
        self.0.refusal(peer, refusal)
    }

    /// That of a logout token whose sender has sent too many invalid ones. The handler refuses what is not asked here:
    /// a request of which a part arrives later, or whose target is not just the path. It also does while the gateway
    /// drains, which refuses every sender.
    fn refusal_of_request(
        &self,
        peer: Option<SocketAddr>,
        head: RequestHead<'_>,
    ) -> Option<HttpResponse> {
        let (app_state, route) = (&self.0, Route::of(head.target));
        let is_logout_token = head.method == "POST" && route == Route::BackchannelLogout;
        if !is_logout_token || app_state.lifecycle.is_draining() {
            return None;
        }
        let (request_id, forwarded) = (X_REQUEST_ID, X_FORWARDED_FOR);
        let mut ids = head.values(request_id.as_str());
        let forwarded = head.values(forwarded.as_str());
        let peer = peer?.ip().into();
        let context = Arc::new(RequestContext::new(
            ids.next().and_then(RequestId::parse).unwrap_or_default(),
            Some(behind_proxies(peer, forwarded, &app_state.trusted_proxies)),
            Context::new(),
        ));
        let refused = app_state.gateway.admit_logout_token(&context).err()?;
        let in_progress = InProgress::new(app_state, route, context, Readers::SameOrigin);
        Some(in_progress.error_response(&ApiError::Gateway(refused)))
    }
}

/// A request while it is handled.
struct InProgress<'a> {
    app_state: &'a AppState,
    began: Instant,
    route: Route,
    /// Whether it is a probe or a scrape, which come every few seconds.
    is_routine: bool,
    context: Arc<RequestContext>,
    readers: Readers,
}

impl<'a> InProgress<'a> {
    /// A request that begins now and is not routine.
    fn new(
        app_state: &'a AppState,
        route: Route,
        context: Arc<RequestContext>,
        readers: Readers,
    ) -> Self {
        Self {
            app_state,
            began: Instant::now(),
            route,
            is_routine: false,
            context,
            readers,
        }
    }

    /// Adds the id of the request to the log lines of its handler. Not for exchanges and logout tokens, for which
    /// the gateway enters such a span itself: a span costs 3,700 instructions, and an exchange with cached data
    /// and a refused sender of forged tokens have only the log line of the request.
    fn span(&self) -> Span {
        match self.route {
            Route::Token | Route::BackchannelLogout => Span::none(),
            _ => self.context.log_span(),
        }
    }

    /// The context in which the handler runs. Not for an exchange, as [`Self::span`].
    fn handler_trace(&self) -> Option<Context> {
        let is_on = self.app_state.traces.is_some() && self.route != Route::Token;
        is_on.then(|| self.context.trace.clone())
    }

    /// The response to a request with an error. Also logs and counts the request.
    fn error_response(&self, api_error: &ApiError) -> HttpResponse {
        let precise = self.app_state.precise_backend_status;
        let (mut response, outcome) = api_error.response(&self.context.id, self.route, precise);
        self.complete(&mut response);
        self.finish(Some(response.status()), Some((api_error, outcome)));
        response
    }

    /// Adds the headers that every response has. While the gateway stops, the connection ends with the
    /// response, so that its client continues at another replica.
    fn complete(&self, response: &mut HttpResponse) {
        let headers = response.headers_mut();
        headers.insert(X_REQUEST_ID, header_value(&self.context.id));
        self.readers.add_to(headers);
        if self.app_state.lifecycle.is_shutting_down() {
            let head = response.head_mut();
            head.set_connection_type(ConnectionType::Close);
        }
    }

    /// Writes the log line of the request, counts it, and ends its span. Without a status there is no response.
    fn finish(&self, status: Option<StatusCode>, error: Option<(&ApiError, Outcome)>) {
        let app_state = self.app_state;
        let took = self.began.elapsed();
        let outcome = match (error, status) {
            (Some((_, outcome)), _) => outcome,
            (None, None) => Outcome::Aborted,
            // Other routes may have their own error responses.
            (None, Some(status)) if status.is_client_error() => Outcome::InvalidRequest,
            (None, Some(_)) => Outcome::Ok,
        };
        let api_error = error.map(|(api_error, _)| api_error);
        app_state.metrics.request(self.route, outcome, took);
        let fields = self.context.log_fields();
        let iam = app_state.gateway.iams.attributed(fields.iam.as_deref());
        let source = fields.source.map(Name::name);
        let span = self.context.trace.span();
        let is_sampled = span.span_context().is_sampled();
        if is_sampled {
            trace::describe(&span, status, outcome, iam, source);
            span.end();
        }
        macro_rules! line {
            ($level:expr) => {
                tracing::event!(
                    target: "auth_gateway::request",
                    $level,
                    request_id = self.context.id.as_str(),
                    route = self.route.name(),
                    status = status.map(|status| status.as_u16()),
                    outcome = outcome.name(),
                    iam.name = iam,
                    cache = source,
                    account = fields.account.map(field::display),
                    subject = fields.subject.as_deref(),
                    client.address = self.context.client.map(field::display),
                    error = api_error.and_then(ApiError::cause),
                    trace_id = is_sampled.then(|| field::display(span.span_context().trace_id())),
                    duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
                )
            };
        }
        // Not errors: overload, of which clients can cause any amount, a stop, for which clients use
        // another replica, and the result of a probe.
        let is_expected = match api_error {
            Some(api_error) => matches!(api_error, ApiError::Overloaded | ApiError::Draining),
            None => self.is_routine,
        };
        // A sender of forged logout tokens could otherwise fill the log.
        let is_turned_away = matches!(
            api_error,
            Some(ApiError::Gateway(GatewayError::TooManyLogoutTokens { .. }))
        );
        if status.is_some_and(|status| status.is_server_error()) && !is_expected {
            line!(tracing::Level::ERROR);
        } else if self.is_routine || is_turned_away {
            line!(tracing::Level::DEBUG);
        } else {
            line!(tracing::Level::INFO);
        }
    }
}

/// The header of a request's id, in requests and responses.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id that the client sent, if it is valid, or a new one.
fn id_of(headers: &HeaderMap) -> RequestId {
    let sent = headers.get(X_REQUEST_ID).map(HeaderValue::as_bytes);
    sent.and_then(RequestId::parse).unwrap_or_default()
}

/// The id of a request as the value of [`X_REQUEST_ID`].
#[must_use]
pub fn header_value(id: &RequestId) -> HeaderValue {
    HeaderValue::from_str(id.as_str()).unwrap_or(HeaderValue::from_static("none"))
}

/// What the middleware found out about a request. Outside of the middleware: the client's id or a new
/// one.
pub(super) fn request_context(request: &impl HttpMessage) -> Arc<RequestContext> {
    let known = request.extensions().get::<Arc<RequestContext>>().cloned();
    known.unwrap_or_else(|| {
        let id = id_of(request.headers());
        Arc::new(RequestContext::new(id, None, Context::new()))
    })
}

/// The id that the middleware has given to a request. Outside of the middleware: the client's own or
/// a new one.
#[must_use]
pub fn request_id(request: &impl HttpMessage) -> RequestId {
    request_context(request).id
}

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client's address: that of the peer or, if the peer is a trusted proxy, the right-most address in
/// `X-Forwarded-For` that is not a trusted proxy. Any client can write the addresses to the left of it.
///
/// If an address of a proxy is malformed, the client is the peer: no client can avoid the limits for
/// addresses. `Forwarded` (RFC 7239) is ignored, because a proxy that supports only one of the two
/// headers passes the other on unchanged.
fn client_address(app_state: &AppState, request: &HttpRequest) -> Option<ClientAddress> {
    let peer = request.peer_addr()?.ip().into();
    // Several headers are one list, in their order (RFC 9110 section 5.3).
    let forwarded = request.headers().get_all(X_FORWARDED_FOR);
    let forwarded = forwarded.map(HeaderValue::as_bytes);
    Some(behind_proxies(peer, forwarded, &app_state.trusted_proxies))
}

/// Warns, once, about an untrusted peer that sends `X-Forwarded-For`: all of its clients have one
/// address, and share its limits.
pub(super) fn warn_of_untrusted_proxy(app_state: &AppState, request: &HttpRequest) {
    static WARNED: Once = Once::new();
    let Some(peer) = request.peer_addr() else {
        return;
    };
    let is_untrusted = !is_in(&app_state.trusted_proxies, peer.ip().into());
    if request.headers().contains_key(X_FORWARDED_FOR) && is_untrusted {
        WARNED.call_once(|| {
            tracing::warn!(
                peer.address = %peer.ip(),
                "logins refused by the limit of an address that sends X-Forwarded-For: if it is a \
                 proxy, add it to http.trusted_proxies"
            );
        });
    }
}

fn behind_proxies<'a>(
    peer: ClientAddress,
    forwarded: impl DoubleEndedIterator<Item = &'a [u8]>,
    trusted_proxies: &[IpNet],
) -> ClientAddress {
    if !is_in(trusted_proxies, peer) {
        return peer;
    }
    let mut client = peer;
    for line in forwarded.rev() {
        // Each address separately: a malformed one from the client, on the left, must not invalidate
        // those of the proxies.
        for hop in line.rsplit(|byte| *byte == b',') {
            let hop = std::str::from_utf8(hop.trim_ascii()).unwrap_or_default();
            let Some(hop) = address_in(hop) else {
                return peer;
            };
            client = hop;
            if !is_in(trusted_proxies, client) {
                return client;
            }
        }
    }
    client
}

fn is_in(networks: &[IpNet], address: ClientAddress) -> bool {
    networks
        .iter()
        .any(|network| network.contains(&address.ip()))
}

/// An address, with or without a port, as some load balancers write it; IPv6 is in brackets then.
/// An address with a zone has a meaning on one machine only.
fn address_in(hop: &str) -> Option<ClientAddress> {
    if hop.contains('%') {
        return None;
    }
    let address = hop.parse::<IpAddr>().ok();
    let address = address.or_else(|| hop.parse::<SocketAddr>().ok().map(|hop| hop.ip()));
    address.map(ClientAddress::from)
}

#[cfg(test)]
mod tests;
