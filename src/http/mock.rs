//! What the listeners of a mock have besides: the namespace of a request, and the controls.

pub mod console;
pub mod control;
mod hosts;
pub mod wire;

use std::rc::Rc;
use std::sync::Arc;

use actix_web::dev::{Extensions, ServiceRequest};
use actix_web::http::header::HeaderMap;
use actix_web::web::{Data, ServiceConfig};

use super::Front;
use super::problem::{InvalidRequest, Problem};
use crate::mock::{Name, Namespaces, World};

pub use hosts::AllowedHosts;

/// The controls of the mock, and the console.
pub fn routes(routes: &mut ServiceConfig) {
    control::routes(routes);
    console::routes(routes);
}

/// The header that names a request's namespace.
pub const NAMESPACE: &str = "mock-namespace";

/// The namespace of a request: the one that its header names, or the default one.
///
/// # Errors
///
/// [`Problem::InvalidRequest`] where the header holds no name, or there are two;
/// [`Problem::TooManyNamespaces`].
pub(super) fn world(namespaces: &Namespaces, headers: &HeaderMap) -> Result<Arc<World>, Problem> {
    let mut names = headers.get_all(NAMESPACE);
    let Some(name) = names.next() else {
        return Ok(namespaces.default_world());
    };
    let name = name.to_str().ok().filter(|_| names.next().is_none());
    let name = name.and_then(|name| Name::parse(name).ok());
    let name = name.ok_or(Problem::InvalidRequest(InvalidRequest::Namespace))?;
    namespaces
        .begin(&name)
        .map_err(|_| Problem::TooManyNamespaces)
}

/// Sends a request to the gateway of its namespace, and tells which that is. Controls choose by
/// themselves, in words of their own.
///
/// # Errors
///
/// Those of [`world`].
pub(super) fn send(
    namespaces: &Namespaces,
    request: &mut ServiceRequest,
    front: Data<Front>,
) -> Result<Data<Front>, (Data<Front>, Problem)> {
    if request.path().starts_with("/mock/") {
        return Ok(front);
    }
    let world = match world(namespaces, request.headers()) {
        Ok(world) => world,
        Err(problem) => return Err((front, problem)),
    };
    let Some(house) = &world.house else {
        return Ok(front);
    };
    if std::ptr::eq(&raw const *house.front, &raw const **front) {
        return Ok(front);
    }
    let chosen = Data::from(Arc::clone(&house.front));
    let mut container = Extensions::new();
    container.insert(chosen.clone());
    // What is added last is found first.
    request.add_data_container(Rc::new(container));
    Ok(chosen)
}
