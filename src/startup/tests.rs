use std::collections::BTreeMap;

use test_support::ManualClock;

use super::dependencies::EARLIEST;
use super::*;
use crate::config;

#[test]
fn unset_clock_is_reported_before_a_listener_is_bound() {
    let settings = config::load(None, &BTreeMap::new(), &config::sample::registry()).unwrap();
    let at = |seconds| Arc::new(ManualClock::at(Duration::from_secs(seconds)));
    for unset in [0, EARLIEST.as_secs() - 1] {
        let refused = ServiceDependencies::prepare(&settings, at(unset)).unwrap_err();
        assert_eq!(refused.problems.len(), 1, "{refused}");
        assert!(refused.to_string().contains("clock"), "{refused}");
    }
    assert!(ServiceDependencies::prepare(&settings, at(EARLIEST.as_secs())).is_ok());
}
