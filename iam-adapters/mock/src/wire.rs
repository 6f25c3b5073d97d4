//! Keycloak's protocol, as far as the gateway's adapter uses it. The responses and the order of the
//! checks were observed at Keycloak 26.7.4; `tests/live` compares the two.

mod backchannel;
mod introspection;
mod logout;
mod published;
mod realm;
mod refresh_token;
mod request;
mod response;
mod revocation;
mod signing;
mod token;
mod wire_fault;

use actix_web::Resource;
use actix_web::http::StatusCode;
use actix_web::web::{self, ServiceConfig};

pub use backchannel::Backchannel;
pub use realm::{Realm, RealmServer, RealmSettingsChange, Realms, ServerSettings};
pub use signing::RealmKeys;
pub use wire_fault::{Connection, ResetHandle};

use response::plain_error;

/// The endpoints of every realm, below the base path. They need [`Realms`] as app data.
pub fn routes(routes: &mut ServiceConfig, path: &str) {
    let below = |rest: &str| format!("{}/realms/{{realm}}/{rest}", path.trim_end_matches('/'));
    let protocol = |rest: &str| below(&format!("protocol/openid-connect/{rest}"));
    routes
        .service(only(&protocol("token")).route(web::post().to(token::grant)))
        .service(
            only(&protocol("token/introspect")).route(web::post().to(introspection::introspect)),
        )
        .service(only(&protocol("revoke")).route(web::post().to(revocation::revoke)))
        .service(only(&protocol("logout")).route(web::post().to(logout::log_out)))
        .service(only(&protocol("certs")).route(web::get().to(published::keys)))
        .service(
            only(&below(".well-known/openid-configuration"))
                .route(web::get().to(published::discovery)),
        )
        .default_service(web::to(async || {
            plain_error(StatusCode::NOT_FOUND, "HTTP 404 Not Found")
        }));
}

/// A path with its own methods; others are answered 405.
fn only(path: &str) -> Resource {
    web::resource(path.to_owned()).default_service(web::to(async || {
        plain_error(
            StatusCode::METHOD_NOT_ALLOWED,
            "HTTP 405 Method Not Allowed",
        )
    }))
}
