//! Entity tags, by which a client validates a cached document (RFC 9110 section 8.8.3).

use actix_web::HttpRequest;
use actix_web::http::header::{EntityTag, Header as _, IfNoneMatch};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The tag of a document.
#[must_use]
pub fn of(body: &str) -> EntityTag {
    EntityTag::new_strong(URL_SAFE_NO_PAD.encode(digest(&SHA256, body.as_bytes()).as_ref()))
}

/// Whether the client has the document of this tag.
#[must_use]
pub fn is_known(tag: &EntityTag, request: &HttpRequest) -> bool {
    match IfNoneMatch::parse(request) {
        Ok(IfNoneMatch::Any) => true,
        Ok(IfNoneMatch::Items(known)) => known.iter().any(|known| known.weak_eq(tag)),
        Err(_) => false,
    }
}
