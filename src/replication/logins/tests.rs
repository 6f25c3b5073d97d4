use futures_util::FutureExt as _;

use super::*;
use auth_gateway_core::event::Subscriber;

fn event(change: LoginChange) -> LoginEvent {
    LoginEvent {
        at: 0,
        forget_at: u64::MAX,
        change,
    }
}

/// The dropped events.
#[derive(Debug, Default)]
struct Dropped(Mutex<Vec<Replicated>>);

impl Subscriber for Dropped {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::Entries {
            of,
            outcome: EntryOutcome::Dropped,
            count: 1,
        } = *event
        {
            lock(&self.0).push(of);
        }
    }
}

#[test]
fn events_are_numbered_and_failures_remove_only_failures_from_a_full_outbox() {
    let dropped = Arc::<Dropped>::default();
    let subscriber: Arc<dyn Subscriber> = Arc::<Dropped>::clone(&dropped);
    let sender = Sender {
        replica: 7,
        last: Mutex::default(),
        failures: Outbox::new(2),
        known_networks: Outbox::new(2),
        subscribers: Subscribers::new([subscriber]),
    };
    sender.send(event(LoginChange::Known { pair: 1 }));
    for of in 1..=5 {
        sender.send(event(LoginChange::Succeeded { of }));
    }
    assert_eq!(*lock(&dropped.0), [Replicated::Logins; 3]);
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
