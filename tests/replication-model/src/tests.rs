//! The properties hold, and each fails for a protocol with a deliberate mistake.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};

use crate::model::Action::{
    Add, Connect, FailOver, Fetch, Introspect, Issue, LogOut, LogOutFails, Read, Receive, Replay,
    Restart, Tick, Trim,
};
use crate::model::{
    AGREED, Action, BOUND, FRESHNESS, Flaw, Protocol, REVOKED, SERVER_LAG, SKEW, STARTED,
};

/// Visits every reachable state.
fn check(protocol: Protocol) {
    let checker = protocol.checker().spawn_bfs().join();
    checker.assert_properties();
    println!("{} states", checker.unique_state_count());
}

/// The checker finds that the property fails, and these actions are an example.
fn fails(protocol: Protocol, property: &'static str, example: &[Action]) {
    let found = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let checker = protocol.checker().finish_when(found).spawn_bfs().join();
    checker.assert_discovery(property, example.to_vec());
}

#[test]
fn no_token_is_issued_later_than_the_freshness_after_the_end_of_the_session() {
    check(Protocol::with_faults(0));
}

/// A server that takes over and is behind keeps cached data for longer, and the clocks of replicas
/// may differ. The age is the greater of the two, so both must be wrong.
const FAILOVER_BOUND: i8 = FRESHNESS + if SERVER_LAG < SKEW { SERVER_LAG } else { SKEW };

#[test]
fn properties_hold_after_a_fault() {
    check(Protocol {
        bound: FAILOVER_BOUND,
        ..Protocol::with_faults(1)
    });
}

#[test]
#[ignore = "takes a minute; a step of `tests/run --full`"]
fn properties_hold_after_two_faults() {
    check(Protocol {
        bound: FAILOVER_BOUND,
        ..Protocol::with_faults(2)
    });
}

#[test]
fn failover_to_a_slow_clock_delays_the_bound_by_the_smaller_difference_of_clocks() {
    let example = [
        Introspect(1),
        LogOut(1),
        Receive(1),
        FailOver,
        Connect(0),
        Tick,
        Tick,
        Fetch(0),
        Issue(0),
    ];
    fails(Protocol::with_faults(1), BOUND, &example);
}

#[test]
fn hostile_redis_delays_the_bound_by_no_more_than_the_difference_of_clocks() {
    let hostile = Protocol {
        hostile: true,
        ..Protocol::with_faults(0)
    };
    check(Protocol {
        bound: FRESHNESS + SKEW,
        ..hostile.clone()
    });
    let example = [
        Introspect(1),
        LogOut(1),
        Receive(1),
        Tick,
        Replay,
        Tick,
        Fetch(0),
        Issue(0),
    ];
    fails(hostile, BOUND, &example);
}

#[test]
fn replica_that_keeps_its_cursor_misses_a_revocation_after_a_failover() {
    let protocol = Protocol::with_faults(1).with(Flaw::KeepsCursor);
    let example = [
        FailOver,
        Connect(0),
        Connect(1),
        LogOut(1),
        Add(1),
        Read(1),
        Read(0),
    ];
    fails(protocol, AGREED, &example);
}

#[test]
fn revocation_that_redis_has_lost_must_be_added_again() {
    let protocol = Protocol::with_faults(1).with(Flaw::AddsNothingAgain);
    let example = [
        LogOut(0),
        Add(0),
        FailOver,
        Connect(0),
        Read(0),
        Connect(1),
        Read(1),
    ];
    fails(protocol, AGREED, &example);
}

#[test]
fn replica_with_a_fast_clock_must_not_remove_the_entries_of_others() {
    let protocol = Protocol::with_faults(0).with(Flaw::TrimsByOwnClock);
    let example = [LogOut(0), Add(0), Tick, Tick, Trim(1)];
    fails(protocol, AGREED, &example);
}

#[test]
fn replica_must_read_the_stream_before_it_serves() {
    let protocol = Protocol::with_faults(1).with(Flaw::ServesUnread);
    let example = [
        LogOutFails(0),
        Add(0),
        Restart(1),
        Introspect(1),
        Receive(1),
        Issue(1),
    ];
    fails(protocol, STARTED, &example);
}

#[test]
fn cached_data_from_redis_keeps_its_age() {
    let protocol = Protocol::with_faults(0).with(Flaw::ResetsAge);
    let example = [LogOut(0), Tick, Fetch(1), Tick, Issue(1)];
    fails(protocol, BOUND, &example);
}

#[test]
fn wall_clocks_alone_are_not_the_age_of_cached_data() {
    let protocol = Protocol::with_faults(0).with(Flaw::TrustsWallClocks);
    let example = [
        Tick,
        Introspect(1),
        LogOut(1),
        Tick,
        Receive(1),
        Fetch(0),
        Tick,
        Issue(0),
    ];
    fails(protocol, BOUND, &example);
}

#[test]
fn revocation_is_looked_up_again_after_the_response_of_the_iam() {
    let protocol = Protocol::with_faults(0).with(Flaw::ForgetsSecondLookUp);
    fails(protocol, REVOKED, &[Introspect(1), LogOut(1), Receive(1)]);
}
