//! Replicas that start while many sessions are in use, with empty caches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::future::join_all;
use iam_adapters::clock::ManualClock;
use iam_adapters::jwk::VerificationKeys;
use iam_adapters::{
    Authenticated, Capabilities, ClientContext, Credentials, IamAdapter, IamError, Introspection,
    UpstreamSession,
};
use test_support::gateway::TestGateway;
use test_support::keys::TestKeys;
use test_support::suite::{READ, session_of};
use tokio::task;

use test_support::suite::IamFixture;

const REPLICAS: usize = 4;
const SESSIONS: usize = 150;
/// Concurrent introspections of each replica.
const LIMIT: usize = 3;

/// Counts the introspections in progress.
#[derive(Debug)]
struct Counting {
    iam: Arc<dyn IamAdapter>,
    under_way: AtomicUsize,
    most: AtomicUsize,
    answered: AtomicUsize,
}

#[async_trait]
impl IamAdapter for Counting {
    fn name(&self) -> &'static str {
        self.iam.name()
    }

    fn issuer(&self) -> &str {
        self.iam.issuer()
    }

    fn capabilities(&self) -> Capabilities {
        self.iam.capabilities()
    }

    async fn authenticate(
        &self,
        credentials: &Credentials,
        client: &ClientContext,
    ) -> Result<Authenticated, IamError> {
        self.iam.authenticate(credentials, client).await
    }

    /// Takes long enough for all other requests to arrive.
    async fn introspect(&self, session: &UpstreamSession) -> Result<Introspection, IamError> {
        let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(under_way, Ordering::SeqCst);
        for _ in 0..20 {
            task::yield_now().await;
        }
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        self.answered.fetch_add(1, Ordering::SeqCst);
        self.iam.introspect(session).await
    }

    async fn end_session(&self, session: &UpstreamSession) -> Result<(), IamError> {
        self.iam.end_session(session).await
    }

    fn logout_audience(&self) -> Option<&str> {
        self.iam.logout_audience()
    }

    async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
        self.iam.verification_keys().await
    }

    async fn probe(&self) -> Result<(), IamError> {
        self.iam.probe().await
    }
}

#[tokio::test]
async fn cold_replicas_serve_all_sessions_within_the_concurrency_limit_of_the_iam() {
    let fixture = IamFixture::in_memory();
    let keys = TestKeys::new();
    let user = fixture.user(&[READ]).await;
    let warm = fixture.replica(&keys);
    let sessions = join_all((0..SESSIONS).map(|_| session_of(&warm, &user))).await;
    drop(warm);

    let limit = LIMIT.to_string();
    let settings = [
        &keys.settings()[..],
        &[("upstream.introspection_concurrency", limit.as_str())],
    ];
    let settings = settings.concat();
    let replicas = (0..REPLICAS).map(|_| {
        let iam = Arc::new(Counting {
            iam: fixture.administrator.adapter(),
            under_way: AtomicUsize::default(),
            most: AtomicUsize::default(),
            answered: AtomicUsize::default(),
        });
        let clock = Arc::<ManualClock>::clone(&fixture.clock);
        let gateway = TestGateway::with_adapter(Arc::<Counting>::clone(&iam), clock, &settings);
        (gateway, iam)
    });
    let replicas: Vec<_> = replicas.collect();

    let everywhere = replicas
        .iter()
        .flat_map(|(gateway, _)| sessions.iter().map(move |session| (gateway, session)));
    let mut waiting: Vec<_> = everywhere.collect();
    while !waiting.is_empty() {
        let before = waiting.len();
        let answers = waiting.iter().map(async |(gateway, session)| {
            let answer = gateway.exchange(session, READ).await;
            if answer.status == 200 {
                assert_eq!(answer.token().scope, READ);
                return false;
            }
            // A request beyond the limit is told to retry, and succeeds later.
            answer.is_error(503, "temporarily_unavailable");
            answer.header("retry-after");
            true
        });
        let mut again = join_all(answers).await.into_iter();
        waiting.retain(|_| again.next() == Some(true));
        assert!(waiting.len() < before, "{before} wait in vain");
    }
    for (_, iam) in &replicas {
        assert_eq!(iam.most.load(Ordering::SeqCst), LIMIT);
        assert_eq!(iam.answered.load(Ordering::SeqCst), SESSIONS);
    }
}
