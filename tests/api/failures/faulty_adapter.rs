//! The mock with operations that can be made to fail.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use iam_adapters::clock::ManualClock;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::resilient::Operation;
use iam_adapters::{
    Authenticated, ClientContext, Credentials, IamAdapter, IamError, Introspection, UpstreamSession,
};
use mock_iam::{Mock, MockSettings};
use test_support::client::{Response, Session};
use test_support::gateway::{TestGateway, manual_clock};
use test_support::wrapper::{Wrapper, wrapped};
use tokio::sync::watch;

use super::STALE;

const EMAIL: &str = "alice@example.test";
const PASSWORD: &str = "alice-pass";
const READ: &str = "urn:shop:orders:order:read";

/// The operations that a client's request can cause.
pub(super) const OPERATIONS: [Operation; 3] = [
    Operation::Login,
    Operation::Introspection,
    Operation::Logout,
];

/// How an operation fails.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    Error(IamError),
    Panics,
    /// Does not fail. For the keys: the IAM sends no logout tokens.
    Never,
}

/// The mock with its demo users. A probe is never answered unless a fault is set for it, so that
/// readiness shows the results of operations only.
#[derive(Debug)]
pub(super) struct Faulty {
    mock: Mock,
    script: Mutex<HashMap<Operation, Fault>>,
    probes: watch::Sender<usize>,
}

impl Faulty {
    fn fault_of(&self, operation: Operation) -> Option<Fault> {
        let script = self.script.lock().expect("the script");
        script.get(&operation).cloned()
    }

    fn play(&self, operation: Operation) -> Result<(), IamError> {
        match self.fault_of(operation) {
            None | Some(Fault::Never) => Ok(()),
            Some(Fault::Error(error)) => Err(error),
            Some(Fault::Panics) => panic!("as in the script"),
        }
    }
}

#[async_trait]
impl Wrapper for Faulty {
    fn inner(&self) -> &dyn IamAdapter {
        &self.mock
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        self.play(Operation::Login)?;
        self.mock.authenticate(credentials, client).await
    }

    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        self.play(Operation::Introspection)?;
        self.mock.introspect(session).await
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        self.play(Operation::Logout)?;
        self.mock.end_session(session).await
    }

    fn logout_audience(&self) -> Option<&str> {
        let silent = matches!(self.fault_of(Operation::Keys), Some(Fault::Never));
        (!silent).then(|| self.mock.logout_audience()).flatten()
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.play(Operation::Keys)?;
        self.mock.verification_keys().await
    }

    async fn probe(&self) -> Result<(), IamError> {
        self.probes.send_modify(|count| *count += 1);
        if self.fault_of(Operation::Probe).is_none() {
            pending::<()>().await;
        }
        self.play(Operation::Probe)
    }
}

/// A gateway in front of it.
pub(super) struct AdapterFixture {
    iam: Arc<Faulty>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) gateway: TestGateway,
}

impl AdapterFixture {
    pub(super) fn new(overrides: &[(&str, &str)]) -> Self {
        Self::with_script(HashMap::new(), overrides)
    }

    /// With faults from the start.
    pub(super) fn with_script(
        script: HashMap<Operation, Fault>,
        overrides: &[(&str, &str)],
    ) -> Self {
        let clock = manual_clock();
        let mock = Mock::connect(&MockSettings::default(), Arc::<ManualClock>::clone(&clock));
        let iam = Arc::new(Faulty {
            mock: mock.expect("the demo users"),
            script: Mutex::new(script),
            probes: watch::Sender::default(),
        });
        let unanswered = [("upstream.probe_deadline", "60s")];
        let gateway = TestGateway::with_adapter(
            wrapped(&iam),
            Arc::<ManualClock>::clone(&clock),
            &[&unanswered, overrides].concat(),
        );
        Self {
            iam,
            clock,
            gateway,
        }
    }

    /// From now on the operation fails in this way.
    pub(super) fn fails(&self, operation: Operation, fault: Fault) {
        let mut script = self.iam.script.lock().expect("the script");
        script.insert(operation, fault);
    }

    /// From now on nothing fails.
    pub(super) fn recovers(&self) {
        self.iam.script.lock().expect("the script").clear();
    }

    /// A logout token that ends all sessions of the user.
    pub(super) fn logout_token(&self) -> String {
        let directory = self.iam.mock.directory();
        let users = directory.users();
        let alice = users.iter().find(|user| user.email() == EMAIL);
        let subject = alice.expect("a demo user").subject();
        let token = directory.logout_token(Some(subject), None);
        token.expect("a signature")
    }

    /// The number of sessions that are active at the IAM.
    pub(super) fn active_sessions(&self) -> usize {
        self.iam.mock.directory().active_session_count()
    }

    /// Waits until the IAM has been probed.
    pub(super) async fn is_probed(&self) {
        let mut probes = self.iam.probes.subscribe();
        let once = probes.wait_for(|count| *count > 0).await;
        once.expect("the IAM is there");
    }

    pub(super) async fn log_in(&self) -> Response {
        self.gateway.log_in(EMAIL, &PASSWORD.into()).await
    }

    pub(super) async fn exchange(&self, session: &Session) -> Response {
        self.gateway.exchange(session, READ).await
    }

    /// The response to the request that calls this operation, which fails in this way.
    pub(super) async fn call_with_fault(&self, operation: Operation, fault: Fault) -> Response {
        self.recovers();
        let session = self.log_in().await.session();
        self.clock.advance(STALE);
        self.fails(operation, fault);
        match operation {
            Operation::Login => self.log_in().await,
            Operation::Introspection => self.exchange(&session).await,
            Operation::Logout => self.gateway.log_out(&session).await,
            Operation::Keys | Operation::Probe | Operation::Permissions => {
                panic!("no request of a client causes this call")
            }
        }
    }
}
