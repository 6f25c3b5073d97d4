//! What is derived from a key.

use std::cell::Cell;

use aws_lc_rs::hkdf;

use super::super::*;

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
