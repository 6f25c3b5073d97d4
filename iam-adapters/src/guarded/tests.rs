use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::*;
use crate::types::Subject;

/// Answers from a script, and counts.
#[derive(Debug, Default)]
struct Scripted {
    calls: AtomicUsize,
    faults: Mutex<Vec<IamError>>,
    /// Where set, every call waits for it.
    gate: Option<Notify>,
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
            gate: Some(Notify::new()),
            ..Self::default()
        })
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    async fn answer(&self) -> Result<(), IamError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if let Some(gate) = &self.gate {
            gate.notified().await;
        }
        self.faults.lock().unwrap().pop().map_or(Ok(()), Err)
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
struct Seen(Mutex<Vec<(Operation, Option<&'static str>)>>);

impl Observer for Seen {
    fn called(&self, operation: Operation, result: Result<(), &IamError>, _: Duration) {
        let outcome = result.err().map(IamError::kind);
        self.0.lock().unwrap().push((operation, outcome));
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
    let guarded = Guarded::new(Arc::<Scripted>::clone(adapter), limits, seen.clone());
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
async fn an_idempotent_call_is_tried_once_more_when_the_iam_could_not_be_reached() {
    let adapter = Scripted::failing(&[unreachable()]);
    let (guarded, _) = guarded(&adapter, 1);
    assert_eq!(
        guarded.introspect(&session()).await,
        Ok(Introspection::Inactive)
    );
    assert_eq!(adapter.calls(), 2);

    let adapter = Scripted::failing(&[unreachable(), unreachable(), unreachable()]);
    let (guarded, seen) = self::guarded(&adapter, 1);
    assert_eq!(guarded.end_session(&session()).await, Err(unreachable()));
    assert_eq!(adapter.calls(), 2);
    assert_eq!(
        *seen.0.lock().unwrap(),
        [(Operation::Logout, Some("unreachable"))],
        "one call is observed, whatever it took"
    );
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

#[tokio::test]
async fn a_login_is_never_tried_again() {
    let adapter = Scripted::failing(&[unreachable(), unreachable()]);
    let (guarded, _) = guarded(&adapter, 1);
    assert!(authenticate(&guarded).await.is_err());
    assert_eq!(adapter.calls(), 1);
}

#[tokio::test]
async fn only_an_unreachable_iam_is_worth_a_second_try() {
    for fault in [
        IamError::Failed("status 503".to_owned()),
        IamError::Throttled { retry_after: None },
        IamError::Unreadable("html".to_owned()),
        IamError::TimedOut(Duration::from_secs(1)),
    ] {
        let adapter = Scripted::failing(std::slice::from_ref(&fault));
        let (guarded, _) = guarded(&adapter, 1);
        assert_eq!(guarded.probe().await, Err(fault));
        assert_eq!(adapter.calls(), 1);
    }
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

#[tokio::test(start_paused = true)]
async fn no_more_calls_are_under_way_than_the_bound_and_the_rest_is_refused_at_its_deadline() {
    let adapter = Scripted::gated();
    let (guarded, _) = guarded(&adapter, 2);
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let guarded = Arc::clone(&guarded);
            tokio::spawn(async move { guarded.introspect(&session()).await })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(adapter.calls(), 2);
    let mut outcomes = Vec::new();
    for call in calls {
        outcomes.push(call.await.unwrap().map_err(|error| error.kind()));
    }
    outcomes.sort_by_key(|outcome| format!("{outcome:?}"));
    assert_eq!(
        outcomes,
        [
            Err("saturated"),
            Err("saturated"),
            Err("saturated"),
            Err("timed_out"),
            Err("timed_out")
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_logins_leaves_introspection_its_places() {
    let adapter = Scripted::gated();
    let (guarded, _) = guarded(&adapter, 1);
    let login = {
        let guarded = Arc::clone(&guarded);
        tokio::spawn(async move { authenticate(&guarded).await.is_err() })
    };
    tokio::task::yield_now().await;
    let introspection = {
        let guarded = Arc::clone(&guarded);
        tokio::spawn(async move { guarded.introspect(&session()).await })
    };
    tokio::task::yield_now().await;
    assert_eq!(adapter.calls(), 2, "both are under way");
    assert!(login.await.unwrap());
    assert!(introspection.await.unwrap().is_err());
}
