//! The control API of the mock: its routes. `openapi.yaml` describes them.

mod faults;
mod journal;
mod namespaces;
mod realm;
mod request;
mod response;
mod sessions;
mod time;
mod tokens;
mod users;

use actix_web::middleware::from_fn;
use actix_web::web::{self, ServiceConfig};
use actix_web::{HttpResponse, Resource, Route, guard};

use request::Call;

pub(crate) use response::{ControlError, no_store};

/// The control API, under `/mock/v1`. Needs the [`Namespaces`](crate::Namespaces) as app data.
pub(crate) fn routes(config: &mut ServiceConfig) {
    let control = web::scope("/mock/v1")
        .wrap(from_fn(response::render_errors))
        .service(at("/openapi.yaml", "GET, HEAD").route(get().to(describe)))
        .service(at("/status", "GET, HEAD").route(get().to(namespaces::status)))
        .service(
            at("/users", "GET, HEAD, PUT, POST")
                .route(get().to(users::list))
                .route(web::put().to(users::replace))
                .route(web::post().to(users::create)),
        )
        .service(at("/users-file", "GET, HEAD").route(get().to(users::export)))
        .service(
            at("/users/{email}", "GET, HEAD, PATCH, DELETE")
                .route(get().to(users::show))
                .route(web::patch().to(users::change))
                .route(web::delete().to(users::delete)),
        )
        .service(
            at("/users/{email}/sessions", "DELETE").route(web::delete().to(sessions::end_of_user)),
        )
        .service(
            at("/sessions", "GET, HEAD, DELETE")
                .route(get().to(sessions::list))
                .route(web::delete().to(sessions::end_every)),
        )
        .service(at("/sessions/{id}", "DELETE").route(web::delete().to(sessions::end)))
        .service(
            at("/faults", "GET, HEAD, POST, DELETE")
                .route(get().to(faults::list))
                .route(web::post().to(faults::add))
                .route(web::delete().to(faults::clear)),
        )
        .service(at("/faults/{id}", "DELETE").route(web::delete().to(faults::remove)))
        .service(
            at("/time", "GET, HEAD, PUT, DELETE")
                .route(get().to(time::show))
                .route(web::put().to(time::set))
                .route(web::delete().to(time::reset)),
        )
        .service(
            at("/realm", "GET, HEAD, PATCH")
                .route(get().to(realm::show))
                .route(web::patch().to(realm::change)),
        )
        .service(at("/time/advance", "POST").route(web::post().to(time::advance)))
        .service(
            at("/journal", "GET, HEAD, DELETE")
                .route(get().to(journal::show))
                .route(web::delete().to(journal::clear)),
        )
        .service(at("/journal/wait", "GET, HEAD").route(get().to(journal::wait)))
        .service(at("/reset", "POST").route(web::post().to(namespaces::reset)))
        .service(at("/namespaces", "GET, HEAD").route(get().to(namespaces::list)))
        .service(at("/namespaces/{name}", "DELETE").route(web::delete().to(namespaces::delete)))
        .service(
            at("/snapshots", "GET, HEAD, POST")
                .route(get().to(namespaces::list_snapshots))
                .route(web::post().to(namespaces::take_snapshot)),
        )
        .service(
            at("/snapshots/{id}", "DELETE").route(web::delete().to(namespaces::delete_snapshot)),
        )
        .service(
            at("/snapshots/{id}/restore", "POST")
                .route(web::post().to(namespaces::restore_snapshot)),
        )
        .service(at("/probe", "POST").route(web::post().to(namespaces::probe)))
        .service(at("/forget", "POST").route(web::post().to(namespaces::clear_caches)))
        .service(at("/signing-key", "GET, HEAD").route(get().to(tokens::signing_key)))
        .service(at("/tokens", "POST").route(web::post().to(tokens::mint)))
        .service(at("/tokens/inspect", "POST").route(web::post().to(tokens::inspect)))
        .service(at("/scopes/explain", "POST").route(web::post().to(tokens::explain)))
        .default_service(web::to(nowhere));
    config.service(control);
}

/// A path with its methods, for the 405 response.
fn at(path: &str, methods: &'static str) -> Resource {
    web::resource(path).default_service(web::to(move || async move {
        Err::<HttpResponse, _>(ControlError::method(methods))
    }))
}

/// GET and HEAD (RFC 9110 section 9.3.2).
fn get() -> Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

async fn nowhere() -> Result<HttpResponse, ControlError> {
    let description = "there is no such path; /mock/v1/openapi.yaml lists all paths";
    Err(ControlError::not_found(description))
}

/// `GET openapi.yaml`.
async fn describe(_: Call) -> HttpResponse {
    HttpResponse::Ok()
        .content_type("application/yaml")
        .body(include_str!("../openapi.yaml"))
}
