//! Many concurrent sessions with an IAM that is slow or unavailable, in paused time.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::resilient::CallLimit;
use iam_adapters::{IamAdapter as _, IamError, ResilientAdapter};
use test_support::resilient::resilient;
use test_support::slow_iam::SlowIam;
use test_support::wrapper::wrapped;
use tokio::time::Instant;

use super::test_gateway::{LIVENESS, Session, TestGateway, policy};
use crate::error::GatewayError;
use crate::results::DataSource;
use test_support::scripted_iam::ScriptedIam;

const DEADLINE: Duration = Duration::from_secs(2);
const CONCURRENCY: usize = 128;

struct Fixture {
    gateway: TestGateway,
    iam: Arc<SlowIam>,
    adapter: Arc<ResilientAdapter>,
}

impl Fixture {
    fn new(concurrency: usize, delay: fn(usize) -> Duration) -> Self {
        let limit = CallLimit {
            deadline: DEADLINE,
            concurrency,
        };
        let mut made = None;
        let gateway = TestGateway::with_adapter(ScriptedIam::default(), policy(), |iam, clock| {
            let slow = SlowIam::new(iam, delay);
            let adapter = Arc::new(resilient(wrapped(&slow), limit, clock));
            made = Some((slow, Arc::clone(&adapter)));
            adapter
        });
        let (iam, adapter) = made.unwrap();
        Self {
            gateway,
            iam,
            adapter,
        }
    }

    async fn sessions(&self, count: usize) -> Vec<Session> {
        let mut sessions = Vec::new();
        for _ in 0..count {
            sessions.push(self.gateway.log_in("alice").await);
        }
        sessions
    }

    /// Exchanges all sessions concurrently, and returns the result and the duration of each.
    async fn exchange_all(
        &self,
        sessions: &[Session],
    ) -> Vec<(Result<DataSource, GatewayError>, Duration)> {
        let exchange = |session: &Session| {
            let (gateway, session) = (self.gateway.clone(), session.clone());
            let started = Instant::now();
            tokio::spawn(async move {
                let end = gateway.exchange(&session, "read").await;
                (end.map(|exchanged| exchanged.source), started.elapsed())
            })
        };
        let exchanges: Vec<_> = sessions.iter().map(exchange).collect();
        let mut ends = Vec::new();
        for exchange in exchanges {
            ends.push(exchange.await.unwrap());
        }
        ends
    }
}

#[tokio::test(start_paused = true)]
async fn two_thousand_concurrent_stale_sessions_are_served_within_the_concurrency_limit() {
    const SESSIONS: usize = 2_000;
    const PERMITS: usize = 51;
    let fixture = Fixture::new(PERMITS, |_| Duration::from_millis(20));
    let mut left = fixture.sessions(SESSIONS).await;
    fixture.gateway.clock.advance(LIVENESS);
    let mut rounds = 0;
    while !left.is_empty() {
        rounds += 1;
        let ends = fixture.exchange_all(&left).await;
        let mut ends = ends.into_iter();
        left.retain(|_| match ends.next().unwrap() {
            (Ok(source), took) => {
                assert_eq!(source, DataSource::Miss);
                assert!(took <= DEADLINE);
                false
            }
            (Err(GatewayError::Full(_)), took) => {
                assert!(took <= DEADLINE / 2);
                true
            }
            (Err(other), _) => panic!("{other}"),
        });
        assert!(rounds <= 6, "{} are left", left.len());
    }
    assert_eq!(fixture.iam.max_in_flight(), PERMITS);
    assert_eq!(
        fixture.iam.introspections(),
        SESSIONS,
        "once for each session"
    );
}

/// Three of ten calls take this long.
async fn three_of_ten_calls_take<const MILLIS: u64>() {
    const SESSIONS: usize = 1_000;
    let fixture = Fixture::new(CONCURRENCY, |call| {
        if call % 10 < 3 {
            Duration::from_millis(MILLIS)
        } else {
            QUICK
        }
    });
    let stale = fixture.sessions(SESSIONS).await;
    fixture.gateway.clock.advance(LIVENESS);
    let fresh = fixture.sessions(100).await;
    let (ends, ends_of_fresh) =
        tokio::join!(fixture.exchange_all(&stale), fixture.exchange_all(&fresh));
    for end in ends_of_fresh {
        assert_eq!(end, (Ok(DataSource::Hit), Duration::ZERO));
    }
    let mut served = 0;
    for (end, took) in ends {
        assert!(took <= DEADLINE, "{took:?}");
        match end {
            Ok(_) => served += 1,
            Err(GatewayError::TooSlow(IamError::TimedOut(_)) | GatewayError::Full(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert!(served >= SESSIONS / 4, "{served} of {SESSIONS}");
    assert!(fixture.iam.max_in_flight() <= CONCURRENCY);
    assert!(
        fixture.iam.introspections() <= SESSIONS,
        "no session is introspected twice"
    );
}

const QUICK: Duration = Duration::from_millis(5);

#[tokio::test(start_paused = true)]
async fn slow_introspections_do_not_delay_exchanges_with_cached_data() {
    three_of_ten_calls_take::<500>().await;
    three_of_ten_calls_take::<2_000>().await;
    three_of_ten_calls_take::<10_000>().await;
    three_of_ten_calls_take::<60_000>().await;
}

#[tokio::test(start_paused = true)]
async fn outage_fails_fast_after_the_first_calls_and_its_end_is_detected() {
    let fixture = Fixture::new(CONCURRENCY, |_| QUICK);
    let sessions = fixture.sessions(500).await;
    fixture.gateway.clock.advance(LIVENESS);
    let unreachable = IamError::Unreachable("refused".into());
    fixture.gateway.iam.set_outage(Some(unreachable.clone()));
    for _ in 0..3 {
        for (end, _) in fixture.exchange_all(&sessions).await {
            let error = end.unwrap_err();
            assert!(
                error == unreachable.clone().into() || error == IamError::CircuitOpen.into(),
                "{error}"
            );
        }
    }
    // The calls in flight when the circuit opened, and three retries.
    let introspections = fixture.iam.introspections();
    assert!(introspections <= CONCURRENCY + 3, "{introspections}");
    fixture.adapter.probe().await.unwrap_err();
    for (end, took) in fixture.exchange_all(&sessions).await {
        assert_eq!(end, Err(IamError::CircuitOpen.into()));
        assert_eq!(took, Duration::ZERO);
    }
    assert_eq!(fixture.iam.introspections(), introspections);

    fixture.gateway.iam.set_outage(None);
    fixture.adapter.probe().await.unwrap();
    // The first exchange closes the circuit.
    fixture.gateway.granted(&sessions[0]).await.unwrap();
    for (end, _) in fixture.exchange_all(&sessions).await {
        end.unwrap();
    }
    assert!(fixture.iam.max_in_flight() <= CONCURRENCY);
}
