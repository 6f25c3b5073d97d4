use super::*;

#[tokio::test]
async fn idempotent_call_is_retried_once_if_the_iam_is_unreachable() {
    let adapter = ScriptedAdapter::failing(&[unreachable()]);
    let (iam, _) = resilient(&adapter, 1);
    assert_eq!(
        iam.introspect(&session()).await,
        Ok(Introspection::Inactive)
    );
    assert_eq!(adapter.calls(), 2);

    let adapter = ScriptedAdapter::failing(&[unreachable(), unreachable(), unreachable()]);
    let (iam, observer) = super::resilient(&adapter, 1);
    assert_eq!(iam.end_session(&session()).await, Err(unreachable()));
    assert_eq!(adapter.calls(), 2);
    assert_eq!(
        *observer.calls.lock().unwrap(),
        [(Operation::Logout, Some("unreachable"))],
        "one call is observed, including its retry"
    );
}

#[tokio::test]
async fn login_is_never_retried() {
    let adapter = ScriptedAdapter::failing(&[unreachable(), unreachable()]);
    let (iam, _) = resilient(&adapter, 1);
    assert!(authenticate(&iam).await.is_err());
    assert_eq!(adapter.calls(), 1);
}

#[tokio::test]
async fn only_an_unreachable_iam_causes_a_retry() {
    for fault in [
        IamError::Failed("status 503".to_owned()),
        IamError::Throttled { retry_after: None },
        IamError::Unreadable("html".into()),
        IamError::TimedOut(Duration::from_secs(1)),
    ] {
        let adapter = ScriptedAdapter::failing(std::slice::from_ref(&fault));
        let (iam, _) = resilient(&adapter, 1);
        assert_eq!(iam.probe().await, Err(fault));
        assert_eq!(adapter.calls(), 1);
    }
}

/// Every third call fails once, and succeeds when it is retried.
#[tokio::test]
async fn retries_add_at_most_a_tenth_to_the_calls() {
    const CALLS: usize = 1_000;
    let adapter = ScriptedAdapter::failing(&[]);
    let (iam, observer) = resilient(&adapter, 1);
    let mut served = 0;
    for number in 0..CALLS {
        if number % 3 == 0 {
            adapter.fail_next(unreachable());
        }
        served += usize::from(iam.introspect(&session()).await.is_ok());
    }
    let attempts = adapter.calls();
    assert!(
        (CALLS + 95..=CALLS + CALLS / 10).contains(&attempts),
        "{attempts}"
    );
    // Each retry succeeded.
    assert_eq!(served, CALLS - CALLS.div_ceil(3) + (attempts - CALLS));
    assert_eq!(
        *observer.circuits.lock().unwrap(),
        [],
        "a third is no outage"
    );
}

#[tokio::test]
async fn retry_budget_covers_the_last_ten_seconds() {
    let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
    let adapter = ScriptedAdapter::failing(&[]);
    let (iam, _) = resilient_at(&clock, &adapter, 1);
    for _ in 0..3 {
        adapter.set_fault(Some(unreachable()));
        for attempts in [2, 2, 2, 1, 1] {
            let before = adapter.calls();
            iam.end_session(&session()).await.unwrap_err();
            assert_eq!(adapter.calls() - before, attempts);
        }
        clock.advance(Duration::from_secs(10));
    }
}
