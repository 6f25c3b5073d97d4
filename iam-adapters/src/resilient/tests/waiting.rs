use super::*;

#[tokio::test(start_paused = true)]
async fn concurrent_calls_are_bounded_and_waiting_calls_are_refused_after_half_of_their_deadline() {
    let adapter = ScriptedAdapter::gated(0);
    let (iam, _) = resilient(&adapter, 2);
    let began = tokio::time::Instant::now();
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let iam = Arc::clone(&iam);
            tokio::spawn(async move {
                let end = iam.introspect(&session()).await;
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
async fn concurrent_logins_do_not_block_introspection() {
    let adapter = ScriptedAdapter::gated(0);
    let (iam, _) = resilient(&adapter, 1);
    let login = {
        let iam = Arc::clone(&iam);
        tokio::spawn(async move { authenticate(&iam).await.is_err() })
    };
    tokio::task::yield_now().await;
    let introspection = {
        let iam = Arc::clone(&iam);
        tokio::spawn(async move { iam.introspect(&session()).await })
    };
    tokio::task::yield_now().await;
    assert_eq!(adapter.calls(), 2, "both are in flight");
    assert!(login.await.unwrap());
    assert!(introspection.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn call_is_refused_at_once_if_eight_wait_for_each_permit() {
    let adapter = ScriptedAdapter::gated(0);
    let (iam, _) = resilient(&adapter, 2);
    let introspect = || {
        let iam = Arc::clone(&iam);
        tokio::spawn(async move { iam.introspect(&session()).await })
    };
    let mut calls: Vec<_> = (0..2 + 2 * 8).map(|_| introspect()).collect();
    tokio::task::yield_now().await;
    let began = tokio::time::Instant::now();
    let refused = iam.introspect(&session()).await;
    assert_eq!(refused, Err(IamError::Saturated));
    assert_eq!(began.elapsed(), Duration::ZERO);
    // A cancelled call that waits allows another one.
    let cancelled = calls.pop().unwrap();
    cancelled.abort();
    assert!(cancelled.await.unwrap_err().is_cancelled());
    calls.push(introspect());
    tokio::task::yield_now().await;
    adapter.release(calls.len());
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(Introspection::Inactive));
    }
    assert_eq!(adapter.calls(), 18);
}

#[tokio::test(start_paused = true)]
async fn call_with_a_late_permit_has_half_of_its_deadline_left() {
    let adapter = ScriptedAdapter::gated(0);
    let (iam, _) = resilient(&adapter, 1);
    let introspect = || {
        let iam = Arc::clone(&iam);
        tokio::spawn(async move { iam.introspect(&session()).await })
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
