//! What the users of a key derive from it, each by a label of its own.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use jiff::Timestamp;
use zeroize::Zeroizing;

use super::Key;

/// The length of a derived secret: that of SHA-256.
const SECRET_LEN: usize = 32;

/// The secret of a key, from which others are derived (HKDF-SHA256, RFC 5869).
pub struct DerivationKey {
    pub(super) kid: String,
    pub(super) first_use: Timestamp,
    extracted: hmac::Key,
    pub(super) derived: DerivedValues,
}

impl DerivationKey {
    /// With the secret bytes of a key. The extraction has no salt (section 2.2).
    #[must_use]
    pub fn new(secret: &[u8], kid: &str, first_use: Timestamp) -> Self {
        let salt = hmac::Key::new(HMAC_SHA256, &[0; SECRET_LEN]);
        let extracted = hmac::sign(&salt, secret);
        Self {
            kid: kid.to_owned(),
            first_use,
            extracted: hmac::Key::new(HMAC_SHA256, extracted.as_ref()),
            derived: DerivedValues::default(),
        }
    }

    /// The secret with this label. Its expansion is one HMAC (section 2.3), which never fails.
    #[must_use]
    pub fn derive(&self, label: &[u8]) -> Zeroizing<[u8; SECRET_LEN]> {
        let mut context = hmac::Context::with_key(&self.extracted);
        context.update(label);
        context.update(&[1]);
        let tag = context.sign();
        Zeroizing::new(tag.as_ref().first_chunk().copied().unwrap_or_default())
    }

    /// The key for HMAC-SHA256 with this label.
    #[must_use]
    pub fn derive_hmac_key(&self, label: &[u8]) -> hmac::Key {
        hmac::Key::new(HMAC_SHA256, &*self.derive(label))
    }
}

/// What a user of keys needs of each key, computed once and kept with the key: see [`Key::derived`].
pub trait DerivedFrom<K: Key>: Send + Sync + 'static {
    /// Computes it. Must not call [`Key::derived`] of this key.
    fn derived_from(key: &K) -> Self;
}

/// A list with one value of each type. A value is computed when it is first needed. Reading takes no lock.
#[derive(Default)]
pub(super) struct DerivedValues(OnceLock<Box<Node>>);

struct Node {
    value: Box<dyn Any + Send + Sync>,
    next: DerivedValues,
}

impl DerivedValues {
    pub(super) fn get<T: Send + Sync + 'static>(&self, compute: impl Fn() -> T) -> &Arc<T> {
        let mut list = self;
        loop {
            let node = list.0.get_or_init(|| {
                Box::new(Node {
                    value: Box::new(Arc::new(compute())),
                    next: Self::default(),
                })
            });
            match node.value.downcast_ref() {
                Some(value) => return value,
                None => list = &node.next,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use aws_lc_rs::hkdf;

    use super::*;

    #[test]
    fn derived_secret_is_that_of_hkdf_with_the_label_as_info() {
        let key = DerivationKey::new(b"secret", "k1", Timestamp::UNIX_EPOCH);
        let extracted = hkdf::Salt::none(hkdf::HKDF_SHA256).extract(b"secret");
        for label in [&b"one"[..], b"another", b""] {
            let mut expected = [0; SECRET_LEN];
            let info = [label];
            let expanded = extracted.expand(&info, hkdf::HKDF_SHA256).unwrap();
            expanded.fill(&mut expected).unwrap();
            assert_eq!(*key.derive(label), expected, "{label:?}");
        }
    }

    #[test]
    fn value_of_each_type_is_computed_once() {
        let (values, computed) = (DerivedValues::default(), Cell::new(0));
        let count = || {
            computed.set(computed.get() + 1);
            computed.get()
        };
        for _ in 0..2 {
            assert_eq!(**values.get::<u32>(count), 1);
            assert_eq!(**values.get(|| Some(count())), Some(2));
        }
        assert_eq!(computed.get(), 2);
    }
}
