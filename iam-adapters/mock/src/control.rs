//! The control API of the mock. Every route stands on this page, and all of them in
//! `openapi.yaml`.

mod answer;
mod body;
mod call;
mod edge;
mod faults;
mod journal;
mod namespaces;
mod query;
mod realm;
mod refused;
mod scopes;
mod sessions;
mod snapshots;
mod status;
mod time;
mod tokens;
mod users;

use actix_web::middleware::from_fn;
use actix_web::web::{self, ServiceConfig};
use actix_web::{HttpResponse, Resource, Route, guard};

use call::Call;

pub(crate) use edge::no_store;
pub(crate) use refused::Refused;

/// The control API, under `/mock/v1`. Needs the [`Namespaces`](crate::Namespaces) as app data.
pub(crate) fn routes(config: &mut ServiceConfig) {
    let control = web::scope("/mock/v1")
        .wrap(from_fn(edge::around))
        .service(at("/openapi.yaml", "GET, HEAD").route(get().to(describe)))
        .service(at("/status", "GET, HEAD").route(get().to(status::show)))
        .service(
            at("/users", "GET, HEAD, PUT, POST")
                .route(get().to(users::list))
                .route(web::put().to(users::replace))
                .route(web::post().to(users::create)),
        )
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
        .service(at("/namespaces/{name}", "DELETE").route(web::delete().to(namespaces::forget)))
        .service(
            at("/snapshots", "GET, HEAD, POST")
                .route(get().to(snapshots::list))
                .route(web::post().to(snapshots::take)),
        )
        .service(at("/snapshots/{id}", "DELETE").route(web::delete().to(snapshots::forget)))
        .service(at("/snapshots/{id}/restore", "POST").route(web::post().to(snapshots::restore)))
        .service(at("/probe", "POST").route(web::post().to(status::probe)))
        .service(at("/forget", "POST").route(web::post().to(status::forget)))
        .service(at("/signing-key", "GET, HEAD").route(get().to(tokens::signing_key)))
        .service(at("/tokens", "POST").route(web::post().to(tokens::mint)))
        .service(at("/tokens/inspect", "POST").route(web::post().to(tokens::inspect)))
        .service(at("/scopes/explain", "POST").route(web::post().to(scopes::explain)))
        .default_service(web::to(nowhere));
    config.service(control);
}

/// A path, with the methods that it takes.
fn at(path: &str, methods: &'static str) -> Resource {
    web::resource(path).default_service(web::to(move || async move {
        Err::<HttpResponse, _>(Refused::method(methods))
    }))
}

/// RFC 9110 section 9.3.2: whatever can be read can be asked for its headers alone.
fn get() -> Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

async fn nowhere() -> Result<HttpResponse, Refused> {
    let told = "there is no such path; /mock/v1/openapi.yaml has them all";
    Err(Refused::not_found(told))
}

/// `GET openapi.yaml`.
async fn describe(_: Call) -> HttpResponse {
    HttpResponse::Ok()
        .content_type("application/yaml")
        .body(include_str!("../openapi.yaml"))
}
