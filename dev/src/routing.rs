//! Chooses the gateway of a request by its namespace, and the routes of the two listeners of
//! `auth-gateway-dev`.

use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::{BoxBody, MessageBody as _};
use actix_web::dev::{Extensions, ServiceRequest, ServiceResponse};
use actix_web::guard::{GuardContext, fn_guard};
use actix_web::http::ConnectionType;
use actix_web::http::header::{self, HeaderMap, HeaderValue};
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{Error, HttpMessage as _, HttpRequest, HttpResponse, Scope};
use auth_gateway::http::{self, AppState};
use auth_gateway::telemetry::metrics::Route;
use serde::Deserialize;

use crate::control::{self, ControlError};
use crate::hosts::AllowedHosts;
use crate::{Namespace, NamespaceName, Namespaces, console};

/// The header that names a request's namespace.
pub const NAMESPACE: &str = "mock-namespace";

/// The paths of the control API and the console, whose handlers read the namespace themselves.
const CONTROLS: &str = "/mock/";

/// The path of logins.
const LOGIN: &str = "/api/v1/auth/login";

/// The routes of the public listener.
pub(crate) fn public(routes: &mut ServiceConfig) {
    routes
        .service(refuse_invalid_namespace())
        .configure(http::public);
}

/// The routes of the management listener: those of the gateway, the control API, the console, and the
/// API again, so that the console uses one origin. Only the routes of the gateway, which orchestrators
/// call by any name, are served under every host.
pub(crate) fn management(
    routes: &mut ServiceConfig,
    namespaces: Arc<Namespaces>,
    hosts: AllowedHosts,
) {
    routes.app_data(Data::from(namespaces));
    let guarded = web::scope("")
        .wrap(from_fn(move |request, next| {
            hosts.clone().check_host(request, next)
        }))
        .configure(controls)
        .configure(http::api)
        .default_service(web::to(http::not_found));
    routes
        .service(refuse_invalid_namespace())
        .configure(http::operations)
        .service(guarded);
}

/// The control API and the console. They need the [`Namespaces`] as app data.
pub(crate) fn controls(routes: &mut ServiceConfig) {
    control::routes(routes);
    console::routes(routes);
}

/// The outermost middleware: sends a request to the gateway of its namespace, and keeps the session id that
/// a login returns. A request with an invalid namespace keeps the default gateway, and
/// [`refuse_invalid_namespace`] answers it.
///
/// # Errors
///
/// Errors of the inner service.
pub(crate) async fn choose_gateway(
    namespaces: Arc<Namespaces>,
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    if request.path().starts_with(CONTROLS) {
        request.extensions_mut().insert(Route::Management);
        return next.call(request).await;
    }
    match namespace_of(&namespaces, request.headers()) {
        Err(error) => {
            request.extensions_mut().insert(InvalidNamespace(error));
        }
        Ok(namespace) => {
            let application = request.app_data::<Data<AppState>>();
            // Most requests are for the gateway that the application has already.
            if let Some(own) = namespace.gateway()
                && application
                    .is_none_or(|app_state| !ptr::eq(app_state.get_ref(), Arc::as_ptr(own)))
            {
                let mut container = Extensions::new();
                container.insert(Data::from(Arc::clone(own)));
                // What is added last is found first.
                request.add_data_container(Rc::new(container));
            }
            if request.path() == LOGIN {
                return log_in(&namespace, request, next).await;
            }
        }
    }
    next.call(request).await
}

/// A login. The mock keeps the session id of the response, so that tests can name a session by it.
async fn log_in(
    namespace: &Namespace,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, Error> {
    #[derive(Deserialize)]
    struct LoginResponse {
        session_id: String,
    }

    let (response, begun) = mock_iam::with_begun_session(next.call(request)).await;
    let (request, response) = response?.into_parts();
    let (response, body) = response.into_parts();
    let body = match body.try_into_bytes() {
        Err(body) => body,
        Ok(bytes) => {
            let read: Option<LoginResponse> = serde_json::from_slice(&bytes).ok();
            if let Some((id, LoginResponse { session_id })) = begun.zip(read) {
                let directory = namespace.mock.directory();
                directory.set_gateway_session_id(&id, &session_id);
            }
            bytes.boxed()
        }
    };
    Ok(ServiceResponse::new(request, response.set_body(body)))
}

/// The namespace of a request: the one in its header, or the default one.
fn namespace_of(
    namespaces: &Namespaces,
    headers: &HeaderMap,
) -> Result<Arc<Namespace>, ControlError> {
    let mut names = headers.get_all(NAMESPACE);
    let Some(name) = names.next() else {
        return Ok(namespaces.default_namespace());
    };
    let name = name.to_str().ok().filter(|_| names.next().is_none());
    let name = name.and_then(|name| NamespaceName::parse(name).ok());
    let name = name.ok_or_else(|| {
        ControlError::invalid(
            "The header `Mock-Namespace` must appear once, as 1 to 64 of A-Z a-z 0-9 . _ -.",
        )
    })?;
    namespaces
        .get_or_create(&name)
        .map_err(|many| ControlError::try_later(many.to_string()))
}

/// The error of a request whose header names no valid namespace.
#[derive(Debug)]
struct InvalidNamespace(ControlError);

/// Takes the requests that [`choose_gateway`] found to be for an [`InvalidNamespace`]. A service and
/// not a middleware, so that the gateway's own middleware logs and counts the refusal, and other
/// requests cost no allocation.
fn refuse_invalid_namespace() -> Scope {
    let is_unknown = |context: &GuardContext<'_>| context.req_data().contains::<InvalidNamespace>();
    web::scope("")
        .guard(fn_guard(is_unknown))
        .default_service(web::to(refuse))
}

async fn refuse(request: HttpRequest) -> HttpResponse {
    let error = request.extensions_mut().remove::<InvalidNamespace>();
    let Some(InvalidNamespace(error)) = error else {
        return HttpResponse::NotFound().finish();
    };
    let mut response = error.response(&http::request_id(&request));
    control::no_store(response.headers_mut());
    // As for every response of the API.
    let headers = response.headers_mut();
    headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    // The body of the request is not read.
    response
        .head_mut()
        .set_connection_type(ConnectionType::Close);
    response
}
