use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::clock::tests::ManualClock;
use crate::scripted_adapter::{CLIENT, ScriptedAdapter};
use crate::types::Subject;

mod circuit;
mod recovery;
mod requesters;
mod retries;
mod waiting;

#[derive(Default)]
struct Observed {
    calls: Mutex<Vec<(Operation, Option<&'static str>)>>,
    circuits: Mutex<Vec<(Operation, Circuit)>>,
}

impl Observed {
    fn record(&self, event: &CallEvent<'_>) {
        match *event {
            CallEvent::Called {
                operation, result, ..
            } => {
                let outcome = result.err().map(IamError::kind);
                self.calls.lock().unwrap().push((operation, outcome));
            }
            CallEvent::Circuit { operation, circuit } => {
                self.circuits.lock().unwrap().push((operation, circuit));
            }
            CallEvent::Clock { .. } => {}
        }
    }
}

fn session() -> UpstreamSession {
    UpstreamSession {
        subject: Subject::new("s").unwrap(),
        id: "i".to_owned(),
        secret: "x".into(),
    }
}

fn resilient(
    adapter: &Arc<ScriptedAdapter>,
    concurrency: usize,
) -> (Arc<ResilientAdapter>, Arc<Observed>) {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    resilient_at(&clock, adapter, concurrency)
}

fn resilient_at(
    clock: &Arc<ManualClock>,
    adapter: &Arc<ScriptedAdapter>,
    concurrency: usize,
) -> (Arc<ResilientAdapter>, Arc<Observed>) {
    let limit = |seconds| CallLimit {
        deadline: Duration::from_secs(seconds),
        concurrency,
    };
    let limits = CallLimits {
        login: limit(5),
        introspection: limit(2),
        logout: limit(5),
        keys: limit(2),
        probe: limit(2),
    };
    let events = Arc::<Observed>::default();
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
    let recording = Arc::clone(&events);
    let observer: Observer = Arc::new(move |event: &CallEvent<'_>| recording.record(event));
    let adapter: Arc<dyn IamAdapter> = Arc::<ScriptedAdapter>::clone(adapter);
    let adapter = Arc::new(ArcSwap::from_pointee(adapter));
    let iam = ResilientAdapter::new(&"tested".into(), adapter, limits, &clock, &observer);
    (Arc::new(iam), events)
}

fn unreachable() -> IamError {
    IamError::Unreachable("refused".into())
}

/// A login of an account that no other call of the tests has.
async fn authenticate(iam: &ResilientAdapter) -> Result<Authenticated, IamError> {
    static ACCOUNTS: AtomicUsize = AtomicUsize::new(0);
    let number = ACCOUNTS.fetch_add(1, Ordering::Relaxed);
    authenticate_as(iam, &format!("user{number}@b"), None).await
}

async fn authenticate_as(
    iam: &ResilientAdapter,
    email: &str,
    address: Option<IpAddr>,
) -> Result<Authenticated, IamError> {
    let credentials = Credentials::new(email.to_owned(), "x".into()).unwrap();
    let client = ClientContext {
        address: address.map(Into::into),
        ..ClientContext::default()
    };
    iam.authenticate(&credentials, &client).await
}

#[tokio::test]
async fn keys_have_their_own_limits() {
    let adapter = ScriptedAdapter::failing(&[unreachable()]);
    let (iam, observer) = resilient(&adapter, 1);
    assert_eq!(iam.logout_audience(), Some(CLIENT));
    assert!(iam.verification_keys().await.is_err(), "no key set");
    assert_eq!(adapter.calls(), 2);
    assert_eq!(
        *observer.calls.lock().unwrap(),
        [(Operation::Keys, Some("unreadable"))]
    );
}

#[tokio::test(start_paused = true)]
async fn call_ends_at_the_deadline_of_its_operation() {
    let adapter = ScriptedAdapter::gated(0);
    let (iam, observer) = resilient(&adapter, 1);
    let deadline = Duration::from_secs(2);
    assert_eq!(
        iam.introspect(&session()).await,
        Err(IamError::TimedOut(deadline))
    );
    assert_eq!(
        authenticate(&iam).await.err(),
        Some(IamError::TimedOut(Duration::from_secs(5)))
    );
    assert_eq!(
        *observer.calls.lock().unwrap(),
        [
            (Operation::Introspection, Some("timed_out")),
            (Operation::Login, Some("timed_out")),
        ]
    );
}

/// A success would be one of an IAM that may be away.
#[tokio::test]
async fn logout_of_a_session_that_is_in_the_session_token_alone_is_no_call() {
    let adapter = ScriptedAdapter::without_sessions();
    let (iam, observer) = resilient(&adapter, 1);
    assert_eq!(iam.end_session(&session()).await, Ok(()));
    assert_eq!(adapter.calls(), 0);
    assert!(observer.calls.lock().unwrap().is_empty());
}
