//! The development program contains the mock: the positive control of
//! `tests/production/contents.rs`.

use test_support::development_markers::{MARKERS, found_in};

use crate::GATEWAY;

#[test]
fn search_finds_every_part_of_the_mock_in_the_development_program() {
    let all: Vec<_> = MARKERS.iter().map(|(part, _)| *part).collect();
    assert_eq!(found_in(GATEWAY.path), all);
}
