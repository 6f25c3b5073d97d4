//! The HTTP API: routes, request and response bodies, middleware, problem responses.

mod api_error;
mod app_state;
mod auth;
mod backchannel_logout;
mod body;
pub mod caching;
mod cors;
mod health;
mod middleware;
mod operator;
mod status;
mod trace;
mod well_known;

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::guard::fn_guard;
use actix_web::middleware::from_fn;
use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{App, Error, FromRequest, Handler, Resource, Responder};

use crate::telemetry::metrics::Route;

use api_error::ApiError;
pub use app_state::AppState;
use middleware::handle_request;
pub(crate) use middleware::{ApiListenerEvents, RequestLog};
pub use middleware::{X_REQUEST_ID, header_value, request_id};

/// An application with the middleware around every request, and no routes yet.
pub fn app(
    app_state: Data<AppState>,
) -> App<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse<BoxBody>,
        Error = Error,
        InitError = (),
    >,
> {
    App::new().app_data(app_state).wrap(from_fn(handle_request))
}

/// The routes of the public listener.
pub fn public(routes: &mut ServiceConfig) {
    api(routes);
    routes.default_service(web::to(not_found));
}

/// The API and the documents that describe it.
pub fn api(routes: &mut ServiceConfig) {
    routes
        .service(post("/api/v1/auth/login", auth::log_in))
        .service(post("/api/v1/auth/token", auth::exchange))
        .service(post("/api/v1/auth/logout", auth::log_out))
        .service(post(
            "/api/v1/auth/backchannel-logout",
            backchannel_logout::receive,
        ))
        .service(get("/.well-known/jwks.json", well_known::keys))
        .service(get("/openapi.yaml", well_known::openapi));
    // RFC 8414 section 5: the second is for clients that know only the path of OpenID Connect Discovery.
    // Section 3.1: the path of the issuer follows the well-known path.
    for path in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/{path:.*}",
        "/.well-known/oauth-authorization-server/{path:.*}",
    ] {
        routes.service(get(path, well_known::metadata));
    }
}

/// The routes of the management listener.
pub fn management(routes: &mut ServiceConfig) {
    operations(routes);
    routes.default_service(web::to(not_found));
}

/// The status page, health, metrics and the calls of operators.
pub fn operations(routes: &mut ServiceConfig) {
    routes
        .app_data(Route::Management)
        .service(get("/", status::page))
        .service(get("/health/live", health::live))
        .service(get("/health/ready", health::ready))
        .service(get("/metrics", health::metrics))
        .service(post(
            "/admin/v1/login-limits/reset",
            operator::reset_login_limits,
        ))
        .service(post("/admin/v1/sessions/revoke", operator::revoke_sessions));
}

/// A path, or a pattern with a literal beginning, with these methods. Only the path itself: actix-web
/// decodes percent-encoded characters before it matches, and metrics, log and the rules of proxies, which
/// do not, would have another name for the request.
fn resource(path: &str, methods: &'static str) -> Resource {
    let literal = path.split('{').next().unwrap_or(path).to_owned();
    web::resource(path)
        .guard(fn_guard(move |request| {
            request.head().uri.path().starts_with(&literal)
        }))
        .default_service(web::to(move || async move {
            Err::<&str, _>(ApiError::MethodNotAllowed(methods))
        }))
}

fn post<F, Args>(path: &str, handler: F) -> Resource
where
    F: Handler<Args>,
    Args: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    resource(path, "POST").route(web::post().to(handler))
}

/// A path with GET and HEAD.
pub fn get<F, Args>(path: &str, handler: F) -> Resource
where
    F: Handler<Args>,
    Args: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    resource(path, "GET, HEAD")
        .route(web::get().to(handler.clone()))
        .route(web::head().to(handler))
}

/// The handler of paths that do not exist.
///
/// # Errors
///
/// Always [`ApiError::NotFound`].
pub async fn not_found() -> Result<&'static str, ApiError> {
    Err(ApiError::NotFound)
}
