//! A control call, once everything about it is known to be fair: the world it is about, its
//! query and its body.

use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::header::HeaderMap;
use actix_web::web::{self, Data};
use actix_web::{FromRequest, HttpRequest};
use futures_util::future::LocalBoxFuture;

use super::body::{self, Body};
use super::query::{self, Query};
use super::refused::Refused;
use crate::NAMESPACE;
use crate::{House, InvalidName, Name, Namespaces, TooMany, World};

/// What a handler gets: nothing of a call is looked at but through this, so that nothing of it
/// goes unread.
pub(super) struct Call<Q = (), B = ()> {
    /// The namespace that the call is about.
    pub(super) world: Arc<World>,
    /// All of them.
    pub(super) namespaces: Data<Namespaces>,
    /// The parameters.
    pub(super) query: Q,
    /// The body.
    pub(super) body: B,
}

impl<Q: Query + 'static, B: Body + 'static> FromRequest for Call<Q, B> {
    type Error = Refused;
    type Future = LocalBoxFuture<'static, Result<Self, Refused>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let payload = web::Payload::from_request(request, payload);
        let request = request.clone();
        Box::pin(async move {
            let namespaces = request.app_data::<Data<Namespaces>>().cloned();
            let namespaces =
                namespaces.ok_or_else(|| Refused::failed("there are no namespaces"))?;
            // Before the namespace: a call that is refused begins none.
            let query = query::parse(request.query_string())?;
            let payload = payload.await;
            let payload = payload.map_err(|_| Refused::invalid("the body broke off"))?;
            let body = body::read(&request, payload).await?;
            let world = match name(request.headers())? {
                Some(name) => namespaces.begin(&name)?,
                None => namespaces.default_world(),
            };
            Ok(Self {
                world,
                namespaces,
                query,
                body,
            })
        })
    }
}

impl<Q, B> Call<Q, B> {
    /// The gateway of the namespace.
    ///
    /// # Errors
    ///
    /// [`Refused`], where the IAM is alone.
    pub(super) fn house(&self) -> Result<&House, Refused> {
        self.world.house.as_ref().ok_or_else(|| {
            Refused::not_found(
                "`mock-iam` has no gateway and makes no access tokens; ask the mock of a gateway",
            )
        })
    }
}

/// The namespace that the headers name, where they do.
fn name(headers: &HeaderMap) -> Result<Option<Name>, Refused> {
    let mut named = headers.get_all(NAMESPACE);
    match (named.next(), named.next()) {
        (None, _) => Ok(None),
        (Some(name), None) => {
            let name = name.to_str().map_err(|_| InvalidName)?;
            Ok(Some(Name::parse(name)?))
        }
        (Some(_), Some(_)) => Err(Refused::invalid("the header Mock-Namespace is there twice")),
    }
}

/// The number by which something is called in a path. Nothing has a name that is no number.
pub(super) fn number(id: &str) -> Result<u64, Refused> {
    id.parse()
        .map_err(|_| Refused::not_found("the id must be a whole number"))
}

impl From<InvalidName> for Refused {
    fn from(invalid: InvalidName) -> Self {
        Self::invalid(invalid.to_string())
    }
}

impl From<TooMany> for Refused {
    fn from(many: TooMany) -> Self {
        Self::too_many_namespaces(many.to_string())
    }
}
