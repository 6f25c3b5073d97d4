use super::*;
use crate::telemetry::metrics::Metrics;

fn event(at: u64) -> LoginEvent {
    LoginEvent {
        at,
        forget_at: u64::MAX,
        change: LoginChange::Succeeded { of: 1 },
    }
}

#[test]
fn full_queue_drops_the_oldest_events_and_counts_them() {
    let metrics = Metrics::default();
    let queue = Queue {
        replica: 7,
        events: Mutex::default(),
        added: Notify::new(),
        metrics: metrics.replicas(),
    };
    let has_dropped = |count: u64| {
        let series = format!("login_events_total{{outcome=\"dropped\"}} {count}\n");
        metrics.encode().contains(&series)
    };
    let most = u64::try_from(QUEUE_MAX).unwrap();
    for at in 1..=most {
        queue.send(event(at));
    }
    assert!(has_dropped(0));
    for at in most + 1..=most + 3 {
        queue.send(event(at));
    }
    assert!(has_dropped(3));
    let waiting = queue.first(usize::MAX);
    assert_eq!(waiting.len(), QUEUE_MAX);
    let at = |numbered: &NumberedEvent| (numbered.number, numbered.event.at);
    assert_eq!(waiting.first().map(at), Some((4, 4)));
    assert_eq!(waiting.last().map(at), Some((most + 3, most + 3)));
    queue.remove_up_to(4);
    assert_eq!(queue.first(1).first().map(at), Some((5, 5)));
}
