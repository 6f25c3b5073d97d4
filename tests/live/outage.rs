//! An IAM is killed and started again under running gateways.

use iam_adapters::UpstreamSession;
use iam_conformance::Account;
use secrecy::SecretString;
use test_support::client::{Client, Session};
use test_support::gateway::TestGateway;
use test_support::keys::TestKeys;
use test_support::suite::{IamFixture, READ, session_of};

use crate::administrator::PermissionsFrom;
use crate::fixture::LiveFixture;
use crate::keycloak::{Instance, Killed};
use crate::process::{Process, borrowed};
use crate::version::Version;

/// Without probes, readiness shows the results of the test's requests only.
const NO_PROBES: (&str, &str) = ("upstream.probe_interval", "1h");
const MANY_PROBES: (&str, &str) = ("upstream.probe_interval", "50ms");

/// An IAM that a test kills and starts again with the same data, at the same address.
pub(crate) trait RestartableIam {
    fn iam(&self) -> &IamFixture;

    /// The settings of a gateway in front of it.
    fn settings(&self) -> Vec<(String, String)>;

    /// A gateway in front of it.
    fn gateway(&self, more: &[(&str, &str)]) -> TestGateway;

    /// Whether the IAM itself reports a session as active.
    async fn is_active(&self, session: &UpstreamSession) -> bool;

    /// Whether sessions survive a restart.
    fn keeps_sessions(&self) -> bool;

    /// Kills it without a graceful shutdown.
    fn kill(&mut self);

    async fn start_again(&mut self);
}

struct RestartableKeycloak {
    live: LiveFixture,
    running: Option<Instance>,
    killed: Option<Killed>,
}

impl RestartableIam for RestartableKeycloak {
    fn iam(&self) -> &IamFixture {
        &self.live.iam
    }

    fn settings(&self) -> Vec<(String, String)> {
        let settings = self.live.keycloak.settings();
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        settings.to_vec()
    }

    fn gateway(&self, more: &[(&str, &str)]) -> TestGateway {
        self.live.gateway(more)
    }

    async fn is_active(&self, session: &UpstreamSession) -> bool {
        let introspection = self.live.keycloak.introspect(&session.secret).await;
        introspection["active"].as_bool().expect("a boolean")
    }

    fn keeps_sessions(&self) -> bool {
        Version::of_environment().sessions_survive_restart
    }

    fn kill(&mut self) {
        self.killed = self.running.take().map(Instance::kill);
    }

    async fn start_again(&mut self) {
        let instance = self.killed.take().expect("it was killed").start_again();
        let instance = instance.await;
        assert_eq!(instance.keycloak.url, self.live.keycloak.url);
        self.running = Some(instance);
    }
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn outage_of_keycloak_is_reported_as_such_and_ends_without_a_restart() {
    let instance = Instance::start().await;
    let live = LiveFixture::with_keycloak(&instance.keycloak, PermissionsFrom::Client).await;
    let mut keycloak = RestartableKeycloak {
        live,
        running: Some(instance),
        killed: None,
    };
    outage_is_reported_as_such_and_ends_without_a_restart(&mut keycloak).await;
}

/// One test, because starting a Keycloak takes most of the time.
pub(crate) async fn outage_is_reported_as_such_and_ends_without_a_restart(
    server: &mut impl RestartableIam,
) {
    let keys = TestKeys::new();
    let settings = [&keys.settings()[..], &[NO_PROBES]].concat();
    let user = server.iam().user(&[READ]).await;
    let gateway = server.gateway(&settings);
    let kept = session_of(&gateway, &user).await;
    let left = session_of(&gateway, &user).await;
    assert_eq!(gateway.exchange(&kept, READ).await.token().scope, READ);

    server.kill();
    what_is_fresh_goes_on_being_served(server.iam(), &gateway, &kept).await;
    what_needs_the_iam_fails_as_a_passing_fault(&gateway, &user, &kept).await;
    a_logout_holds_here_at_once(&gateway, &left).await;
    let late = server.gateway(&settings);
    what_needs_the_iam_fails_as_a_passing_fault(&late, &user, &kept).await;
    let mut watching = watching(server);
    watching.program.logged("calls to the IAM fail");
    is_ready_but_degraded(&watching.client).await;

    server.start_again().await;
    watching.program.logged("calls to the IAM succeed again");
    assert_eq!(watching.client.ready().await.json()["status"], "ready");
    for gateway in [&gateway, &late] {
        everything_works_again(gateway, &user).await;
        let survives = server.keeps_sessions();
        assert_eq!(server.is_active(&keys.unsealed(&kept)).await, survives);
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
    assert!(!server.is_active(&keys.unsealed(&left)).await);
}

async fn what_is_fresh_goes_on_being_served(
    iam: &IamFixture,
    gateway: &TestGateway,
    session: &Session,
) {
    iam.advance(59);
    assert_eq!(gateway.exchange(session, READ).await.token().scope, READ);
    iam.advance(1);
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
fn watching(server: &impl RestartableIam) -> Process {
    Process::start(&[&borrowed(&server.settings())[..], &[MANY_PROBES]].concat())
}
