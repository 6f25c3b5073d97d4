//! The production program contains no part of the mock. The same search finds all of it in the
//! development program: `tests/process/contents.rs`.

use test_support::development_markers::found_in;

use crate::GATEWAY;

#[test]
fn production_program_contains_nothing_of_the_mock() {
    assert_eq!(found_in(GATEWAY.path), [""; 0]);
}
