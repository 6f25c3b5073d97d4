use futures_util::FutureExt as _;

use super::*;
use crate::telemetry::metrics::Metrics;

fn event(change: LoginChange) -> LoginEvent {
    LoginEvent {
        at: 0,
        forget_at: u64::MAX,
        change,
    }
}

#[test]
fn events_are_numbered_and_failures_remove_only_failures_from_a_full_outbox() {
    let metrics = Metrics::default();
    let sender = Sender {
        replica: 7,
        last: Mutex::default(),
        failures: Outbox::new(2),
        known_networks: Outbox::new(2),
        metrics: metrics.replicas(),
    };
    sender.send(event(LoginChange::Known { pair: 1 }));
    for of in 1..=5 {
        sender.send(event(LoginChange::Succeeded { of }));
    }
    let dropped = "login_events_total{outcome=\"dropped\"} 3\n";
    assert!(metrics.encode().contains(dropped));
    let numbers = |outbox: &Outbox<NumberedEvent>| {
        let waiting = outbox.offer(9, |_| Some(())).now_or_never().unwrap();
        waiting
            .iter()
            .map(|(event, ())| event.number)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(&sender.known_networks), [1]);
    assert_eq!(numbers(&sender.failures), [5, 6]);
}
