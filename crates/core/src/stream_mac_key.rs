//! The key that authenticates the entries that replicas share.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;

/// The length of a [`StreamMacKey::id`].
pub const KEY_ID_LEN: usize = 4;

/// The length of a [`StreamMacKey::tag`]: half of HMAC-SHA256, as RFC 2104 section 5 allows.
pub const TAG_LEN: usize = 16;

/// Authenticates the entries of one kind that replicas share.
#[derive(Clone)]
pub struct StreamMacKey {
    key: hmac::Key,
    id: [u8; KEY_ID_LEN],
}

impl StreamMacKey {
    pub(super) fn new(key: hmac::Key) -> Self {
        // No entry is as short as this text.
        let id = truncated(&hmac::sign(&key, b"key id"));
        Self { key, id }
    }

    /// Identifies the key in an entry.
    #[must_use]
    pub const fn id(&self) -> [u8; KEY_ID_LEN] {
        self.id
    }

    /// Authenticates an entry (RFC 2104).
    #[must_use]
    pub fn tag(&self, entry: &[u8]) -> [u8; TAG_LEN] {
        truncated(&hmac::sign(&self.key, entry))
    }

    /// Whether this is the tag of the entry, in constant time.
    #[must_use]
    pub fn verifies(&self, entry: &[u8], tag: &[u8]) -> bool {
        verify_slices_are_equal(&self.tag(entry), tag).is_ok()
    }
}

/// The beginning of a tag.
pub(super) fn truncated<const N: usize>(tag: &hmac::Tag) -> [u8; N] {
    let mut bytes = [0; N];
    let pairs = bytes.iter_mut().zip(tag.as_ref());
    pairs.for_each(|(to, from)| *to = *from);
    bytes
}
