//! Replaces the HTTP client and its connections periodically.
//!
//! A name is resolved when a connection is opened, and a connection that is never idle is never closed.
//! So a busy client would keep its first addresses, for example of a server that is no longer primary
//! after a failover. A replaced client completes its calls in flight, and then closes its connections.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Client, ClientBuilder};

use super::ClientError;
use crate::clock::{Clock, Moment};

/// How long a client is used for new calls. The time to live of DNS records for failover is seldom
/// shorter, and one handshake per connection in this time costs little.
const LIFETIME: Duration = Duration::from_secs(30);

/// The current client, and the function that creates the next one.
pub(super) struct RecycledClient {
    builder: Box<dyn Fn() -> ClientBuilder + Send + Sync>,
    clock: Arc<dyn Clock>,
    current: Mutex<(Moment, Client)>,
}

impl RecycledClient {
    pub(super) fn new(
        builder: impl Fn() -> ClientBuilder + Send + Sync + 'static,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ClientError> {
        let first = builder().build().map_err(|_| ClientError::Tls)?;
        Ok(Self {
            current: Mutex::new((clock.now(), first)),
            builder: Box::new(builder),
            clock,
        })
    }

    /// The client for a new call.
    pub(super) fn client(&self) -> Client {
        let now = self.clock.now();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let (created_at, client) = &mut *current;
        // If the new client cannot be created, the old one is used on.
        if now.since(*created_at) >= LIFETIME
            && let Ok(next) = (self.builder)().build()
        {
            *created_at = now;
            *client = next;
        }
        client.clone()
    }
}

impl fmt::Debug for RecycledClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecycledClient").finish_non_exhaustive()
    }
}
