//! How a circuit finds out that the IAM is back.

use super::circuit::{PAUSE, Scene, failed};
use super::*;

#[tokio::test]
async fn after_a_pause_one_success_closes_the_circuit() {
    let scene = Scene::open().await;
    scene
        .clock
        .advance(PAUSE.saturating_sub(Duration::from_millis(1)));
    scene.is_refused().await;
    scene.clock.advance(Duration::from_millis(1));
    scene.log_in(1, None).await;
    let changes = [Circuit::Open, Circuit::HalfOpen, Circuit::Closed];
    let changes = changes.map(|circuit| (Operation::Login, circuit));
    assert_eq!(*scene.seen.1.lock().unwrap(), changes);
    // What failed before counts no more.
    scene.log_in(19, Some(&failed())).await;
    assert_eq!(scene.circuit(), Circuit::Closed);
}

#[tokio::test]
async fn after_a_pause_one_failure_begins_another_one() {
    let scene = Scene::open().await;
    for _ in 0..5 {
        scene.clock.advance(PAUSE);
        scene.log_in(1, Some(&failed())).await;
        assert_eq!(scene.circuit(), Circuit::Open);
        scene.is_refused().await;
    }
    assert_eq!(scene.adapter.calls(), 25);
}

/// A circuit that is tried, by calls that wait to be let go.
async fn tried(calls: usize) -> (Scene, Vec<tokio::task::JoinHandle<Option<IamError>>>) {
    let scene = Scene::before(Scripted::gated());
    scene.adapter.release(20);
    scene.log_in(20, Some(&failed())).await;
    scene.clock.advance(PAUSE);
    let trials = (0..calls).map(|_| {
        let guarded = Arc::clone(&scene.guarded);
        tokio::spawn(async move { authenticate(&guarded).await.err() })
    });
    let trials = trials.collect();
    tokio::task::yield_now().await;
    assert_eq!(scene.adapter.calls(), 20 + calls.min(3));
    (scene, trials)
}

#[tokio::test]
async fn no_more_than_three_calls_find_out_at_a_time() {
    let (scene, mut trials) = tried(10).await;
    for refused in trials.split_off(3) {
        assert_eq!(refused.await.unwrap(), Some(IamError::CircuitOpen));
    }
    scene.adapter.breaks_down(None);
    scene.adapter.release(3);
    for trial in trials {
        assert_eq!(trial.await.unwrap(), None);
    }
    assert_eq!(scene.circuit(), Circuit::Closed);
}

#[tokio::test]
async fn a_trial_that_is_given_up_leaves_its_place_to_another() {
    let (scene, trials) = tried(3).await;
    scene.is_refused().await;
    for trial in trials {
        trial.abort();
        assert!(trial.await.unwrap_err().is_cancelled());
    }
    scene.adapter.release(1);
    scene.log_in(1, None).await;
    assert_eq!(scene.circuit(), Circuit::Closed);
}

#[tokio::test]
async fn a_call_from_before_says_nothing_about_now() {
    let scene = Scene::before(Scripted::gated());
    let begin = || {
        let guarded = Arc::clone(&scene.guarded);
        tokio::spawn(async move { authenticate(&guarded).await.err() })
    };
    let mut calls: Vec<_> = (0..21).map(|_| begin()).collect();
    let straggler = calls.pop().unwrap();
    tokio::task::yield_now().await;
    scene.adapter.breaks_down(Some(failed()));
    scene.adapter.release(20);
    for call in calls {
        assert_eq!(call.await.unwrap(), Some(failed()));
    }
    scene.clock.advance(PAUSE);
    let trial = begin();
    tokio::task::yield_now().await;
    assert_eq!(scene.circuit(), Circuit::HalfOpen);
    scene.adapter.breaks_down(None);
    scene.adapter.release(1);
    assert_eq!(straggler.await.unwrap(), None);
    assert_eq!(scene.circuit(), Circuit::HalfOpen);
    scene.adapter.breaks_down(Some(failed()));
    scene.adapter.release(1);
    assert_eq!(trial.await.unwrap(), Some(failed()));
    assert_eq!(scene.circuit(), Circuit::Open);
}

