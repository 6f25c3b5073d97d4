//! A control call, once everything about it is known to be fair: the world it is about, its
//! query and its body.

use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::web::Data;
use actix_web::{FromRequest, HttpRequest};
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;

use super::body::{self, Body};
use super::query::{self, Query};
use super::refused::Refused;
use crate::mock::{Namespaces, World};

/// The world that the header `Mock-Namespace` names.
pub(super) struct Chosen(pub(super) Arc<World>);

impl FromRequest for Chosen {
    type Error = Refused;
    type Future = std::future::Ready<Result<Self, Refused>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        std::future::ready(chosen(request).map(Self))
    }
}
