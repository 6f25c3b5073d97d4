//! Every fault of an adapter, in every operation.

use std::time::Duration;

use iam_adapters::name::Name as _;
use iam_adapters::resilient::Operation;
use iam_adapters::{IamError, Refusal};
use test_support::misconfigurations::MISCONFIGURATIONS;

use super::faulty_adapter::{AdapterFixture, Fault, OPERATIONS};
use super::{BROKEN, Expected, FULL, TOO_SLOW, UNAVAILABLE, precisely, throttled};

async fn check(faults: &[(IamError, Expected)]) {
    for precise in [false, true] {
        let fixture = AdapterFixture::new(&[precisely(precise)]);
        for (fault, expected) in faults {
            for operation in OPERATIONS {
                let why = format!("{fault:?} at {}", operation.name());
                let answer = fixture
                    .call_with_fault(operation, Fault::Error(fault.clone()))
                    .await;
                expected.is_in(&answer, precise, &why);
            }
        }
    }
}

#[tokio::test]
async fn unavailable_iam_is_a_500_with_retry_after() {
    check(&[
        (IamError::Unreachable("unreachable".into()), UNAVAILABLE),
        (IamError::Failed("status 500".to_owned()), UNAVAILABLE),
        (IamError::TimedOut(Duration::from_secs(5)), TOO_SLOW),
        (IamError::CircuitOpen, UNAVAILABLE),
    ])
    .await;
}

#[tokio::test]
async fn unreadable_response_of_the_iam_is_a_500() {
    check(&[(IamError::Unreadable("HTML".into()), BROKEN)]).await;
}

#[tokio::test]
async fn misconfiguration_at_the_iam_is_a_500() {
    let all = MISCONFIGURATIONS.map(|what| (IamError::misconfigured(what, "detail"), BROKEN));
    check(&all).await;
}

#[tokio::test]
async fn throttling_iam_is_a_429_with_its_retry_after() {
    let asks_for = |millis| IamError::Throttled {
        retry_after: Some(Duration::from_millis(millis)),
    };
    check(&[
        (asks_for(7_000), throttled(7)),
        (asks_for(3_600_000), throttled(3_600)),
        // Never zero, because clients would retry in a loop.
        (asks_for(0), throttled(1)),
        (IamError::Throttled { retry_after: None }, throttled(5)),
    ])
    .await;
}

#[tokio::test]
async fn saturated_gateway_is_a_503() {
    check(&[(IamError::Saturated, FULL)]).await;
}

#[tokio::test]
async fn refusal_is_a_401_for_login_and_a_fault_elsewhere() {
    for precise in [false, true] {
        let fixture = AdapterFixture::new(&[precisely(precise)]);
        for refusal in [
            Refusal::InvalidCredentials,
            Refusal::Disabled,
            Refusal::Locked,
            Refusal::Incomplete,
        ] {
            let fault = Fault::Error(IamError::Refused(refusal));
            let answer = fixture
                .call_with_fault(Operation::Login, fault.clone())
                .await;
            answer.is_error(401, "invalid_grant");
            for operation in [Operation::Introspection, Operation::Logout] {
                let answer = fixture.call_with_fault(operation, fault.clone()).await;
                BROKEN.is_in(&answer, precise, operation.name());
            }
        }
    }
}
