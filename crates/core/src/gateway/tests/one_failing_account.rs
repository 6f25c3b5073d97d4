//! An IAM that fails for one account serves all others, whatever clients of that account do.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::resilient::CallLimit;
use test_support::resilient::resilient;

use super::test_gateway::{LIVENESS, TestGateway, policy};
use test_support::scripted_iam::ScriptedIam;

/// A gateway with deadlines and circuit breakers.
fn gateway() -> TestGateway {
    let limit = CallLimit {
        deadline: Duration::from_secs(2),
        concurrency: 128,
    };
    TestGateway::with_adapter(ScriptedIam::default(), policy(), |iam, clock| {
        Arc::new(resilient(iam, limit, clock))
    })
}

fn failed() -> IamError {
    IamError::Failed("status 500".to_owned())
}

#[tokio::test]
async fn session_whose_introspections_fail_does_not_stop_the_exchanges_of_others() {
    let gateway = gateway();
    let session = gateway.log_in("alice").await;
    let mut others = Vec::new();
    for number in 0..40 {
        others.push(gateway.log_in(&format!("user{number}")).await);
    }
    gateway.iam.fail_for("alice", failed());
    gateway.clock.advance(LIVENESS);
    for other in &others {
        for _ in 0..40 {
            gateway.granted(&session).await.unwrap_err();
        }
        gateway.granted(other).await.unwrap();
        gateway.clock.advance(Duration::from_millis(250));
    }
    // One in a second.
    assert_eq!(gateway.introspections(), 10 + others.len());
}

#[tokio::test]
async fn account_whose_logins_fail_does_not_stop_the_logins_of_others() {
    let gateway = gateway();
    gateway.iam.fail_for("alice", failed());
    for number in 0..40 {
        for _ in 0..40 {
            let login = gateway.try_log_in("alice@example.test", "right").await;
            assert_eq!(login.err(), Some(failed().into()));
        }
        gateway.log_in(&format!("user{number}")).await;
        gateway.clock.advance(Duration::from_millis(250));
    }
}

#[tokio::test]
async fn iam_that_fails_for_all_sessions_gets_no_further_calls() {
    let gateway = gateway();
    let mut sessions = Vec::new();
    for number in 0..40 {
        sessions.push(gateway.log_in(&format!("user{number}")).await);
    }
    gateway.clock.advance(LIVENESS);
    gateway.iam.set_outage(Some(failed()));
    for (number, session) in sessions.iter().enumerate() {
        let expected = if number < 20 {
            failed()
        } else {
            IamError::CircuitOpen
        };
        let exchanged = gateway.granted(session).await;
        assert_eq!(exchanged, Err(expected.into()), "{number}");
    }
    assert_eq!(gateway.introspections(), 20);
}
