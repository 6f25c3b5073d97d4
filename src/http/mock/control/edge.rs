//! Around every control call: whose page asks, and the form of what is refused.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap, HeaderValue};
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
    let mut response = if is_foreign(request.headers()) {
        request.into_response(Refused::foreign_origin().response(&id))
    } else {
        let response = next.call(request).await?;
        let refused = response.response().error();
        match refused.and_then(Error::as_error::<Refused>) {
            Some(refused) => {
                let told = refused.response(&id);
                response.into_response(told)
            }
            None => response.map_into_boxed_body(),
        }
    };
    let headers = response.headers_mut();
    headers.insert(request_id::HEADER, id.header_value());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Whether a browser says that a page of another host asks. A browser sends `Origin` with
/// everything that could change something (Fetch, "append a request `Origin` header"); programs
/// that are no browsers send none.
fn is_foreign(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST);
    let host = hosts.next().map(HeaderValue::as_bytes);
    headers.get_all(header::ORIGIN).any(|origin| {
        let origin = origin.as_bytes();
        let authority = [b"http://".as_slice(), b"https://"]
            .iter()
            .find_map(|scheme| origin.strip_prefix(*scheme));
        match (authority, host) {
            (Some(authority), Some(host)) => !authority.eq_ignore_ascii_case(host),
            _ => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn foreign(origins: &[&str]) -> bool {
        let mut request = TestRequest::get().insert_header((header::HOST, "localhost:9090"));
        for origin in origins {
            request = request.append_header((header::ORIGIN, *origin));
        }
        is_foreign(request.to_http_request().headers())
    }

    #[test]
    fn a_page_of_the_mocks_own_and_a_program_may_ask() {
        assert!(!foreign(&[]));
        assert!(!foreign(&["http://localhost:9090"]));
        assert!(!foreign(&["https://LocalHost:9090"]));
    }

    #[test]
    fn a_page_of_any_other_origin_may_not() {
        for origin in [
            "null",
            "",
            "http://localhost",
            "http://localhost:8080",
            "http://localhost:90900",
            "http://evil.test",
            "http://evil.test:9090",
            "http://localhost:9090.evil.test",
            "http://localhost:9090@evil.test",
            "http://localhost:9090/",
            "file://localhost:9090",
            "localhost:9090",
        ] {
            assert!(foreign(&[origin]), "{origin}");
        }
        assert!(foreign(&["http://localhost:9090", "http://evil.test"]));
        let hostless = TestRequest::get().insert_header((header::ORIGIN, "http://localhost:9090"));
        assert!(is_foreign(hostless.to_http_request().headers()));
    }
}
