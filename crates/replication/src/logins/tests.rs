use aws_lc_rs::rand::SystemRandom;
use futures_util::FutureExt as _;

use super::*;
use auth_gateway_core::login_limiter::LoginChange;

/// Sends an event, and returns whether another one was dropped for it.
fn send(outboxes: &LoginOutboxes, change: LoginChange) -> bool {
    outboxes.publish(LoginEvent {
        at: 0,
        forget_at: u64::MAX,
        change,
    })
}

#[test]
fn events_are_numbered_and_failures_remove_only_failures_from_a_full_outbox() {
    let outboxes = LoginOutboxes::new(2, &SystemRandom::new());
    assert!(!send(&outboxes, LoginChange::KnownNetwork { pair: 1 }));
    let dropped = (1..=5).map(|of| send(&outboxes, LoginChange::Succeeded { of }));
    assert_eq!(
        dropped.collect::<Vec<_>>(),
        [false, false, true, true, true]
    );
    let numbers = |log| {
        let waiting = outboxes.of(log).offer(9, |_| Some(())).now_or_never();
        let waiting = waiting.unwrap();
        waiting
            .iter()
            .map(|(event, ())| event.number)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(Replicated::KnownNetworks), [1]);
    assert_eq!(numbers(Replicated::Logins), [5, 6]);
}
