//! `[cache]`: the caches of data from the IAM.

use super::section::section;

section! {
    pub struct CacheSettings {
        /// The bound of the caches of liveness and of permissions together, in bytes. With less than the
        /// least, entries are evicted before they are used again.
        pub max_bytes: usize = 64 * 1024 * 1024, in 1024 * 1024..=usize::MAX;
    }
}
