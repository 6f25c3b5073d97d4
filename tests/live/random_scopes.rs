//! A thousand random users and requests: what the gateway grants is what the IAM itself reports.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use iam_adapters::PermissionAge;
use iam_conformance::Account;
use test_support::client::Session;
use test_support::gateway::TestGateway;
use test_support::rng::Rng;
use test_support::suite::{IamFixture, session_of};

use crate::fixture::{FRESHNESS, LiveFixture, PERMISSIONS_ALONE};

mod role_sources;

use role_sources::RoleSources;

const USERS: usize = 25;
const ROUNDS: usize = 20;
const REQUESTS: usize = 2;
/// The most scopes in one request.
const SCOPES_MAX: usize = 9;

/// What the permissions of random users are made of at an IAM.
pub(crate) trait PermissionSources {
    /// A change by an administrator.
    type Change;

    /// The names that can be granted.
    fn names(&self) -> Vec<String>;

    /// Names that cannot be granted, some of which the IAM has.
    fn unavailable(&self) -> &[String];

    /// Changes of one user.
    fn user_changes(&self, rng: &mut Rng) -> Vec<Self::Change>;

    /// A change that affects many users at once, if the IAM has such.
    fn shared_change(&self, rng: &mut Rng) -> Option<Self::Change>;

    /// Makes a change, of this user or of many.
    async fn apply(&self, user: Option<&Account>, change: &Self::Change);

    /// The permissions of a user as the IAM computes them.
    async fn held(&self, user: &Account) -> BTreeSet<String>;
}

/// A user with a session.
struct TestUser {
    account: Account,
    session: Session,
}

/// The changes to a user in one round, and the scopes requested afterwards.
struct UserRound<C> {
    changes: Vec<C>,
    scopes: Vec<String>,
}

/// One request, the permissions of the user at the IAM, and the granted scope.
struct Case {
    requested: String,
    held: BTreeSet<String>,
    granted: String,
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn granted_scope_equals_the_roles_of_keycloak_in_a_thousand_random_cases() {
    let mut rng = random_numbers();
    let fixture = LiveFixture::new().await;
    let gateway = fixture.gateway(&[PERMISSIONS_ALONE]);
    let sources = RoleSources::new(&fixture, &mut rng).await;
    granted_scopes_equal_the_permissions(&fixture.iam, &gateway, &sources, &mut rng).await;
}

/// Random numbers whose seed is printed.
pub(crate) fn random_numbers() -> Rng {
    let rng = Rng::from_env("RANDOM_SCOPES_SEED");
    println!("RANDOM_SCOPES_SEED={}", rng.seed());
    rng
}

/// A thousand cases. If permissions are those of the login, users log in again in each round.
pub(crate) async fn granted_scopes_equal_the_permissions<S: PermissionSources>(
    iam: &IamFixture,
    gateway: &TestGateway,
    sources: &S,
    rng: &mut Rng,
) {
    let mut users = Vec::new();
    for _ in 0..USERS {
        let account = iam.user(&[]).await;
        let session = session_of(gateway, &account).await;
        users.push(TestUser { account, session });
    }
    let mut cases = Vec::new();
    for _ in 0..ROUNDS {
        cases.extend(round(iam, gateway, sources, &mut users, rng).await);
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

async fn round<S: PermissionSources>(
    iam: &IamFixture,
    gateway: &TestGateway,
    sources: &S,
    users: &mut [TestUser],
    rng: &mut Rng,
) -> Vec<Case> {
    // All random numbers are drawn first, so that the run depends on the seed only.
    let rounds: Vec<_> = users
        .iter()
        .map(|_| UserRound {
            changes: sources.user_changes(rng),
            scopes: (0..REQUESTS).map(|_| scope(sources, rng)).collect(),
        })
        .collect();
    if let Some(change) = sources.shared_change(rng) {
        sources.apply(None, &change).await;
    }
    let changes = users.iter().zip(&rounds).map(async |(user, user_round)| {
        for change in &user_round.changes {
            sources.apply(Some(&user.account), change).await;
        }
    });
    join_all(changes).await;
    let age = iam.administrator.adapter().capabilities().permissions;
    if age == PermissionAge::Login {
        let logins = users.iter_mut().map(async |user| {
            user.session = session_of(gateway, &user.account).await;
        });
        join_all(logins).await;
    }
    iam.advance(FRESHNESS);
    let cases = users.iter().zip(rounds).map(async |(user, user_round)| {
        let held = sources.held(&user.account).await;
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

/// A requested scope.
fn scope(sources: &impl PermissionSources, rng: &mut Rng) -> String {
    let mut requested: Vec<String> = Vec::new();
    for _ in 0..rng.index(SCOPES_MAX + 1) {
        let next = match rng.index(6) {
            0 if !requested.is_empty() => rng.one_of(&requested).clone(),
            1 => rng.one_of(sources.unavailable()).clone(),
            _ => rng.one_of(&sources.names()).clone(),
        };
        requested.push(next);
    }
    requested.join(" ")
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
