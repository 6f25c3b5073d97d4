//! A client for each thread, replaced with its connections periodically.
//!
//! A connection is driven by the thread that opened it. If another one used it, each call would wake two threads.
//!
//! A name is resolved when a connection is opened, and a connection that is never idle is never closed.
//! So a busy client would keep its first addresses, for example of a server that is no longer primary
//! after a failover. A replaced client completes its calls in flight, and then closes its connections.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::{Client, ClientBuilder};
use thread_local::ThreadLocal;

use super::ClientError;
use crate::clock::{Clock, Moment};

/// How long a client is used for new calls. The time to live of DNS records for failover is seldom
/// shorter, and one handshake per connection in this time costs little.
const LIFETIME: Duration = Duration::from_secs(30);

/// The current client of each thread, and the function that creates the next one.
#[derive(derive_more::Debug)]
#[debug("RecycledClient {{ .. }}")]
pub(super) struct RecycledClient {
    builder: Box<dyn Fn() -> ClientBuilder + Send + Sync>,
    pub(super) clock: Arc<dyn Clock>,
    first: Client,
    current: ThreadLocal<Mutex<(Moment, Client)>>,
}

impl RecycledClient {
    pub(super) fn new(
        builder: impl Fn() -> ClientBuilder + Send + Sync + 'static,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ClientError> {
        let first = builder().build().map_err(|_| ClientError::Tls)?;
        Ok(Self {
            first,
            current: ThreadLocal::new(),
            builder: Box::new(builder),
            clock,
        })
    }

    /// The client for a new call.
    pub(super) fn client(&self) -> Client {
        let now = self.clock.now();
        let next = || (self.builder)().build();
        // If a new client cannot be created, an old one is used on.
        let current = self.current.get_or(|| {
            let client = next().unwrap_or_else(|_| self.first.clone());
            Mutex::new((now, client))
        });
        let mut current = current.lock();
        let (created_at, client) = &mut *current;
        if now.since(*created_at) >= LIFETIME
            && let Ok(next) = next()
        {
            *created_at = now;
            *client = next;
        }
        client.clone()
    }
}
