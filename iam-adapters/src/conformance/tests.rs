//! The suite judged: the mock passes, and whoever breaks a promise is caught at it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::error::IamError;
use crate::guarded::{Guarded, Limit, Limits, Observer, Operation};
use crate::mock::fixture::MockFixture;

mod flawed;

use flawed::{Flaw, Flawed};

#[tokio::test]
async fn the_mock_keeps_every_promise() {
    all(&MockFixture::seen_through(|mock| mock)).await;
}

#[tokio::test]
async fn the_guard_keeps_every_promise_of_what_it_guards() {
    #[derive(Debug)]
    struct Silent;
    impl Observer for Silent {
        fn called(&self, _: Operation, _: Result<(), &IamError>, _: Duration) {}
    }
    let limit = Limit {
        deadline: Duration::from_secs(60),
        concurrency: 2,
    };
    let limits = Limits {
        login: limit,
        introspection: limit,
        logout: limit,
        keys: limit,
        probe: limit,
    };
    let guarded = |mock| Guarded::new(Arc::new(mock), limits, Arc::new(Silent));
    all(&MockFixture::seen_through(guarded)).await;
}

#[tokio::test]
async fn an_adapter_that_breaks_a_promise_is_caught_at_it() {
    let mut caught = BTreeSet::new();
    for (flaw, promises) in flawed::FLAWS {
        let fixture = MockFixture::seen_through(|mock| Flawed::new(mock, *flaw));
        let broken: BTreeSet<_> = judge(&fixture).await.into_iter().map(|(p, _)| p).collect();
        for promise in *promises {
            assert!(broken.contains(promise), "{flaw:?} only breaks {broken:?}");
            caught.insert(*promise);
        }
    }
    let never: Vec<_> = PROMISES
        .iter()
        .map(|p| p.name)
        .filter(|name| !caught.contains(name))
        .collect();
    assert!(never.is_empty(), "no flaw breaks {never:?}");
}

#[tokio::test]
#[should_panic(expected = "an_ended_session_is_inactive: a session is active")]
async fn all_panics_with_the_promises_that_are_broken() {
    all(&MockFixture::seen_through(|mock| {
        Flawed::new(mock, Flaw::EndsNothing)
    }))
    .await;
}

#[test]
fn every_promise_that_is_written_is_tried() {
    let written: BTreeSet<_> = [
        include_str!("administration.rs"),
        include_str!("identity.rs"),
        include_str!("logins.rs"),
        include_str!("logout_tokens.rs"),
        include_str!("sessions.rs"),
    ]
    .iter()
    .flat_map(|room| room.split("\npub async fn ").skip(1))
    .filter_map(|rest| rest.split('(').next())
    .collect();
    let tried: BTreeSet<_> = PROMISES.iter().map(|p| p.name).collect();
    assert_eq!(written, tried);
    assert_eq!(tried.len(), PROMISES.len());
}
