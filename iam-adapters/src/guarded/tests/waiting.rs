use super::*;

#[tokio::test(start_paused = true)]
async fn no_more_calls_are_under_way_than_the_bound_and_the_rest_is_refused_at_half_of_its_deadline()
 {
    let adapter = Scripted::gated();
    let (guarded, _) = guarded(&adapter, 2);
    let began = tokio::time::Instant::now();
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let guarded = Arc::clone(&guarded);
            tokio::spawn(async move {
                let end = guarded.introspect(&session()).await;
                (end.map_err(|error| error.kind()), began.elapsed().as_secs())
            })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(adapter.calls(), 2);
    let mut outcomes = Vec::new();
    for call in calls {
        outcomes.push(call.await.unwrap());
    }
    outcomes.sort_by_key(|outcome| format!("{outcome:?}"));
    assert_eq!(
        outcomes,
        [
            (Err("saturated"), 1),
            (Err("saturated"), 1),
            (Err("saturated"), 1),
            (Err("timed_out"), 2),
            (Err("timed_out"), 2)
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

#[tokio::test(start_paused = true)]
async fn who_finds_eight_waiting_for_each_place_is_refused_at_once() {
    let adapter = Scripted::gated();
    let (guarded, _) = guarded(&adapter, 2);
    let introspect = || {
        let guarded = Arc::clone(&guarded);
        tokio::spawn(async move { guarded.introspect(&session()).await })
    };
    let mut calls: Vec<_> = (0..2 + 2 * 8).map(|_| introspect()).collect();
    tokio::task::yield_now().await;
    let began = tokio::time::Instant::now();
    let refused = guarded.introspect(&session()).await;
    assert_eq!(refused, Err(IamError::Saturated));
    assert_eq!(began.elapsed(), Duration::ZERO);
    // One that waits and gives up makes room for another.
    let given_up = calls.pop().unwrap();
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    calls.push(introspect());
    tokio::task::yield_now().await;
    adapter.release(calls.len());
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(Introspection::Inactive));
    }
    assert_eq!(adapter.calls(), 18);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_finds_a_place_late_has_half_of_its_deadline_left() {
    let adapter = Scripted::gated();
    let (guarded, _) = guarded(&adapter, 1);
    let introspect = || {
        let guarded = Arc::clone(&guarded);
        tokio::spawn(async move { guarded.introspect(&session()).await })
    };
    let first = introspect();
    tokio::task::yield_now().await;
    let second = introspect();
    tokio::time::sleep(Duration::from_millis(999)).await;
    adapter.release(1);
    assert_eq!(first.await.unwrap(), Ok(Introspection::Inactive));
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert!(!second.is_finished());
    adapter.release(1);
    assert_eq!(second.await.unwrap(), Ok(Introspection::Inactive));
}
