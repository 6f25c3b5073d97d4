//! The id of a request: the client's own where it is fit to be logged, otherwise a new one.

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};

use actix_web::HttpMessage;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::edge::RequestLog;

/// `x-request-id`, taken and returned.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

const LENGTH_MAX: usize = 64;

/// An id made of letters, digits and `. _ -` alone, so that it can stand in a log line, a header
/// and a JSON string as it is.
#[derive(Debug, Clone, Copy)]
pub struct RequestId {
    text: [u8; LENGTH_MAX],
    length: usize,
}

impl RequestId {
    /// The client's id, or a new one.
    #[must_use]
    pub(super) fn of(headers: &HeaderMap) -> Self {
        headers
            .get(HEADER)
            .map(HeaderValue::as_bytes)
            .filter(|id| is_fit(id))
            .map_or_else(Self::new, Self::copied)
    }

    /// A thread's random name and its count: unique, which is all that an id has to be. A random
    /// number for each request would cost as much as half of the JSON.
    pub(super) fn new() -> Self {
        thread_local! {
            static NEXT: Cell<(u64, u32)> = Cell::new((RandomState::new().hash_one(()), 0));
        }
        let (thread, count) = NEXT.get();
        NEXT.set((thread, count.wrapping_add(1)));
        let mut bytes = [0; 12];
        let (name, number) = bytes.split_at_mut(8);
        name.copy_from_slice(&thread.to_be_bytes());
        number.copy_from_slice(&count.to_be_bytes());
        let mut text = [0; 16];
        // Twelve bytes are sixteen characters, and all of them may stand in a header.
        let _ = URL_SAFE_NO_PAD.encode_slice(bytes, &mut text);
        Self::copied(&text)
    }

    fn copied(id: &[u8]) -> Self {
        let mut text = [0; LENGTH_MAX];
        for (to, from) in text.iter_mut().zip(id) {
            *to = *from;
        }
        let length = id.len().min(LENGTH_MAX);
        Self { text, length }
    }

    fn as_bytes(&self) -> &[u8] {
        self.text.get(..self.length).unwrap_or_default()
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The id as the value of [`HEADER`].
    #[must_use]
    pub fn header_value(&self) -> HeaderValue {
        HeaderValue::from_bytes(self.as_bytes()).unwrap_or(HeaderValue::from_static("none"))
    }
}

/// The id of a request: the one that the gateway's middleware gave it, or, outside of that, the
/// client's own or a new one.
#[must_use]
pub fn of(request: &impl HttpMessage) -> RequestId {
    let known = request.extensions().get::<RequestLog>().map(|log| log.id);
    known.unwrap_or_else(|| RequestId::of(request.headers()))
}

fn is_fit(id: &[u8]) -> bool {
    (1..=LENGTH_MAX).contains(&id.len())
        && id
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &[u8]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_bytes(value).unwrap());
        RequestId::of(&headers).as_str().to_owned()
    }

    #[test]
    fn a_fit_id_is_taken_over() {
        for id in ["a", "0af7651916cd43dd8448eb211c80319c", "Req_1.2-3"] {
            assert_eq!(of(id.as_bytes()), id);
        }
        let longest = "x".repeat(LENGTH_MAX);
        assert_eq!(of(longest.as_bytes()), longest);
    }

    #[test]
    fn an_id_that_could_harm_a_log_or_is_missing_is_replaced() {
        let too_long = "x".repeat(LENGTH_MAX + 1);
        for id in ["", "a b", "a\"b", "{}", "a,b", "é", &too_long] {
            let made = of(id.as_bytes());
            assert!(made != id && made.len() == 16, "{id:?} became {made:?}");
        }
        let (one, other) = (
            RequestId::of(&HeaderMap::new()),
            RequestId::of(&HeaderMap::new()),
        );
        assert_ne!(one.as_str(), other.as_str());
    }
}
