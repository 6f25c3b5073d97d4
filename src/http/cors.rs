//! Requests of pages of other origins (CORS: Fetch standard, section 3.3): which origins may read a response.
//! No response allows credentials, so browsers add no cookies.
//!
//! Not actix-cors: it refuses requests of other origins by itself, without the form of an error response. It also
//! adds no header after a panic, nor to responses of a connection.

use actix_web::HttpResponse;
use actix_web::dev::ServiceRequest;
use actix_web::http::Method;
use actix_web::http::header::{self, HeaderMap, HeaderValue};

use crate::telemetry::metrics::Route;

use super::app_state::AppState;
use super::caching::no_store;

/// How long browsers may keep the response to a preflight, in seconds: no longer in Chromium.
const MAX_AGE: &str = "7200";

/// The origins whose pages may read a response.
#[derive(Debug)]
pub(super) enum Readers {
    SameOrigin,
    Any,
    /// The origin of the request, if it is in the settings.
    OfRequest(Option<HeaderValue>),
}

impl Readers {
    /// Those of the response to a request with these headers. `None`: the request is unknown, because the connection
    /// was refused. The response has nothing of it, so all origins may read it.
    pub(super) fn of(app_state: &AppState, route: Route, request: Option<&HeaderMap>) -> Self {
        let allowed = &app_state.allowed_origins;
        match (route, request) {
            // Public documents, which verifiers in a browser need.
            (Route::WellKnown, _) => Self::Any,
            _ if allowed.is_empty() => Self::SameOrigin,
            (_, None) => Self::Any,
            (Route::Login | Route::Token | Route::Logout, Some(request)) => {
                let is_allowed = |sent: &&HeaderValue| allowed.iter().any(|origin| origin.is(sent));
                let origin = request.get(header::ORIGIN).filter(is_allowed);
                Self::OfRequest(origin.cloned())
            }
            _ => Self::SameOrigin,
        }
    }

    /// The response to a preflight of an allowed origin.
    pub(super) fn preflight(&self, request: &ServiceRequest) -> Option<HttpResponse> {
        let is_preflight = request.method() == Method::OPTIONS
            && matches!(self, Self::OfRequest(Some(_)))
            && (request.headers()).contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        is_preflight.then(|| {
            let mut response = HttpResponse::NoContent();
            // A browser keeps it in a cache of its own, for the maximum age.
            no_store(&mut response);
            response
                .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, "POST"))
                .insert_header((
                    header::ACCESS_CONTROL_ALLOW_HEADERS,
                    "content-type, x-request-id",
                ))
                .insert_header((header::ACCESS_CONTROL_MAX_AGE, MAX_AGE))
                .finish()
        })
    }

    /// Adds the headers for browsers to a response.
    pub(super) fn add_to(&self, response: &mut HeaderMap) {
        let origin = match self {
            Self::SameOrigin => return,
            Self::Any => Some(HeaderValue::from_static("*")),
            Self::OfRequest(origin) => {
                response.insert(header::VARY, HeaderValue::from_static("Origin"));
                origin.clone()
            }
        };
        if let Some(origin) = origin {
            let exposed = HeaderValue::from_static("retry-after, x-request-id");
            response.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            response.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
}