#[tokio::test]
async fn a_trial_is_not_tried_again() {
    let scene = Scene::new();
    scene.adapter.breaks_down(Some(unreachable()));
    for _ in 0..20 {
        scene.guarded.introspect(&session()).await.unwrap_err();
    }
    scene.clock.advance(PAUSE);
    let before = scene.adapter.calls();
    let trial = scene.guarded.introspect(&session()).await;
    assert_eq!(trial, Err(unreachable()));
    assert_eq!(scene.adapter.calls() - before, 1);
}

#[tokio::test]
async fn a_probe_is_always_let_through_and_its_success_ends_the_pause() {
    let scene = Scene::open().await;
    for _ in 0..100 {
        assert_eq!(scene.guarded.probe().await, Err(failed()));
        scene.is_refused().await;
    }
    scene.adapter.breaks_down(None);
    scene.guarded.probe().await.unwrap();
    assert_eq!(scene.circuit(), Circuit::HalfOpen);
    scene.log_in(1, None).await;
    assert_eq!(scene.circuit(), Circuit::Closed);
    scene.guarded.probe().await.unwrap();
    assert_eq!(scene.circuit(), Circuit::Closed);
}

/// A clock that is set back could otherwise keep a circuit open for as long as it was set back.
#[tokio::test]
async fn a_clock_that_is_set_back_ends_the_pause() {
    let scene = Scene::open().await;
    scene.clock.set_wall(Duration::from_secs(1_700_000_000));
    scene.log_in(1, None).await;
    assert_eq!(scene.circuit(), Circuit::Closed);
}

#[tokio::test]
async fn a_panic_of_the_adapter_is_a_fault_of_its_call_and_told_as_one() {
    #[derive(Debug)]
    struct Panics;
    #[async_trait]
    impl IamAdapter for Panics {
        fn name(&self) -> &'static str {
            "panics"
        }
        fn issuer(&self) -> &'static str {
            "urn:panics"
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities {
                back_channel_logout: false,
                ..Capabilities::FULL
            }
        }
        async fn authenticate(
            &self,
            _: &Credentials,
            _: &ClientContext,
        ) -> Result<Authenticated, IamError> {
            tokio::task::yield_now().await;
            panic!("as it always does")
        }
        async fn introspect(&self, _: &UpstreamSession) -> Result<Introspection, IamError> {
            panic!("as it always does")
        }
        async fn end_session(&self, _: &UpstreamSession) -> Result<(), IamError> {
            panic!("as it always does")
        }
        fn logout_audience(&self) -> Option<&str> {
            None
        }
        async fn verification_keys(&self) -> Result<VerificationKeys, IamError> {
            panic!("as it always does")
        }
        async fn probe(&self) -> Result<(), IamError> {
            panic!("as it always does")
        }
    }
    let limit = Limit {
        deadline: Duration::from_secs(5),
        concurrency: 1,
    };
    let limits = Limits {
        login: limit,
        introspection: limit,
        logout: limit,
        keys: limit,
        probe: limit,
    };
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Duration::ZERO));
    let seen = Arc::<Seen>::default();
    let observer: Arc<dyn Observer> = Arc::<Seen>::clone(&seen);
    let guarded = Guarded::new(Arc::new(Panics), limits, &clock, &observer);
    let fault = IamError::Unreadable("the adapter panicked".to_owned());
    for _ in 0..30 {
        assert_eq!(authenticate(&guarded).await.err(), Some(fault.clone()));
        let asked = guarded.introspect(&session()).await;
        assert_eq!(asked, Err(fault.clone()));
        assert_eq!(guarded.end_session(&session()).await, Err(fault.clone()));
        assert_eq!(guarded.probe().await, Err(fault.clone()));
    }
    let seen = seen.0.lock().unwrap();
    assert_eq!(seen.len(), 120);
    assert!(seen.iter().all(|(_, end)| *end == Some("unreadable")));
}
