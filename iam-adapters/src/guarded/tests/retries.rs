use super::*;

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
    let (guarded, seen) = super::guarded(&adapter, 1);
    assert_eq!(guarded.end_session(&session()).await, Err(unreachable()));
    assert_eq!(adapter.calls(), 2);
    assert_eq!(
        *seen.0.lock().unwrap(),
        [(Operation::Logout, Some("unreachable"))],
        "one call is observed, whatever it took"
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

/// Every third call meets a connection that breaks, and is served when it is tried again.
#[tokio::test]
async fn an_iam_that_is_often_out_of_reach_gets_hardly_more_calls_for_it() {
    const CALLS: usize = 1_000;
    let adapter = Scripted::failing(&[]);
    let (guarded, seen) = guarded(&adapter, 1);
    let mut served = 0;
    for number in 0..CALLS {
        if number % 3 == 0 {
            adapter.faults.lock().unwrap().push(unreachable());
        }
        served += usize::from(guarded.introspect(&session()).await.is_ok());
    }
    let attempts = adapter.calls();
    assert!(
        (CALLS + 95..=CALLS + CALLS / 10).contains(&attempts),
        "{attempts}"
    );
    // Each further attempt has saved a call.
    assert_eq!(served, CALLS - CALLS.div_ceil(3) + (attempts - CALLS));
    assert_eq!(*seen.1.lock().unwrap(), [], "a third is no outage");
}

#[tokio::test]
async fn the_budget_of_further_attempts_is_that_of_the_last_ten_seconds() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let adapter = Scripted::failing(&[]);
    let (guarded, _) = guarded_by(&clock, &adapter, 1);
    for _ in 0..3 {
        adapter.breaks_down(Some(unreachable()));
        for attempts in [2, 2, 2, 1, 1] {
            let before = adapter.calls();
            guarded.end_session(&session()).await.unwrap_err();
            assert_eq!(adapter.calls() - before, attempts);
        }
        clock.advance(Duration::from_secs(10));
    }
}
