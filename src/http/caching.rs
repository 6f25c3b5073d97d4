//! Caching of responses: documents that a client caches and validates by their entity tag (RFC 9110 section
//! 8.8.3), and responses that nothing may store.

use actix_web::http::header::{self, EntityTag, Header as _, HeaderName, HeaderValue, IfNoneMatch};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The response with a document, or 304 if the client has it. Both have these headers.
#[must_use]
pub fn document(
    request: &HttpRequest,
    content_type: &'static str,
    body: &str,
    headers: &[(HeaderName, &str)],
) -> HttpResponse {
    let digest = digest(&SHA256, body.as_bytes());
    let tag = EntityTag::new_strong(URL_SAFE_NO_PAD.encode(digest.as_ref()));
    let is_known = match IfNoneMatch::parse(request) {
        Ok(IfNoneMatch::Any) => true,
        Ok(IfNoneMatch::Items(known)) => known.iter().any(|known| known.weak_eq(&tag)),
        Err(_) => false,
    };
    let mut response = if is_known {
        HttpResponse::NotModified()
    } else {
        HttpResponse::Ok()
    };
    for (name, value) in headers {
        response.insert_header((name.clone(), *value));
    }
    response.insert_header((header::ETAG, tag.to_string()));
    if is_known {
        return response.finish();
    }
    response.content_type(content_type).body(body.to_owned())
}

/// Forbids caches to store the response (RFC 6749 section 5.1).
pub(super) fn no_store(response: &mut HttpResponseBuilder) {
    response
        .insert_header((header::CACHE_CONTROL, HeaderValue::from_static("no-store")))
        .insert_header((header::PRAGMA, HeaderValue::from_static("no-cache")));
}
