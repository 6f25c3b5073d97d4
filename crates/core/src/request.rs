//! The request on whose behalf the gateway acts.

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use base64::Engine as _;
use iam_adapters::ClientAddress;
use iam_adapters::trace::Context;
use parking_lot::{Mutex, MutexGuard};
use tracing::Span;

use super::identifiers::Identifier;
use crate::base64url::BASE64;
use crate::results::DataSource;

/// One request, whatever its protocol.
#[derive(Debug, Default)]
pub struct RequestContext {
    /// Its id.
    pub id: RequestId,
    /// The address of its client.
    pub client: Option<ClientAddress>,
    /// Its trace, with its span if it is sampled.
    pub trace: Context,
    log_fields: Mutex<LogFields>,
}

/// The fields of the request's log line that its events contain.
#[derive(Debug, Default)]
pub struct LogFields {
    /// The name of the IAM of a login, a session or a logout token.
    pub iam: Option<Arc<str>>,
    /// The source of the data that an exchange used.
    pub source: Option<DataSource>,
    /// The account that a login names, whether it succeeds or not.
    pub account: Option<Identifier>,
    /// The user that logged in, as in `sub` of the access tokens.
    pub subject: Option<String>,
}

impl RequestContext {
    /// A request without events.
    #[must_use]
    pub fn new(id: RequestId, client: Option<ClientAddress>, trace: Context) -> Self {
        Self {
            id,
            client,
            trace,
            log_fields: Mutex::default(),
        }
    }

    /// The span that adds its id to the log lines within.
    #[must_use]
    pub fn log_span(&self) -> Span {
        tracing::error_span!("request", request_id = self.id.as_str())
    }

    /// The fields for its log line.
    pub fn log_fields(&self) -> MutexGuard<'_, LogFields> {
        self.log_fields.lock()
    }
}

const LENGTH_MAX: usize = 128;

/// The id of a request: the client's own where it is valid, otherwise a new one. It consists of
/// letters, digits and `. _ -`, so that a log line, a header and a JSON string can contain it as it
/// is.
#[derive(Debug, Clone, Copy)]
pub struct RequestId {
    text: [u8; LENGTH_MAX],
    length: usize,
}

impl RequestId {
    /// The id that a client sent, if it is valid.
    #[must_use]
    pub fn parse(id: &[u8]) -> Option<Self> {
        let is_valid = (1..=LENGTH_MAX).contains(&id.len())
            && id
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
        is_valid.then(|| Self::copied(id))
    }

    fn copied(id: &[u8]) -> Self {
        let mut text = [0; LENGTH_MAX];
        for (to, from) in text.iter_mut().zip(id) {
            *to = *from;
        }
        let length = id.len().min(LENGTH_MAX);
        Self { text, length }
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let text = self.text.get(..self.length).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }
}

/// A new id: a random number of the thread and a counter. Ids must be unique and nothing more,
/// and a random number for each request would cost as much as half of the JSON.
impl Default for RequestId {
    fn default() -> Self {
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
        // Twelve bytes are sixteen characters, all of them valid in a header.
        let _ = BASE64.encode_slice(bytes, &mut text);
        Self::copied(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_id_of_the_client_is_used() {
        let longest = "x".repeat(LENGTH_MAX);
        for id in [
            "a",
            "0af7651916cd43dd8448eb211c80319c",
            "Req_1.2-3",
            &longest,
        ] {
            let parsed = RequestId::parse(id.as_bytes()).expect(id);
            assert_eq!(parsed.as_str(), id);
        }
    }

    #[test]
    fn unsafe_id_is_refused_and_new_ids_differ() {
        let too_long = "x".repeat(LENGTH_MAX + 1);
        for id in ["", "a b", "a\"b", "{}", "a,b", "a%0db", "é", &too_long] {
            assert!(RequestId::parse(id.as_bytes()).is_none(), "{id:?}");
        }
        let (one, other) = (RequestId::default(), RequestId::default());
        assert_ne!(one.as_str(), other.as_str());
        assert_eq!(one.as_str().len(), 16);
    }
}
