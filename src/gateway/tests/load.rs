//! Many sessions at once before an IAM that is slow, or gone, or back: through the guard, in paused
//! time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use iam_adapters::resilient::{Circuit, Limit, Limits, Observer, Operation};
use iam_adapters::{Clock, IamAdapter as _, IamError, ResilientAdapter};
use tokio::time::Instant;

use super::busy::Busy;
use super::house::{House, LIVENESS, Session, policy};
use super::scripted::Scripted;
use crate::gateway::error::GatewayError;
use crate::gateway::knowledge::Source;

const DEADLINE: Duration = Duration::from_secs(2);
const CONCURRENCY: usize = 128;

#[derive(Debug)]
struct Silent;

impl Observer for Silent {
    fn called(&self, _: Operation, _: Result<(), &IamError>, _: Duration) {}
    fn circuit(&self, _: Operation, _: Circuit) {}
}

struct Scene {
    house: House,
    busy: Arc<Busy>,
    guarded: Arc<ResilientAdapter>,
}

impl Scene {
    fn new(concurrency: usize, takes: fn(usize) -> Duration) -> Self {
        let limit = Limit {
            deadline: DEADLINE,
            concurrency,
        };
        let limits = Limits {
            login: limit,
            introspection: limit,
            logout: limit,
            keys: limit,
            probe: limit,
        };
        let mut made = None;
        let house = House::through(Scripted::default(), policy(), |iam, clock| {
            let busy = Arc::new(Busy {
                iam,
                takes,
                calls: AtomicUsize::default(),
                under_way: AtomicUsize::default(),
                most: AtomicUsize::default(),
            });
            let observer: Arc<dyn Observer> = Arc::new(Silent);
            let clock: Arc<dyn Clock> = clock;
            let guarded =
                ResilientAdapter::new(Arc::<Busy>::clone(&busy), limits, &clock, &observer);
            let guarded = Arc::new(guarded);
            made = Some((busy, Arc::clone(&guarded)));
            guarded
        });
        let (busy, guarded) = made.unwrap();
        Self {
            house,
            busy,
            guarded,
        }
    }

    async fn sessions(&self, count: usize) -> Vec<Session> {
        let mut sessions = Vec::new();
        for _ in 0..count {
            sessions.push(self.house.log_in("alice").await);
        }
        sessions
    }

    /// Exchanges all sessions at once; tells how each of them went, and how long it took.
    async fn exchange_all(
        &self,
        sessions: &[Session],
    ) -> Vec<(Result<Source, GatewayError>, Duration)> {
        let exchange = |session: &Session| {
            let (house, session) = (self.house.clone(), session.clone());
            let began = Instant::now();
            tokio::spawn(async move {
                let end = house.exchange(&session, "read").await;
                (end.map(|exchanged| exchanged.source), began.elapsed())
            })
        };
        let exchanges: Vec<_> = sessions.iter().map(exchange).collect();
        let mut ends = Vec::new();
        for exchange in exchanges {
            ends.push(exchange.await.unwrap());
        }
        ends
    }

    fn asked(&self) -> usize {
        self.busy.calls.load(Ordering::SeqCst)
    }

    fn most(&self) -> usize {
        self.busy.most.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn twenty_thousand_stale_sessions_at_once_are_all_served_and_the_iam_is_not_overrun() {
    const SESSIONS: usize = 20_000;
    const PLACES: usize = 512;
    let scene = Scene::new(PLACES, |_| Duration::from_millis(20));
    let mut left = scene.sessions(SESSIONS).await;
    scene.house.clock.advance(LIVENESS);
    let mut rounds = 0;
    while !left.is_empty() {
        rounds += 1;
        let ends = scene.exchange_all(&left).await;
        let mut ends = ends.into_iter();
        left.retain(|_| match ends.next().unwrap() {
            (Ok(source), took) => {
                assert_eq!(source, Source::Miss);
                assert!(took <= DEADLINE);
                false
            }
            (Err(GatewayError::Full), took) => {
                assert!(took <= DEADLINE / 2);
                true
            }
            (Err(other), _) => panic!("{other}"),
        });
        assert!(rounds <= 6, "{} are left", left.len());
    }
    assert_eq!(scene.most(), PLACES);
    assert_eq!(scene.asked(), SESSIONS, "once for each session");
}

/// Three in ten calls take so long.
async fn thirty_in_a_hundred_are_slow(takes: fn(usize) -> Duration) {
    const SESSIONS: usize = 1_000;
    let scene = Scene::new(CONCURRENCY, takes);
    let stale = scene.sessions(SESSIONS).await;
    scene.house.clock.advance(LIVENESS);
    let fresh = scene.sessions(100).await;
    let (ends, ends_of_fresh) =
        tokio::join!(scene.exchange_all(&stale), scene.exchange_all(&fresh));
    for end in ends_of_fresh {
        assert_eq!(end, (Ok(Source::Hit), Duration::ZERO));
    }
    let mut served = 0;
    for (end, took) in ends {
        assert!(took <= DEADLINE, "{took:?}");
        match end {
            Ok(_) => served += 1,
            Err(GatewayError::TooSlow(IamError::TimedOut(_)) | GatewayError::Full) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert!(served >= SESSIONS / 4, "{served} of {SESSIONS}");
    assert!(scene.most() <= CONCURRENCY);
    assert!(scene.asked() <= SESSIONS, "nobody is asked about twice");
}

const QUICK: Duration = Duration::from_millis(5);

#[tokio::test(start_paused = true)]
async fn an_iam_that_is_slow_every_third_time_holds_nobody_up_who_does_not_ask_it() {
    for takes in [
        |call| {
            if call % 10 < 3 {
                Duration::from_millis(500)
            } else {
                QUICK
            }
        },
        |call| {
            if call % 10 < 3 {
                Duration::from_secs(2)
            } else {
                QUICK
            }
        },
        |call| {
            if call % 10 < 3 {
                Duration::from_secs(10)
            } else {
                QUICK
            }
        },
        |call| {
            if call % 10 < 3 {
                Duration::from_secs(60)
            } else {
                QUICK
            }
        },
    ] as [fn(usize) -> Duration; 4]
    {
        thirty_in_a_hundred_are_slow(takes).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_told_at_once_after_the_first_calls_and_its_end_is_found_without_a_restart() {
    let scene = Scene::new(CONCURRENCY, |_| QUICK);
    let sessions = scene.sessions(500).await;
    scene.house.clock.advance(LIVENESS);
    let gone = IamError::Unreachable("gone".to_owned());
    scene.house.iam.break_down(Some(gone.clone()));
    for _ in 0..3 {
        for (end, _) in scene.exchange_all(&sessions).await {
            let told = end.unwrap_err();
            assert!(
                told == gone.clone().into() || told == IamError::CircuitOpen.into(),
                "{told}"
            );
        }
    }
    // Those that were under way when the circuit opened, and three further attempts.
    let asked = scene.asked();
    assert!(asked <= CONCURRENCY + 3, "{asked}");
    scene.guarded.probe().await.unwrap_err();
    for (end, took) in scene.exchange_all(&sessions).await {
        assert_eq!(end, Err(IamError::CircuitOpen.into()));
        assert_eq!(took, Duration::ZERO);
    }
    assert_eq!(scene.asked(), asked);

    scene.house.iam.break_down(None);
    scene.guarded.probe().await.unwrap();
    // The first to come find out; whoever comes after the first answer is served.
    scene.house.granted(&sessions[0]).await.unwrap();
    for (end, _) in scene.exchange_all(&sessions).await {
        end.unwrap();
    }
    assert!(scene.most() <= CONCURRENCY);
}
