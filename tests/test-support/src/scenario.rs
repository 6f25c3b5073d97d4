//! A gateway in front of the mock with its demo users. Operations of the IAM fail as the test sets it, and logins
//! that reach the IAM are recorded.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::resilient::Operation;
use iam_adapters::{
    Authenticated, ClientContext, Credentials, IamAdapter, IamError, Introspection, UpstreamSession,
};
use mock_iam::ManualClock;
use mock_iam::{Mock, MockSettings};
use serde_json::json;
use tokio::sync::watch;

use crate::client::{Response, Session};
use crate::endpoints::LOGIN;
use crate::gateway::TestGateway;
use crate::wrapper::{Wrapper, wrapped};

/// The email address of a demo user.
pub const EMAIL: &str = "alice@example.test";
/// The password of this user.
pub const PASSWORD: &str = "alice-pass";
/// A permission of this user.
const READ: &str = "urn:shop:orders:order:read";

/// The time of the clock at the start. A whole second, so that rounded times are predictable.
const START: Duration = Duration::from_secs(1_800_000_000);

/// Longer than the default freshness.
pub const STALE: Duration = Duration::from_secs(60);

/// The operations that a client's request can cause.
pub const OPERATIONS: [Operation; 3] = [
    Operation::Login,
    Operation::Introspection,
    Operation::Logout,
];

/// How an operation fails.
#[derive(Debug, Clone)]
pub enum Fault {
    /// With this error.
    Error(IamError),
    /// By a panic of the adapter.
    Panics,
    /// Does not fail. For the keys: the IAM sends no logout tokens.
    Never,
}

/// The mock with its demo users. A probe is never answered unless a fault is set for it, so that
/// readiness shows the results of operations only.
#[derive(Debug)]
struct ScriptedMock {
    mock: Mock,
    script: Mutex<HashMap<Operation, Fault>>,
    logins: Mutex<Vec<Option<String>>>,
    probes: watch::Sender<usize>,
}

impl ScriptedMock {
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
impl Wrapper for ScriptedMock {
    fn inner(&self) -> &dyn IamAdapter {
        &self.mock
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        let address = client.address.map(|address| address.to_string());
        self.logins.lock().expect("the logins").push(address);
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

/// The gateway, its IAM, and the clock of both.
#[derive(Debug)]
pub struct Scenario {
    iam: Arc<ScriptedMock>,
    /// Runs only when a test advances it.
    pub clock: Arc<ManualClock>,
    /// The gateway.
    pub gateway: TestGateway,
}

impl Scenario {
    /// With these settings.
    pub fn new(overrides: &[(&str, &str)]) -> Self {
        Self::with_faults(HashMap::new(), overrides)
    }

    /// With faults from the start.
    pub fn with_faults(script: HashMap<Operation, Fault>, overrides: &[(&str, &str)]) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let mock = Mock::connect(&MockSettings::default(), Arc::<ManualClock>::clone(&clock));
        let iam = Arc::new(ScriptedMock {
            mock: mock.expect("the demo users"),
            script: Mutex::new(script),
            logins: Mutex::default(),
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
    pub fn fails(&self, operation: Operation, fault: Fault) {
        let mut script = self.iam.script.lock().expect("the script");
        script.insert(operation, fault);
    }

    /// From now on nothing fails.
    pub fn recovers(&self) {
        self.iam.script.lock().expect("the script").clear();
    }

    /// The client addresses of the logins that reached the IAM since the last call.
    pub fn take_logins(&self) -> Vec<Option<String>> {
        std::mem::take(&mut *self.iam.logins.lock().expect("the logins"))
    }

    /// A logout token that ends all sessions of the user.
    pub fn logout_token(&self) -> String {
        let directory = self.iam.mock.directory();
        let users = directory.users();
        let alice = users.iter().find(|user| user.email() == EMAIL);
        let subject = alice.expect("a demo user").subject();
        let token = directory.logout_token(Some(subject), None);
        token.expect("a signature")
    }

    /// The number of sessions that are active at the IAM.
    pub fn active_sessions(&self) -> usize {
        self.iam.mock.directory().active_session_count()
    }

    /// Waits until the IAM has been probed.
    pub async fn is_probed(&self) {
        let mut probes = self.iam.probes.subscribe();
        let once = probes.wait_for(|count| *count > 0).await;
        once.expect("the IAM is there");
    }

    /// Logs the demo user in.
    pub async fn log_in(&self) -> Response {
        self.log_in_as(EMAIL, PASSWORD).await
    }

    /// Logs in with these credentials.
    pub async fn log_in_as(&self, email: &str, password: &str) -> Response {
        self.log_in_with(&[], email, password).await
    }

    /// Logs in with these headers.
    pub async fn log_in_with(
        &self,
        headers: &[(&str, &str)],
        email: &str,
        password: &str,
    ) -> Response {
        let body = json!({ "email": email, "password": password });
        self.gateway.post(LOGIN, headers, body.to_string()).await
    }

    /// Exchanges a session of the demo user.
    pub async fn exchange(&self, session: &Session) -> Response {
        self.gateway.exchange(session, READ).await
    }

    /// Logs a session out.
    pub async fn log_out(&self, session: &Session) -> Response {
        self.gateway.log_out(session).await
    }

    /// The response to the request that calls this operation, which fails in this way.
    pub async fn call_with_fault(&self, operation: Operation, fault: Fault) -> Response {
        self.recovers();
        let session = self.log_in().await.session();
        self.clock.advance(STALE);
        self.fails(operation, fault);
        match operation {
            Operation::Login => self.log_in().await,
            Operation::Introspection => self.exchange(&session).await,
            Operation::Logout => self.log_out(&session).await,
            Operation::Keys | Operation::Probe | Operation::Permissions => {
                panic!("no request of a client causes this call")
            }
        }
    }
}
