//! A shared value that can be replaced while others use it.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

/// A value that can be replaced. Uses of the previous value continue with it.
///
/// It is read at most once for each connection or call to another server, so a lock is cheap enough.
/// The crate `arc-swap` cannot hold trait objects.
pub struct Replaceable<T: ?Sized>(RwLock<Arc<T>>);

impl<T: ?Sized> Replaceable<T> {
    /// With this first value.
    #[must_use]
    pub const fn new(value: Arc<T>) -> Self {
        Self(RwLock::new(value))
    }

    /// As [`Replaceable::new`], for several owners.
    #[must_use]
    pub fn shared(value: Arc<T>) -> Arc<Self>
    where
        Self: Sized,
    {
        Arc::new(Self::new(value))
    }

    /// The current value.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read())
    }

    /// Replaces the value.
    pub fn replace(&self, value: Arc<T>) {
        *self.0.write() = value;
    }
}

impl<T: fmt::Debug + ?Sized> fmt::Debug for Replaceable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
