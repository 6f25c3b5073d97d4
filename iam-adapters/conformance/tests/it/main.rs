//! The suite judged: the mock passes, and whoever breaks a promise is caught at it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::{Clock, SystemClock};
use iam_adapters::error::IamError;
use iam_adapters::resilient::{Circuit, Limit, Limits, Observer, Operation, ResilientAdapter};
use iam_adapters::{Capabilities, PermissionAge, SessionLocation};
use iam_conformance::{PROMISES, all, judge};
use mock_iam::MockFixture;

#[cfg(test)]
mod directory;
#[cfg(test)]
mod flawed;

use directory::{CAPABILITIES, Directory};
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
        fn circuit(&self, _: Operation, _: Circuit) {}
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
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let silent: Arc<dyn Observer> = Arc::new(Silent);
    let guarded = |mock| ResilientAdapter::new(Arc::new(mock), limits, &clock, &silent);
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

#[tokio::test]
async fn directory_passes_with_the_capabilities_that_it_has() {
    let directory = |mock| Directory {
        mock,
        capabilities: CAPABILITIES,
    };
    all(&MockFixture::seen_through(directory)).await;
}

#[tokio::test]
async fn directory_is_caught_at_each_capability_that_it_lacks() {
    for (capabilities, promise) in [
        (
            Capabilities {
                sessions: SessionLocation::Iam,
                ..CAPABILITIES
            },
            "an_ended_session_is_inactive",
        ),
        (
            Capabilities {
                permissions: PermissionAge::Login,
                ..CAPABILITIES
            },
            "permissions_are_those_of_now",
        ),
        (
            Capabilities {
                back_channel_logout: true,
                ..CAPABILITIES
            },
            "capabilities_agree_with_the_logout_audience",
        ),
    ] {
        let directory = |mock| Directory { mock, capabilities };
        let broken = judge(&MockFixture::seen_through(directory)).await;
        let broken: Vec<_> = broken.into_iter().map(|(promise, _)| promise).collect();
        assert!(broken.contains(&promise), "{capabilities:?}: {broken:?}");
    }
}

#[test]
fn every_promise_that_is_written_is_tried() {
    let written: BTreeSet<_> = [
        include_str!("../../src/administration.rs"),
        include_str!("../../src/identity.rs"),
        include_str!("../../src/logins.rs"),
        include_str!("../../src/logout_tokens.rs"),
        include_str!("../../src/sessions.rs"),
    ]
    .iter()
    .flat_map(|room| room.split("\npub async fn ").skip(1))
    .filter_map(|rest| rest.split('(').next())
    .collect();
    let tried: BTreeSet<_> = PROMISES.iter().map(|p| p.name).collect();
    assert_eq!(written, tried);
    assert_eq!(tried.len(), PROMISES.len());
}
