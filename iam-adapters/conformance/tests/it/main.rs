//! Tests of the suite: the mock passes, and each defective adapter fails the right check.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::SystemClock;
use iam_adapters::resilient::CallLimit;
use iam_adapters::{Capabilities, IamAdapter, PermissionAge, SessionLocation};
use iam_conformance::{CHECKS, all, run_all};
use test_support::mock_fixture::MockFixture;
use test_support::resilient::resilient;
use test_support::wrapper::wrapped;

#[cfg(test)]
mod directory;
#[cfg(test)]
mod flawed;

use directory::{CAPABILITIES, Directory};
use flawed::{Flaw, Flawed};

#[tokio::test]
async fn mock_passes_every_check() {
    all(&MockFixture::wrapped(|mock| Arc::new(mock))).await;
}

#[tokio::test]
async fn decorator_of_the_mock_passes_every_check() {
    let limit = CallLimit {
        deadline: Duration::from_secs(60),
        concurrency: 2,
    };
    let guarded = move |mock| -> Arc<dyn IamAdapter> {
        let clock = Arc::new(SystemClock::default());
        Arc::new(resilient(Arc::new(mock), limit, clock))
    };
    all(&MockFixture::wrapped(guarded)).await;
}

#[tokio::test]
async fn defective_adapter_fails_the_check_of_its_defect() {
    let mut failed = BTreeSet::new();
    for (flaw, checks) in flawed::FLAWS {
        let fixture = MockFixture::wrapped(move |mock| wrapped(&Flawed::new(mock, *flaw)));
        let failures: BTreeSet<_> = run_all(&fixture)
            .await
            .into_iter()
            .map(|(p, _)| p)
            .collect();
        for check in *checks {
            assert!(failures.contains(check), "{flaw:?} only fails {failures:?}");
            failed.insert(*check);
        }
    }
    let never: Vec<_> = CHECKS
        .iter()
        .map(|p| p.name)
        .filter(|name| !failed.contains(name))
        .collect();
    assert!(never.is_empty(), "no flaw fails {never:?}");
}

#[tokio::test]
#[should_panic(expected = "ended_session_is_inactive: a session is active")]
async fn all_panics_with_the_failed_checks() {
    all(&MockFixture::wrapped(|mock| {
        wrapped(&Flawed::new(mock, Flaw::EndsNothing))
    }))
    .await;
}

#[tokio::test]
async fn directory_passes_with_the_capabilities_that_it_has() {
    all(&MockFixture::wrapped(|mock| {
        wrapped(&Directory::new(mock, CAPABILITIES))
    }))
    .await;
}

#[tokio::test]
async fn directory_fails_the_check_of_each_capability_that_it_lacks() {
    for (capabilities, check) in [
        (
            Capabilities {
                sessions: SessionLocation::Iam,
                ..CAPABILITIES
            },
            "ended_session_is_inactive",
        ),
        (
            Capabilities {
                permissions: PermissionAge::Login,
                ..CAPABILITIES
            },
            "permissions_have_the_stated_age",
        ),
        (
            Capabilities {
                back_channel_logout: true,
                ..CAPABILITIES
            },
            "capabilities_agree_with_the_logout_audience",
        ),
        (
            Capabilities {
                one_time_password: true,
                ..CAPABILITIES
            },
            "one_time_password_is_required_and_accepted_once",
        ),
    ] {
        let directory =
            MockFixture::wrapped(move |mock| wrapped(&Directory::new(mock, capabilities)));
        let failures = run_all(&directory).await;
        let failures: Vec<_> = failures.into_iter().map(|(check, _)| check).collect();
        assert!(failures.contains(&check), "{capabilities:?}: {failures:?}");
    }
}

#[test]
fn every_check_function_is_in_the_list() {
    let functions: BTreeSet<_> = [
        include_str!("../../src/administration.rs"),
        include_str!("../../src/claims.rs"),
        include_str!("../../src/identity.rs"),
        include_str!("../../src/logins.rs"),
        include_str!("../../src/logout_tokens.rs"),
        include_str!("../../src/sessions.rs"),
    ]
    .iter()
    .flat_map(|file| file.split("\npub async fn ").skip(1))
    .filter_map(|rest| rest.split('(').next())
    .collect();
    let listed: BTreeSet<_> = CHECKS.iter().map(|p| p.name).collect();
    assert_eq!(functions, listed);
    assert_eq!(listed.len(), CHECKS.len());
}
