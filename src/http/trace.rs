//! The span of a request, by the semantic conventions of OpenTelemetry for HTTP servers. It has nothing
//! that a client can choose: no address, no path of an unknown route, no account.

use std::borrow::Cow;

use actix_web::HttpRequest;
use actix_web::http::{Method, StatusCode};
use iam_adapters::name::Name as _;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanBuilder, SpanKind, SpanRef, Status};

use crate::telemetry::metrics::{API_PATHS, Outcome};

/// The span of a request that begins.
pub(super) fn server_span(request: &HttpRequest) -> SpanBuilder {
    let method = method(request.method());
    let mut attributes = vec![KeyValue::new("http.request.method", method)];
    let path = API_PATHS.iter().find(|(path, _)| *path == request.path());
    let name = match path {
        Some((path, _)) => {
            attributes.push(KeyValue::new("http.route", *path));
            Cow::Owned(format!("{method} {path}"))
        }
        None => Cow::Borrowed(method),
    };
    SpanBuilder::from_name(name)
        .with_kind(SpanKind::Server)
        .with_attributes(attributes)
}

/// Adds what is known at the end of a request. Without a status there is no response.
pub(super) fn describe(
    span: &SpanRef<'_>,
    status: Option<StatusCode>,
    outcome: Outcome,
    iam: Option<&str>,
    source: Option<&'static str>,
) {
    span.set_attribute(KeyValue::new("auth_gateway.outcome", outcome.name()));
    if let Some(iam) = iam {
        span.set_attribute(KeyValue::new("iam.name", iam.to_owned()));
    }
    if let Some(source) = source {
        span.set_attribute(KeyValue::new("auth_gateway.cache", source));
    }
    if let Some(status) = status {
        let code = i64::from(status.as_u16());
        span.set_attribute(KeyValue::new("http.response.status_code", code));
    }
    if let Some(status) = status.filter(StatusCode::is_server_error) {
        span.set_attribute(KeyValue::new("error.type", status.as_str().to_owned()));
        span.set_status(Status::error(""));
    }
}

/// A client can send any other method, so these have one name.
fn method(method: &Method) -> &'static str {
    static KNOWN: [Method; 9] = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::CONNECT,
        Method::TRACE,
    ];
    let known = KNOWN.iter().find(|known| *known == method);
    known.map_or("_OTHER", Method::as_str)
}
