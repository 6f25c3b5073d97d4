//! A logout that the IAM does not confirm.

use std::time::Duration;

use iam_adapters::resilient::Operation;
use iam_adapters::{IamError, Misconfiguration};

use super::faulty_adapter::{AdapterFixture, Fault};
use super::{BROKEN, STALE, TOO_SLOW, UNAVAILABLE, throttled};

#[tokio::test]
async fn unconfirmed_logout_ends_the_session_at_the_gateway_and_can_be_repeated() {
    let fixture = AdapterFixture::new(&[]);
    let fails_with = |error| Fault::Says(error);
    let tls = IamError::misconfigured(Misconfiguration::Tls, "expired");
    for (fault, expected) in [
        (
            fails_with(IamError::Unreachable("gone".to_owned())),
            UNAVAILABLE,
        ),
        (
            fails_with(IamError::TimedOut(Duration::from_secs(5))),
            TOO_SLOW,
        ),
        (
            fails_with(IamError::Throttled { retry_after: None }),
            throttled(5),
        ),
        (fails_with(IamError::Unreadable("HTML".to_owned())), BROKEN),
        (fails_with(tls), BROKEN),
        (Fault::Panics, BROKEN),
    ] {
        let why = format!("{fault:?}");
        fixture.recovers();
        let session = fixture.log_in().await.session();
        fixture.fails(Operation::Logout, fault);
        for _ in 0..2 {
            let answer = fixture.gateway.log_out(&session).await;
            expected.is_in(&answer, false, &why);
            // Fresh data and an active session at the IAM change nothing.
            let answer = fixture.exchange(&session).await;
            answer.is_error(401, "invalid_grant");
            fixture.clock.advance(STALE);
        }
        fixture.recovers();
        assert_eq!(fixture.gateway.log_out(&session).await.status, 200, "{why}");
        let answer = fixture.exchange(&session).await;
        answer.is_error(401, "invalid_grant");
    }
}
