//! The span of a request, by the semantic conventions of OpenTelemetry for HTTP servers. It has nothing
//! that a client can choose: no address, no path of an unknown route, no account.

use actix_web::HttpRequest;
use actix_web::http::{Method, StatusCode};
use iam_adapters::name::Name as _;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanBuilder, SpanKind, SpanRef, Status};

use crate::telemetry::metrics::{Outcome, Route};

/// The span of a request that begins.
pub(super) fn server_span(request: &HttpRequest, route: Route) -> SpanBuilder {
    let method = method(request.method());
    let mut attributes = vec![KeyValue::new("http.request.method", method)];
    let name = match path(route, request.path()) {
        Some(path) => {
            attributes.push(KeyValue::new("http.route", path));
            format!("{method} {path}").into()
        }
        None => method.into(),
    };
    let name: std::borrow::Cow<'static, str> = name;
    SpanBuilder::from_name(name)
        .with_kind(SpanKind::Server)
        .with_attributes(attributes)
}

/// Adds what is known at the end of a request.
pub(super) fn describe(
    span: &SpanRef<'_>,
    status: StatusCode,
    outcome: Outcome,
    iam: Option<&str>,
    source: Option<&'static str>,
) {
    let code = i64::from(status.as_u16());
    span.set_attribute(KeyValue::new("http.response.status_code", code));
    span.set_attribute(KeyValue::new("auth_gateway.outcome", outcome.name()));
    if let Some(iam) = iam {
        span.set_attribute(KeyValue::new("iam.name", iam.to_owned()));
    }
    if let Some(source) = source {
        span.set_attribute(KeyValue::new("auth_gateway.cache", source));
    }
    if status.is_server_error() {
        span.set_attribute(KeyValue::new("error.type", status.as_str().to_owned()));
        span.set_status(Status::error(""));
    }
}

/// A client can send any other method, so these have one name.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        _ => "_OTHER",
    }
}

/// The path of a route that exists.
fn path(route: Route, path: &str) -> Option<&'static str> {
    match route {
        Route::Login => Some("/api/v1/auth/login"),
        Route::Token => Some("/api/v1/auth/token"),
        Route::Logout => Some("/api/v1/auth/logout"),
        Route::BackchannelLogout => Some("/api/v1/auth/backchannel-logout"),
        Route::WellKnown => match path {
            "/openapi.yaml" => Some("/openapi.yaml"),
            "/.well-known/jwks.json" => Some("/.well-known/jwks.json"),
            "/.well-known/oauth-authorization-server" => {
                Some("/.well-known/oauth-authorization-server")
            }
            "/.well-known/openid-configuration" => Some("/.well-known/openid-configuration"),
            _ => None,
        },
        Route::Management | Route::Other => None,
    }
}
