//! Every fault on the wire, with the Keycloak adapter.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::clock::SystemClock;
use iam_adapters::name::Name as _;
use iam_adapters::resilient::{CallLimit, Operation};
use iam_adapters::{
    ClientContext, Credentials, IamAdapter, IamError, Introspection, Misconfiguration, Permissions,
    Refusal, UpstreamSession,
};
use iam_conformance::{Account, Fixture as _};
use mock_iam::faults::{Answer, Rule};
use mock_iam::journal::Filter;
use secrecy::SecretString;
use test_support::resilient::resilient;

use super::administrator::administrator;
use super::{REALM, RunningMock};

/// The timeout of waits for expected events.
const TIMEOUT: Duration = Duration::from_secs(60);

const OPERATIONS: [Operation; 5] = [
    Operation::Login,
    Operation::Introspection,
    Operation::Logout,
    Operation::Keys,
    Operation::Probe,
];

pub(super) struct FaultFixture {
    running_mock: Arc<RunningMock>,
    pub(super) user: Account,
}

impl FaultFixture {
    pub(super) async fn new() -> Self {
        let running_mock = Arc::new(RunningMock::new(Arc::new(SystemClock::default())));
        let administrator = administrator(&running_mock, None);
        let password = SecretString::from("alice-pass");
        let email = "alice@example.test".to_owned();
        let none = Permissions::default();
        let subject = administrator.create_user(&email, &password, &none).await;
        let user = Account {
            email,
            password,
            subject,
        };
        Self { running_mock, user }
    }

    pub(super) fn running_mock(&self) -> &RunningMock {
        &self.running_mock
    }

    pub(super) fn credentials(&self) -> Credentials {
        let (email, password) = (self.user.email.clone(), self.user.password.clone());
        Credentials::new(email, password).expect("fair ones")
    }

    pub(super) async fn log_in(&self, iam: &dyn IamAdapter) -> Result<UpstreamSession, IamError> {
        let client = ClientContext::default();
        let begun = iam.authenticate(&self.credentials(), &client).await?;
        Ok(begun.session)
    }

    /// Until another fault is set.
    fn message(&self, operation: Operation, answer: Answer) {
        let namespace = self.running_mock().namespace();
        let faults = namespace.mock.faults();
        faults.clear();
        let rule = Rule {
            operation,
            user: None,
            times: None,
            share: None,
            delay: None,
            answer: Some(answer),
        };
        faults.add(rule).expect("a fair rule");
    }

    /// The result of an operation if all calls have this answer.
    async fn call_with_fault(
        &self,
        iam: &dyn IamAdapter,
        session: &UpstreamSession,
        operation: Operation,
        answer: Answer,
    ) -> Result<(), IamError> {
        self.message(operation, answer);
        match operation {
            Operation::Login => self.log_in(iam).await.map(drop),
            Operation::Introspection => iam.introspect(session).await.map(drop),
            Operation::Logout => iam.end_session(session).await,
            Operation::Keys => iam.verification_keys().await.map(drop),
            Operation::Probe => iam.probe().await,
            Operation::Permissions => panic!("not a call to the IAM"),
        }
    }
}

/// An adapter after a successful introspection, and a session.
pub(super) async fn proven(fixture: &FaultFixture) -> (Arc<dyn IamAdapter>, UpstreamSession) {
    let iam = fixture.running_mock().adapter();
    iam.probe().await.expect("a healthy mock");
    let session = fixture.log_in(&*iam).await.expect("a login");
    (iam, session)
}

#[tokio::test]
async fn each_fault_has_its_own_error_and_none_is_a_refusal() {
    let fixture = FaultFixture::new().await;
    let (iam, _) = proven(&fixture).await;
    let throttled = IamError::Throttled {
        retry_after: Some(Duration::from_secs(3)),
    };
    for operation in OPERATIONS {
        let session = fixture.log_in(&*iam).await.expect("a login");
        for (answer, kind) in [
            (Answer::Unreachable, "unreachable"),
            (Answer::Reset, "unreachable"),
            (Answer::Throttled { retry_after: None }, "throttled"),
            (Answer::ServerError, "failed"),
            (Answer::Unreadable, "unreadable"),
            (Answer::Html, "unreadable"),
            (Answer::HugeBody, "unreadable"),
            (Answer::Redirect, "misconfigured"),
            (Answer::Misconfigured, "misconfigured"),
        ] {
            let outcome = fixture
                .call_with_fault(&*iam, &session, operation, answer)
                .await;
            let outcome = outcome.expect_err("a fault");
            let why = format!("{} of {}: {outcome}", answer.name(), operation.name());
            assert_eq!(outcome.kind(), kind, "{why}");
            if answer == Answer::Misconfigured {
                let what = Misconfiguration::ClientSecret;
                assert!(
                    matches!(outcome, IamError::Misconfigured { what: seen, .. } if seen == what),
                    "{why}"
                );
            }
        }
        let three = Answer::Throttled {
            retry_after: Some(Duration::from_millis(2001)),
        };
        let outcome = fixture
            .call_with_fault(&*iam, &session, operation, three)
            .await;
        assert_eq!(outcome, Err(throttled.clone()), "{operation:?}");
        fixture.running_mock().namespace().mock.faults().clear();
        let active = iam.introspect(&session).await;
        assert!(
            matches!(active, Ok(Introspection::Active { .. })),
            "after the faults of {operation:?}: {active:?}"
        );
        // This fault performs the operation.
        let cut = Answer::Truncated;
        let outcome = fixture
            .call_with_fault(&*iam, &session, operation, cut)
            .await;
        let outcome = outcome.map_err(|error| error.kind());
        assert_eq!(outcome, Err("unreachable"), "{operation:?}");
        fixture.running_mock().namespace().mock.faults().clear();
        let active = iam.introspect(&session).await.expect("an answer");
        let ended = active == Introspection::Inactive;
        assert_eq!(ended, operation == Operation::Logout, "{operation:?}");
    }
}

