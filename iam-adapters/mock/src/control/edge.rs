//! Around every control call: the form of what is refused.

use actix_web::Error;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap, HeaderValue};
use actix_web::middleware::Next;
use auth_gateway::http;

use super::refused::Refused;

/// The middleware around the control API.
///
/// # Errors
///
/// Those of what is inside, where they have no response.
pub(super) async fn around(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let id = http::request_id(&request);
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
    headers.insert(http::X_REQUEST_ID, id.header_value());
    no_store(headers);
    Ok(response)
}

/// Nobody keeps what is answered here.
pub(crate) fn no_store(headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}
