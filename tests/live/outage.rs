//! Keycloak is killed and started again under running gateways.

use iam_conformance::Account;
use secrecy::SecretString;
use test_support::client::{Client, Session};
use test_support::gateway::TestGateway;
use test_support::keys::TestKeys;
use test_support::suite::{READ, session_of};

use crate::administrator::PermissionsFrom;
use crate::fixture::LiveFixture;
use crate::keycloak::{Instance, Keycloak};
use crate::process::Process;
use crate::version::Version;

/// Without probes, readiness shows the results of the test's requests only.
const NO_PROBES: (&str, &str) = ("upstream.probe_interval", "1h");
const MANY_PROBES: (&str, &str) = ("upstream.probe_interval", "50ms");

/// One test, because starting a Keycloak takes most of the time.
#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn outage_of_keycloak_is_reported_as_such_and_ends_without_a_restart() {
    let keys = TestKeys::new();
    let settings = [&keys.settings()[..], &[NO_PROBES]].concat();
    let instance = Instance::start().await;
    let keycloak = instance.keycloak.clone();
    let fixture = LiveFixture::with_keycloak(&keycloak, PermissionsFrom::Client).await;
    let user = fixture.user(&[READ]).await;
    let gateway = fixture.gateway(&settings);
    let kept = session_of(&gateway, &user).await;
    let left = session_of(&gateway, &user).await;
    assert_eq!(gateway.exchange(&kept, READ).await.token().scope, READ);

    let killed = instance.kill();
    what_is_fresh_goes_on_being_served(&fixture, &gateway, &kept).await;
    what_needs_the_iam_fails_as_a_passing_fault(&gateway, &user, &kept).await;
    a_logout_holds_here_at_once(&gateway, &left).await;
    let late = fixture.gateway(&settings);
    what_needs_the_iam_fails_as_a_passing_fault(&late, &user, &kept).await;
    let mut watching = watching(&keycloak);
    watching.program.logged("calls to the IAM fail");
    is_ready_but_degraded(&watching.client).await;

    let instance = killed.start_again().await;
    assert_eq!(instance.keycloak.url, keycloak.url);
    watching.program.logged("calls to the IAM succeed again");
    assert_eq!(watching.client.ready().await.json()["status"], "ready");
    for gateway in [&gateway, &late] {
        everything_works_again(gateway, &user).await;
        let survives = Version::of_environment().sessions_survive_restart;
        assert_eq!(is_active(&keycloak, &keys, &kept).await, survives);
        let answer = gateway.exchange(&kept, READ).await;
        if survives {
            assert_eq!(answer.token().scope, READ);
        } else {
            answer.is_error(401, "invalid_grant");
        }
    }
    let answer = gateway.exchange(&left, READ).await;
    answer.is_error(401, "invalid_grant");
    assert_eq!(gateway.log_out(&left).await.status, 200);
    assert!(!is_active(&keycloak, &keys, &left).await);
}

async fn what_is_fresh_goes_on_being_served(
    fixture: &LiveFixture,
    gateway: &TestGateway,
    session: &Session,
) {
    fixture.iam.advance(59);
    assert_eq!(gateway.exchange(session, READ).await.token().scope, READ);
    fixture.iam.advance(1);
}

async fn what_needs_the_iam_fails_as_a_passing_fault(
    gateway: &TestGateway,
    user: &Account,
    session: &Session,
) {
    let wrong = SecretString::from("Aa1!not-the-password");
    for answer in [
        gateway.exchange(session, READ).await,
        gateway.log_in(&user.email, &user.password).await,
        gateway.log_in(&user.email, &wrong).await,
    ] {
        answer.is_error(500, "temporarily_unavailable");
        let pause = answer.header("retry-after").parse::<u64>();
        assert!(pause.expect("seconds") > 0);
    }
    is_ready_but_degraded(gateway).await;
}

async fn a_logout_holds_here_at_once(gateway: &TestGateway, session: &Session) {
    for _ in 0..2 {
        let answer = gateway.log_out(session).await;
        answer.is_error(500, "temporarily_unavailable");
        let answer = gateway.exchange(session, READ).await;
        answer.is_error(401, "invalid_grant");
    }
}

async fn is_ready_but_degraded(gateway: &Client) {
    let ready = gateway.ready().await;
    assert_eq!(ready.status, 200);
    let report = ready.json();
    assert_eq!(report["status"], "degraded", "{report}");
    assert_eq!(report["reasons"][0]["code"], "unreachable", "{report}");
}

async fn everything_works_again(gateway: &TestGateway, user: &Account) {
    let wrong = SecretString::from("Aa1!not-the-password");
    let answer = gateway.log_in(&user.email, &wrong).await;
    answer.is_error(401, "invalid_grant");
    let session = session_of(gateway, user).await;
    assert_eq!(gateway.exchange(&session, READ).await.token().scope, READ);
    assert_eq!(gateway.ready().await.json()["status"], "ready");
    assert_eq!(gateway.log_out(&session).await.status, 200);
    let answer = gateway.exchange(&session, READ).await;
    answer.is_error(401, "invalid_grant");
}

/// A gateway that probes often, and logs the results.
fn watching(keycloak: &Keycloak) -> Process {
    Process::start(&[&keycloak.settings()[..], &[MANY_PROBES]].concat())
}

async fn is_active(keycloak: &Keycloak, keys: &TestKeys, session: &Session) -> bool {
    let upstream = keys.unsealed(session);
    let introspection = keycloak.introspect(&upstream.secret).await;
    introspection["active"].as_bool().expect("a boolean")
}
