use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use super::*;
use crate::clock::ManualClock;
use crate::types::Subject;

mod circuit;
mod recovery;
mod retries;
mod waiting;

/// Answers from a script, and counts.
#[derive(Debug, Default)]
struct Scripted {
    calls: AtomicUsize,
    faults: Mutex<Vec<IamError>>,
    /// What every call gets for which nothing else is said.
    outage: Mutex<Option<IamError>>,
    /// Where set, every call waits for it.
    gate: Option<Semaphore>,
}

impl Scripted {
    fn failing(faults: &[IamError]) -> Arc<Self> {
        Arc::new(Self {
            faults: Mutex::new(faults.to_vec()),
            ..Self::default()
        })
    }

    fn gated() -> Arc<Self> {
        Arc::new(Self {
            gate: Some(Semaphore::new(0)),
            ..Self::default()
        })
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    async fn answer(&self) -> Result<(), IamError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        let fault = self.faults.lock().unwrap().pop();
        fault
            .or_else(|| self.outage.lock().unwrap().clone())
            .map_or(Ok(()), Err)
    }

    /// From now on every call ends so.
    fn breaks_down(&self, fault: Option<IamError>) {
        *self.outage.lock().unwrap() = fault;
    }

    /// Lets so many calls go.
    fn release(&self, calls: usize) {
        self.gate.as_ref().unwrap().add_permits(calls);
    }
}

#[async_trait]
impl IamAdapter for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn issuer(&self) -> &'static str {
        "urn:scripted"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FULL
    }

    async fn authenticate(
        &self,
        _: &Credentials,
        _: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        self.answer().await.map(|()| Authenticated {
            session: session(),
            expires_in: None,
            permissions: None,
        })
    }

    async fn introspect(&self, _: &UpstreamSession) -> Result<Introspection, IamError> {
        self.answer().await.map(|()| Introspection::Inactive)
    }

    async fn end_session(&self, _: &UpstreamSession) -> Result<(), IamError> {
        self.answer().await
    }

    fn logout_audience(&self) -> Option<&str> {
        Some("scripted")
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.answer().await?;
        VerificationKeys::parse(b"{}").map_err(|none| IamError::Unreadable(none.to_string()))
    }

    async fn probe(&self) -> Result<(), IamError> {
        self.answer().await
    }
}

#[derive(Debug, Default)]
struct Seen(
    Mutex<Vec<(Operation, Option<&'static str>)>>,
    Mutex<Vec<(Operation, Circuit)>>,
);

impl Observer for Seen {
    fn called(&self, operation: Operation, result: Result<(), &IamError>, _: Duration) {
        let outcome = result.err().map(IamError::kind);
        self.0.lock().unwrap().push((operation, outcome));
    }

    fn circuit(&self, operation: Operation, circuit: Circuit) {
        self.1.lock().unwrap().push((operation, circuit));
    }
}

fn session() -> UpstreamSession {
    UpstreamSession {
        subject: Subject::new("s").unwrap(),
        id: "i".to_owned(),
        secret: "x".into(),
    }
}

fn guarded(adapter: &Arc<Scripted>, concurrency: usize) -> (Arc<Guarded>, Arc<Seen>) {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    guarded_by(&clock, adapter, concurrency)
}

fn guarded_by(
    clock: &Arc<ManualClock>,
    adapter: &Arc<Scripted>,
    concurrency: usize,
) -> (Arc<Guarded>, Arc<Seen>) {
    let limit = |seconds| Limit {
        deadline: Duration::from_secs(seconds),
        concurrency,
    };
    let limits = Limits {
        login: limit(5),
        introspection: limit(2),
        logout: limit(5),
        keys: limit(2),
        probe: limit(2),
    };
    let seen = Arc::<Seen>::default();
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
    let observer: Arc<dyn Observer> = Arc::<Seen>::clone(&seen);
    let adapter = Arc::<Scripted>::clone(adapter);
    let guarded = Guarded::new(adapter, limits, &clock, &observer);
    (Arc::new(guarded), seen)
}

fn unreachable() -> IamError {
    IamError::Unreachable("refused".to_owned())
}

async fn authenticate(guarded: &Guarded) -> Result<Authenticated, IamError> {
    let credentials = Credentials::new("a@b".to_owned(), "x".into()).unwrap();
    guarded
        .authenticate(&credentials, &ClientContext::default())
        .await
}

#[tokio::test]
async fn the_keys_are_asked_for_in_a_lane_of_their_own() {
    let adapter = Scripted::failing(&[unreachable()]);
    let (guarded, seen) = guarded(&adapter, 1);
    assert_eq!(guarded.logout_audience(), Some("scripted"));
    assert!(guarded.verification_keys().await.is_err(), "no key set");
    assert_eq!(adapter.calls(), 2);
    assert_eq!(
        *seen.0.lock().unwrap(),
        [(Operation::Keys, Some("unreadable"))]
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_the_deadline_of_its_operation() {
    let adapter = Scripted::gated();
    let (guarded, seen) = guarded(&adapter, 1);
    let deadline = Duration::from_secs(2);
    assert_eq!(
        guarded.introspect(&session()).await,
        Err(IamError::TimedOut(deadline))
    );
    assert_eq!(
        authenticate(&guarded).await.err(),
        Some(IamError::TimedOut(Duration::from_secs(5)))
    );
    assert_eq!(
        *seen.0.lock().unwrap(),
        [
            (Operation::Introspection, Some("timed_out")),
            (Operation::Login, Some("timed_out")),
        ]
    );
}
