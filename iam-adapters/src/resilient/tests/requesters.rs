//! One account, address or user whose calls fail does not open the circuit for all others.

use super::circuit::{Fixture, PAUSE, failed};
use super::*;

/// Failures that may be about one account alone.
fn failures() -> [IamError; 3] {
    [
        failed(),
        IamError::TimedOut(Duration::from_secs(5)),
        IamError::Disconnected("the connection broke".into()),
    ]
}

impl Fixture {
    /// Makes logins that fail in this way: of one account from many addresses, of many accounts from one
    /// address, or of an account and an address that are always others.
    async fn fail(&self, times: u32, fault: &IamError, account: Option<&str>, one_address: bool) {
        self.adapter.set_fault(Some(fault.clone()));
        for number in 0..times {
            let email = account.map_or(format!("{number}@b"), str::to_owned);
            let number = if one_address { 0 } else { number };
            let address = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number));
            let end = authenticate_as(&self.iam, &email, Some(address)).await;
            assert_eq!(end.err().as_ref(), Some(fault));
        }
        self.adapter.set_fault(None);
    }
}

#[tokio::test]
async fn account_whose_logins_fail_does_not_open_the_circuit() {
    for fault in failures() {
        let fixture = Fixture::new();
        fixture.fail(500, &fault, Some("one@b"), false).await;
        fixture.log_in(10, None).await;
        assert_eq!(fixture.circuit(), Circuit::Closed);
        assert_eq!(fixture.adapter.calls(), 510);
    }
}

#[tokio::test]
async fn address_whose_logins_fail_does_not_open_the_circuit() {
    for fault in failures() {
        let fixture = Fixture::new();
        fixture.fail(500, &fault, None, true).await;
        fixture.log_in(10, None).await;
        assert_eq!(fixture.circuit(), Circuit::Closed);
    }
}

#[tokio::test]
async fn logins_that_fail_for_all_accounts_and_addresses_open_the_circuit() {
    for fault in failures() {
        let fixture = Fixture::new();
        fixture.fail(20, &fault, None, false).await;
        assert_eq!(fixture.circuit(), Circuit::Open);
    }
}

#[tokio::test]
async fn user_whose_introspections_and_logouts_fail_opens_no_circuit() {
    let fixture = Fixture::new();
    fixture.adapter.set_fault(Some(failed()));
    for _ in 0..100 {
        assert_eq!(fixture.iam.introspect(&session()).await, Err(failed()));
        assert_eq!(fixture.iam.end_session(&session()).await, Err(failed()));
    }
    assert_eq!(*fixture.observer.circuits.lock().unwrap(), []);
}

/// No request reached it, so it did not fail because of one.
#[tokio::test]
async fn server_that_cannot_be_reached_opens_the_circuit_also_for_one_account() {
    let fixture = Fixture::new();
    fixture.fail(20, &unreachable(), Some("one@b"), true).await;
    assert_eq!(fixture.circuit(), Circuit::Open);
}

/// The probe is for no user, so its failure is about all of them.
#[tokio::test]
async fn after_a_failed_probe_the_failures_of_one_account_open_the_circuit() {
    for (probe, circuit) in [
        (Some(failed()), Circuit::Open),
        (None, Circuit::Closed),
        // The server responds.
        (Some(IamError::Unreadable("".into())), Circuit::Closed),
    ] {
        let fixture = Fixture::new();
        for probe in [Some(failed()), probe.clone()] {
            fixture.adapter.set_fault(probe.clone());
            assert_eq!(fixture.iam.probe().await.err(), probe);
        }
        fixture.fail(20, &failed(), Some("one@b"), true).await;
        assert_eq!(fixture.circuit(), circuit, "{probe:?}");
    }
}

#[tokio::test]
async fn account_counts_again_after_ten_seconds() {
    for (later, others, circuit) in [(9, 18, Circuit::Closed), (10, 19, Circuit::Open)] {
        let fixture = Fixture::new();
        fixture.fail(1, &failed(), Some("one@b"), true).await;
        fixture.clock.advance(Duration::from_secs(later));
        fixture.log_in(others, Some(&failed())).await;
        fixture.fail(1, &failed(), Some("one@b"), true).await;
        assert_eq!(fixture.circuit(), circuit, "{later} s");
    }
}

#[tokio::test]
async fn account_whose_logins_still_fail_does_not_keep_the_circuit_open() {
    let fixture = Fixture::new();
    fixture.fail(1, &failed(), Some("one@b"), false).await;
    fixture.log_in(19, Some(&failed())).await;
    assert_eq!(fixture.circuit(), Circuit::Open);
    fixture.clock.advance(PAUSE);
    fixture.fail(100, &failed(), Some("one@b"), false).await;
    assert_eq!(fixture.circuit(), Circuit::HalfOpen);
    fixture.log_in(1, None).await;
    assert_eq!(fixture.circuit(), Circuit::Closed);
}

#[tokio::test]
async fn debug_of_the_adapter_shows_no_account() {
    let fixture = Fixture::new();
    fixture.fail(1, &failed(), Some("canary@b"), false).await;
    assert!(!format!("{:?}", fixture.iam).contains("canary"));
}
