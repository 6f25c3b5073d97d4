//! The store of cached data that all replicas use. It is not trusted: what it stores is sealed.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use super::results::LookUp;
use super::revocations::RevocationId;

/// An entry as the store returns it.
#[derive(Debug, Clone)]
pub struct Stored {
    /// What was stored.
    pub entry: Vec<u8>,
    /// How long the store will keep it.
    pub remaining: Duration,
}

/// The result of [`SharedCache::get`]; an error if there is no entry, or if the store cannot be used.
pub type LookUpFuture<'c> = Pin<Box<dyn Future<Output = Result<Stored, LookUp>> + Send + 'c>>;

/// A store that all replicas use. Returns within its deadline.
pub trait SharedCache: fmt::Debug + Send + Sync {
    /// Looks up an entry.
    fn get(&self, id: RevocationId) -> LookUpFuture<'_>;

    /// Stores an entry for `lifetime`, or drops it. Nothing waits for it.
    fn put(&self, id: RevocationId, entry: Vec<u8>, lifetime: Duration);
}
