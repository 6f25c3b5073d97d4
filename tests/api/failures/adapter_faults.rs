//! Every fault of an adapter, in every operation.

use std::time::Duration;

use iam_adapters::name::Name as _;
use iam_adapters::resilient::Operation;
use iam_adapters::{IamError, Refusal};
use test_support::misconfigurations::MISCONFIGURATIONS;
use test_support::scenario::{Fault, OPERATIONS, Scenario};

use super::{BROKEN, FULL, TOO_SLOW, UNAVAILABLE, precisely, throttled};

/// What the IAM asks for in milliseconds.
fn throttling(millis: Option<u64>) -> IamError {
    IamError::Throttled {
        retry_after: millis.map(Duration::from_millis),
    }
}

#[tokio::test]
async fn each_fault_of_the_iam_has_its_own_response_in_every_operation() {
    let mut faults = vec![
        (IamError::Unreachable("unreachable".into()), UNAVAILABLE),
        (IamError::Failed("status 500".to_owned()), UNAVAILABLE),
        (IamError::TimedOut(Duration::from_secs(5)), TOO_SLOW),
        (IamError::CircuitOpen, UNAVAILABLE),
        (IamError::Unreadable("HTML".into()), BROKEN),
        (IamError::Saturated, FULL),
        (throttling(Some(7_000)), throttled(7)),
        (throttling(Some(3_600_000)), throttled(3_600)),
        // Never zero, because clients would retry in a loop.
        (throttling(Some(0)), throttled(1)),
        (throttling(None), throttled(5)),
    ];
    faults.extend(MISCONFIGURATIONS.map(|what| (IamError::misconfigured(what, "detail"), BROKEN)));
    for precise in [false, true] {
        let fixture = Scenario::new(&[precisely(precise)]);
        for (fault, expected) in &faults {
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
async fn refusal_is_a_401_for_login_and_a_fault_elsewhere() {
    for precise in [false, true] {
        let fixture = Scenario::new(&[precisely(precise)]);
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
