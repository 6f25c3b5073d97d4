//! A thousand random users and requests: what the gateway grants is what Keycloak itself reports.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use iam_conformance::Account;
use test_support::client::Session;
use test_support::gateway::TestGateway;
use test_support::rng::Rng;
use test_support::suite::session_of;

use crate::fixture::{LiveFixture, PERMISSIONS_ALONE};

mod role_sources;

use role_sources::{Change, RoleSources};

const USERS: usize = 25;
const ROUNDS: usize = 20;
const REQUESTS: usize = 2;

/// A user with a session.
struct TestUser {
    account: Account,
    session: Session,
}

/// The changes to a user in one round, and the scopes requested afterwards.
struct UserRound {
    changes: Vec<Change>,
    scopes: Vec<String>,
}

/// One request, the roles of the user at Keycloak, and the granted scope.
struct Case {
    requested: String,
    held: BTreeSet<String>,
    granted: String,
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn granted_scope_equals_the_roles_of_keycloak_in_a_thousand_random_cases() {
    let mut rng = Rng::from_env("RANDOM_SCOPES_SEED");
    println!("RANDOM_SCOPES_SEED={}", rng.seed());
    let fixture = LiveFixture::new().await;
    let gateway = fixture.gateway(&[PERMISSIONS_ALONE]);
    let sources = RoleSources::new(&fixture, &mut rng).await;
    let mut users = Vec::new();
    for _ in 0..USERS {
        let account = fixture.user(&[]).await;
        let session = session_of(&gateway, &account).await;
        users.push(TestUser { account, session });
    }
    let mut cases = Vec::new();
    for _ in 0..ROUNDS {
        cases.extend(round(&fixture, &gateway, &sources, &users, &mut rng).await);
    }
    for Case {
        requested,
        held,
        granted,
    } in &cases
    {
        let right = intersection(requested, held);
        assert_eq!(
            *granted,
            right,
            "seed {}: {requested:?} of {held:?}",
            rng.seed()
        );
    }
    is_a_fair_sample(&cases);
}

async fn round(
    fixture: &LiveFixture,
    gateway: &TestGateway,
    sources: &RoleSources,
    users: &[TestUser],
    rng: &mut Rng,
) -> Vec<Case> {
    // All random numbers are drawn first, so that the run depends on the seed only.
    let rounds: Vec<_> = users.iter().map(|_| sources.user_round(rng)).collect();
    let shared_changes = sources.shared_changes(rng);
    sources.apply(fixture, None, &shared_changes).await;
    let changes = users.iter().zip(&rounds).map(async |(user, user_round)| {
        for change in &user_round.changes {
            let user = Some(&user.account.subject);
            sources.apply(fixture, user, change).await;
        }
    });
    join_all(changes).await;
    fixture.outlive_freshness();
    let cases = users.iter().zip(rounds).map(async |(user, user_round)| {
        let subject = &user.account.subject;
        let held = fixture.administrator.effective_permissions(subject).await;
        let exchanges = user_round.scopes.into_iter().map(async |requested| {
            let token = gateway.exchange(&user.session, &requested).await.token();
            (requested, token.scope)
        });
        let exchanges = join_all(exchanges).await.into_iter();
        let cases = exchanges.map(|(requested, granted)| Case {
            requested,
            held: held.clone(),
            granted,
        });
        cases.collect::<Vec<_>>()
    });
    join_all(cases).await.into_iter().flatten().collect()
}

/// Independent of the gateway's implementation.
fn intersection(requested: &str, held: &BTreeSet<String>) -> String {
    let mut granted: Vec<&str> = Vec::new();
    for name in requested.split_whitespace() {
        if held.contains(name) && !granted.contains(&name) {
            granted.push(name);
        }
    }
    granted.join(" ")
}

/// Whether every kind of case occurred.
fn is_a_fair_sample(cases: &[Case]) {
    assert_eq!(cases.len(), USERS * ROUNDS * REQUESTS);
    let often = |what: &str, wanted: &dyn Fn(&Case) -> bool| {
        let count = cases.iter().filter(|case| wanted(case)).count();
        assert!(count >= 50, "only {count} cases with {what}");
    };
    often("something granted", &|case| !case.granted.is_empty());
    often("nothing granted", &|case| case.granted.is_empty());
    often("a name left out", &|case| {
        let mut names = case.requested.split(' ');
        names.any(|name| !case.held.contains(name))
    });
    often("a name held and repeated", &|case| {
        let mut names = case.requested.split(' ');
        names.any(|name| case.held.contains(name) && case.requested.matches(name).count() > 1)
    });
    often("more held than requested for", &|case| {
        case.held.iter().any(|name| !case.requested.contains(name))
    });
}
