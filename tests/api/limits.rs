//! Limits of login attempts, and which attempts reach the IAM.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use iam_adapters::clock::ManualClock;
use iam_adapters::{Authenticated, ClientContext, Credentials, IamAdapter, IamError};
use mock_iam::{Mock, MockSettings};
use secrecy::ExposeSecret as _;
use serde_json::json;
use test_support::client::Response;
use test_support::endpoints::LOGIN;
use test_support::gateway::TestGateway;
use test_support::wrapper::{Wrapper, wrapped};

mod answers;
mod forwarding;
mod hostile;
mod operator;

const ALICE: &str = "alice@example.test";
const RIGHT: &str = "alice-pass";

/// The mock with its demo users, and every login that reached it: email address, password, client.
#[derive(Debug)]
struct RecordingIam {
    mock: Mock,
    logins: Mutex<Vec<(String, String, Option<String>)>>,
}

#[async_trait]
impl Wrapper for RecordingIam {
    fn inner(&self) -> &dyn IamAdapter {
        &self.mock
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        let password = credentials.password().expose_secret();
        let client_address = client.address.map(|address| address.to_string());
        self.logins.lock().unwrap().push((
            credentials.email().to_owned(),
            password.to_owned(),
            client_address,
        ));
        self.mock.authenticate(credentials, client).await
    }
}

/// A gateway in front of a recording IAM, and the clock of both.
struct LimitFixture {
    gateway: TestGateway,
    iam: Arc<RecordingIam>,
    clock: Arc<ManualClock>,
}

impl LimitFixture {
    fn new(overrides: &[(&str, &str)]) -> Self {
        let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
        let mock = Mock::connect(&MockSettings::default(), Arc::<ManualClock>::clone(&clock));
        let iam = Arc::new(RecordingIam {
            mock: mock.expect("demo users"),
            logins: Mutex::default(),
        });
        let same = Arc::<ManualClock>::clone(&clock);
        let gateway = TestGateway::with_adapter(wrapped(&iam), same, overrides);
        Self {
            gateway,
            iam,
            clock,
        }
    }

    async fn log_in(&self, email: &str, password: &str) -> Response {
        self.log_in_with(&[], email, password).await
    }

    async fn log_in_with(&self, headers: &[(&str, &str)], email: &str, password: &str) -> Response {
        let body = json!({ "email": email, "password": password });
        self.gateway.post(LOGIN, headers, body.to_string()).await
    }

    /// The logins that reached the IAM since the last call.
    fn take_logins(&self) -> Vec<(String, String, Option<String>)> {
        std::mem::take(&mut *self.iam.logins.lock().unwrap())
    }
}

/// Panics unless a limit refused it, for this number of seconds.
#[track_caller]
fn is_stopped(answer: &Response, seconds: &str) {
    answer.is_error(429, "temporarily_unavailable");
    assert_eq!(answer.header("retry-after"), seconds);
    assert_eq!(answer.header("cache-control"), "no-store");
}
