//! Around every control call: the form of what is refused.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage as _};

use super::refused::Refused;
use crate::http::edge::Note;
use crate::http::request_id::{self, RequestId};

/// The middleware around the control API.
///
/// # Errors
///
/// Those of what is inside, where they have no response.
pub(super) async fn around(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    // The gateway's own edge has named the request already; the listener of `mock-iam` has none.
    let named = request.extensions().get::<Note>().map(|note| note.id);
    let id = named.unwrap_or_else(|| RequestId::of(request.headers()));
    let response = next.call(request).await?;
    let refused = response.response().error();
    let mut response = match refused.and_then(Error::as_error::<Refused>) {
        Some(refused) => {
            let told = refused.response(&id);
            response.into_response(told)
        }
        None => response.map_into_boxed_body(),
    };
    let headers = response.headers_mut();
    headers.insert(request_id::HEADER, id.header_value());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
