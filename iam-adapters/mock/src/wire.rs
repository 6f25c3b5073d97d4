//! The mock over the wire: a Keycloak, as far as the gateway's adapter can tell. What it says, and
//! in which order it looks at things, is what Keycloak 26.7.4 was seen to do; `tests/live` compares
//! the two.

mod backchannel;
mod connection;
mod damage;
mod form;
mod introspection;
mod logout;
mod published;
mod realm;
mod refresh_token;
mod roles;
mod signing;
mod switches;
mod token;
mod told;
mod visit;

use actix_web::http::StatusCode;
use actix_web::web::{self, ServiceConfig};
use actix_web::{HttpResponse, Resource};

pub use backchannel::{Backchannel, RealmVoice};
pub use connection::{Connection, Line};
pub(super) use realm::Realm;
pub use realm::{Portrait, Realms};
pub use signing::RealmKeys;
pub(super) use switches::Change;

use told::framed;

/// The endpoints of every realm, below the path at which the server's address ends.
pub fn routes(routes: &mut ServiceConfig, path: &str) {
    let below = |rest: &str| format!("{}/realms/{{realm}}/{rest}", path.trim_end_matches('/'));
    let protocol = |rest: &str| below(&format!("protocol/openid-connect/{rest}"));
    routes
        .service(only(&protocol("token")).route(web::post().to(token::grant)))
        .service(
            only(&protocol("token/introspect")).route(web::post().to(introspection::introspect)),
        )
        .service(only(&protocol("logout")).route(web::post().to(logout::log_out)))
        .service(only(&protocol("certs")).route(web::get().to(published::keys)))
        .service(
            only(&below(".well-known/openid-configuration"))
                .route(web::get().to(published::discovery)),
        )
        .default_service(web::to(async || {
            framed(StatusCode::NOT_FOUND, "HTTP 404 Not Found")
        }));
}

/// A path that knows only its own methods.
fn only(path: &str) -> Resource {
    web::resource(path.to_owned()).default_service(web::to(async || {
        framed(
            StatusCode::METHOD_NOT_ALLOWED,
            "HTTP 405 Method Not Allowed",
        )
    }))
}

fn unknown_realm() -> HttpResponse {
    framed(StatusCode::NOT_FOUND, "Realm does not exist")
}
