//! A client that is replaced from time to time, and its connections with it.
//!
//! A name is looked up when a connection is made, and a connection that is never idle never ends.
//! So a busy client would stay with the addresses of its first minute: with a node that is about
//! to be switched off, or that a failover has left behind. A client that was replaced finishes the
//! calls that it began, and its connections end with them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Client, ClientBuilder};

use super::ClientError;
use crate::clock::{Clock, Moment};

/// How long new calls go over the connections of one client. The time to live of a name that is
/// meant to move is seldom shorter; a handshake for each connection in this time costs nothing.
const LIFETIME: Duration = Duration::from_secs(30);

/// The client, and how to make the next one.
pub(super) struct Renewed {
    recipe: Box<dyn Fn() -> ClientBuilder + Send + Sync>,
    clock: Arc<dyn Clock>,
    current: Mutex<(Moment, Client)>,
}

impl Renewed {
    pub(super) fn new(
        recipe: impl Fn() -> ClientBuilder + Send + Sync + 'static,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ClientError> {
        let first = recipe().build().map_err(|_| ClientError::Tls)?;
        Ok(Self {
            current: Mutex::new((clock.now(), first)),
            recipe: Box::new(recipe),
            clock,
        })
    }

    /// The client of now.
    pub(super) fn client(&self) -> Client {
        let now = self.clock.now();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let (made, client) = &mut *current;
        // Nothing is read and nobody asked to make one; should it fail, the old one still serves.
        if now.since(*made) >= LIFETIME
            && let Ok(next) = (self.recipe)().build()
        {
            *made = now;
            *client = next;
        }
        client.clone()
    }
}

impl fmt::Debug for Renewed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewed").finish_non_exhaustive()
    }
}