#[tokio::test]
async fn login_is_refused_for_each_reason_that_keycloak_reports() {
    let fixture = FaultFixture::new().await;
    let (iam, session) = proven(&fixture).await;
    for (reason, message) in [
        (Refusal::InvalidCredentials, Refusal::InvalidCredentials),
        // Keycloak does not report it.
        (Refusal::Locked, Refusal::InvalidCredentials),
        (Refusal::Disabled, Refusal::Disabled),
        (Refusal::Incomplete, Refusal::Incomplete),
    ] {
        let refused = Answer::Refused(reason);
        let outcome = fixture
            .call_with_fault(&*iam, &session, Operation::Login, refused)
            .await;
        assert_eq!(outcome, Err(IamError::Refused(message)));
    }
}

#[tokio::test]
async fn fault_makes_a_session_inactive_or_returns_another_session() {
    let fixture = FaultFixture::new().await;
    let (iam, session) = proven(&fixture).await;
    fixture.message(Operation::Introspection, Answer::Inactive);
    assert_eq!(iam.introspect(&session).await, Ok(Introspection::Inactive));
    // Before its first active introspection the adapter confirms an inactive one by a refresh.
    let doubtful = fixture.running_mock().adapter();
    assert_eq!(
        doubtful.introspect(&session).await,
        Ok(Introspection::Inactive)
    );
    fixture.message(Operation::Introspection, Answer::AnotherSession);
    let outcome = iam.introspect(&session).await;
    assert_eq!(outcome.map_err(|error| error.kind()), Err("unreadable"));
}

#[tokio::test]
async fn timeout_and_slow_body_end_at_the_deadline_of_the_gateway() {
    let fixture = FaultFixture::new().await;
    let (_, session) = proven(&fixture).await;
    let limit = CallLimit {
        deadline: Duration::from_millis(200),
        concurrency: 4,
    };
    for operation in OPERATIONS {
        for answer in [Answer::Timeout, Answer::SlowBody] {
            let bare = fixture.running_mock().adapter();
            let iam = resilient(bare, limit, Arc::new(SystemClock::default()));
            let outcome = fixture
                .call_with_fault(&iam, &session, operation, answer)
                .await;
            let outcome = outcome.map_err(|error| error.kind());
            let why = format!("{} of {}", answer.name(), operation.name());
            assert_eq!(outcome, Err("timed_out"), "{why}");
            // The mock detects the disconnect.
            let namespace = fixture.running_mock().namespace();
            let filter = Filter {
                operation: Some(operation),
                outcome: Some("timed_out".to_owned()),
                ..Filter::default()
            };
            let (found, _) = namespace.mock.journal().wait(&filter, 1, 1, TIMEOUT).await;
            assert!(found, "{why}");
            namespace.mock.journal().clear();
        }
    }
}

/// An HTTP client cannot distinguish them from a closed connection.
#[tokio::test(flavor = "multi_thread")]
async fn reset_and_truncated_response_are_visible_on_the_connection() {
    let fixture = FaultFixture::new().await;
    for (answer, ending) in [
        (Answer::Reset, Err(ErrorKind::ConnectionReset)),
        (Answer::Unreachable, Err(ErrorKind::ConnectionReset)),
        (Answer::Truncated, Ok(())),
    ] {
        fixture.message(Operation::Probe, answer);
        let address = fixture.running_mock().url.replace("http://", "");
        let mut tcp = TcpStream::connect(&address).expect("a listener");
        tcp.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let path = format!("/realms/{REALM}/.well-known/openid-configuration");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        tcp.write_all(request.as_bytes()).expect("sent");
        let mut received = Vec::new();
        let ended = tcp.read_to_end(&mut received).map(drop);
        assert_eq!(ended.map_err(|error| error.kind()), ending, "{answer:?}");
        let received = String::from_utf8(received).expect("text");
        if answer == Answer::Truncated {
            let (head, body) = received.split_once("\r\n\r\n").expect("a head");
            let head = head.to_ascii_lowercase();
            let (_, length) = head.split_once("content-length: ").expect("a length");
            let length = length
                .lines()
                .next()
                .and_then(|it| it.parse::<usize>().ok());
            let half = length.expect("a number") / 2;
            assert_eq!(body.len(), half, "{received}");
        } else {
            assert_eq!(received, "");
        }
    }
}
