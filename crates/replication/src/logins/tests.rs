use aws_lc_rs::rand::SystemRandom;

use super::*;
use crate::log::tests::replica;
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
        let waiting = outboxes.of(log).outbox.offer(9, |_| Some(()));
        waiting
            .iter()
            .map(|(event, ())| event.number)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(Replicated::KnownNetworks), [1]);
    assert_eq!(numbers(Replicated::Logins), [4, 5]);
}

/// Redis refused the first and the second one, and stored them when they were sent again.
#[test]
fn each_event_is_received_once_also_after_later_ones() {
    let outbox = Outbox::new(QUEUE_MAX);
    let codec = LoginCodec {
        replica: replica(),
        received: Mutex::default(),
    };
    let apply = |number| {
        let numbered = NumberedEvent {
            replica: 7,
            number,
            event: LoginEvent {
                at: 0,
                forget_at: u64::MAX,
                change: LoginChange::Succeeded { of: 1 },
            },
        };
        let entries = codec.encode(&[(numbered, ())]);
        codec.apply(&entries[0], &outbox)
    };
    for number in [3, 1, 2, 4] {
        assert_eq!(apply(number), Some(EntryOutcome::Received), "{number}");
    }
    for number in 1..=4 {
        assert_eq!(apply(number), None, "{number}");
    }
}

#[test]
fn number_of_missing_events_is_bounded() {
    let mut received = ReceivedNumbers::default();
    let most = u64::try_from(MISSING_MAX).unwrap();
    assert!(received.insert(u64::MAX - 2));
    assert!(received.insert(u64::MAX));
    assert_eq!(received.missing.len(), MISSING_MAX);
    assert!(received.insert(u64::MAX - 1));
    assert!(received.insert(u64::MAX - 1 - most));
    assert!(!received.insert(u64::MAX - 2 - most));
}
