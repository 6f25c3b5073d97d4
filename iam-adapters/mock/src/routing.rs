//! Which gateway a request is for, and what the two listeners of a gateway before the mock serve.

use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::MessageBody;
use actix_web::dev::{Extensions, ServiceRequest, ServiceResponse};
use actix_web::guard::{GuardContext, fn_guard};
use actix_web::http::ConnectionType;
use actix_web::http::header::{self, HeaderMap, HeaderValue};
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{Error, HttpMessage as _, HttpRequest, HttpResponse, Scope};
use auth_gateway::http::{self, Front};
use auth_gateway::telemetry::metrics::Route;

use crate::control::{self, Refused};
use crate::hosts::AllowedHosts;
use crate::{Name, Namespaces, World, console};

/// The header that names a request's namespace.
pub const NAMESPACE: &str = "mock-namespace";

/// The paths of the control API and the console, which choose a namespace by themselves.
const CONTROLS: &str = "/mock/";

/// The routes of the public listener.
pub(crate) fn public(routes: &mut ServiceConfig) {
    routes
        .service(refuse_unknown_namespace())
        .configure(http::public);
}

/// The routes of the management listener: its usual ones; the control API and the console; and the
/// API once more, so that the console has all of one origin. All but the usual ones, which
/// orchestrators need under any name, are served under the allowed hosts alone.
pub(crate) fn management(
    routes: &mut ServiceConfig,
    namespaces: Arc<Namespaces>,
    hosts: AllowedHosts,
) {
    routes.app_data(Data::from(namespaces));
    let guarded = web::scope("")
        .wrap(from_fn(move |request, next| {
            hosts.clone().around(request, next)
        }))
        .configure(controls)
        .configure(http::api)
        .default_service(web::to(http::not_found));
    routes
        .service(refuse_unknown_namespace())
        .configure(http::operations)
        .service(guarded);
}

/// The control API and the console. They need the [`Namespaces`] as app data.
pub(crate) fn controls(routes: &mut ServiceConfig) {
    control::routes(routes);
    console::routes(routes);
}

/// The outermost middleware: a request goes to the gateway of its namespace. One that names no
/// namespace that can be keeps the default gateway, until [`refuse_unknown_namespace`].
///
/// # Errors
///
/// Those of what is inside.
pub(crate) async fn choose_gateway(
    namespaces: Arc<Namespaces>,
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody + 'static>, Error> {
    if request.path().starts_with(CONTROLS) {
        request.extensions_mut().insert(Route::Management);
        return next.call(request).await;
    }
    match world(&namespaces, request.headers()) {
        Err(refused) => {
            request.extensions_mut().insert(UnknownNamespace(refused));
        }
        Ok(world) => {
            let application = request.app_data::<Data<Front>>();
            // Most requests are for the gateway that the application has already.
            if let Some(house) = &world.house
                && application
                    .is_none_or(|front| !ptr::eq(front.get_ref(), Arc::as_ptr(&house.front)))
            {
                let mut container = Extensions::new();
                container.insert(Data::from(Arc::clone(&house.front)));
                // What is added last is found first.
                request.add_data_container(Rc::new(container));
            }
        }
    }
    next.call(request).await
}

/// The namespace of a request: the one that its header names, or the default one.
fn world(namespaces: &Namespaces, headers: &HeaderMap) -> Result<Arc<World>, Refused> {
    let mut names = headers.get_all(NAMESPACE);
    let Some(name) = names.next() else {
        return Ok(namespaces.default_world());
    };
    let name = name.to_str().ok().filter(|_| names.next().is_none());
    let name = name.and_then(|name| Name::parse(name).ok());
    let name = name.ok_or_else(|| {
        Refused::invalid(
            "The header `Mock-Namespace` must appear once, as 1 to 64 of A-Z a-z 0-9 . _ -.",
        )
    })?;
    namespaces
        .begin(&name)
        .map_err(|many| Refused::try_later(many.to_string()))
}

/// Why a request is refused: its header does not name a namespace that can exist.
#[derive(Debug)]
struct UnknownNamespace(Refused);

/// Takes the requests that [`choose_gateway`] found to be for an [`UnknownNamespace`]. A service and
/// not a middleware, so that the gateway's own middleware logs and counts the refusal, and other
/// requests cost no allocation.
fn refuse_unknown_namespace() -> Scope {
    let is_unknown = |context: &GuardContext<'_>| context.req_data().contains::<UnknownNamespace>();
    web::scope("")
        .guard(fn_guard(is_unknown))
        .default_service(web::to(refuse))
}

async fn refuse(request: HttpRequest) -> HttpResponse {
    let refused = request.extensions_mut().remove::<UnknownNamespace>();
    let Some(UnknownNamespace(refused)) = refused else {
        return HttpResponse::NotFound().finish();
    };
    let mut response = refused.response(&http::request_id(&request));
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
