//! The logs of login events: one of known networks, and one of everything else, so that failed logins remove no
//! networks.
//!
//! Each event has the id of its replica, which is random at each start, and a number. An event that
//! does not have a higher number than those before it is ignored. So a stream can be read again, a
//! batch can be sent again, and a replay has no effect; what this replica sent is counted already.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::log::{Codec, Log};
use super::login_entry::{self, ENTRY_LEN, Entry, NumberedEvent};
use super::outbox::Outbox;
use super::redis::Redis;
use auth_gateway_core::entry_key::KEY_ID_LEN;
use auth_gateway_core::event::{EntryOutcome, Event, Ignored, Replicated, Subscribers};
use auth_gateway_core::login_limiter::{LoginChange, LoginEvent, LoginReplicas};
use auth_gateway_core::{Gateway, Random};

/// How many events of a log wait for Redis at most, about 2 MB. The oldest are dropped.
const QUEUE_MAX: usize = 10_000;

pub(super) type LoginLog = Log<LoginCodec, ENTRY_LEN>;

/// The logs of failures and of known networks. The gateway's events are sent through them.
pub(super) fn logs(
    redis: &Redis,
    gateway: &Arc<Gateway>,
    random: &Arc<dyn Random>,
    subscribers: &Subscribers,
) -> [LoginLog; 2] {
    let mut replica = [0; 8];
    // Without random numbers no login succeeds.
    let _ = random.fill(&mut replica);
    let replica = u64::from_be_bytes(replica);
    let logs = [redis.logins(), redis.known_networks()].map(|stream| {
        let codec = LoginCodec {
            gateway: Arc::clone(gateway),
            numbers: Mutex::new(HashMap::from([(replica, u64::MAX)])),
        };
        let outbox = Outbox::new(QUEUE_MAX);
        Log::new(
            stream,
            codec,
            outbox,
            Arc::clone(random),
            subscribers.clone(),
        )
    });
    let [failures, known_networks] = &logs;
    gateway.login_limiter().join(Arc::new(Sender {
        replica,
        last: Mutex::new(0),
        failures: failures.outbox.clone(),
        known_networks: known_networks.outbox.clone(),
        subscribers: subscribers.clone(),
    }));
    logs
}

/// Sends the login events of a gateway, and applies those of the others to it.
#[derive(Debug)]
pub(super) struct LoginCodec {
    gateway: Arc<Gateway>,
    /// The highest number of each replica. A start of a replica adds one, and no attacker can.
    numbers: Mutex<HashMap<u64, u64>>,
}

impl Codec<ENTRY_LEN> for LoginCodec {
    type Item = NumberedEvent;
    type Content = ();

    const READ_PAUSE: Duration = Duration::from_millis(100);

    fn key_ids(&self) -> Vec<[u8; KEY_ID_LEN]> {
        vec![self.gateway.login_limiter().entry_key().id()]
    }

    fn load(&self, _event: &NumberedEvent) -> Option<()> {
        Some(())
    }

    fn encode(&self, batch: &[(NumberedEvent, ())]) -> Vec<Entry> {
        let key = self.gateway.login_limiter().entry_key();
        let entries = batch.iter();
        entries
            .map(|(event, ())| login_entry::write(event, key))
            .collect()
    }

    fn apply(&self, entry: &Entry, _outbox: &Outbox<NumberedEvent>) -> Option<EntryOutcome> {
        let limiter = self.gateway.login_limiter();
        let numbered = match login_entry::read(entry, limiter.entry_key()) {
            Ok(numbered) => numbered,
            Err(why) => return Some(EntryOutcome::Ignored(why)),
        };
        let mut numbers = lock(&self.numbers);
        let highest = numbers.entry(numbered.replica).or_default();
        if numbered.number <= *highest {
            return None;
        }
        *highest = numbered.number;
        drop(numbers);
        Some(if limiter.learn(&numbered.event) {
            EntryOutcome::Received
        } else {
            EntryOutcome::Ignored(Ignored::Expired)
        })
    }
}

/// Numbers the events of this replica.
#[derive(Debug)]
struct Sender {
    replica: u64,
    last: Mutex<u64>,
    failures: Outbox<NumberedEvent>,
    known_networks: Outbox<NumberedEvent>,
    subscribers: Subscribers,
}

impl LoginReplicas for Sender {
    fn send(&self, event: LoginEvent) {
        let (of, outbox) = match event.change {
            LoginChange::Known { .. } => (Replicated::KnownNetworks, &self.known_networks),
            _ => (Replicated::Logins, &self.failures),
        };
        // Held until it is queued: events are queued in the order of their numbers.
        let mut last = lock(&self.last);
        *last += 1;
        let has_dropped = outbox.push(NumberedEvent {
            replica: self.replica,
            number: *last,
            event,
        });
        drop(last);
        if has_dropped {
            self.subscribers.emit(&Event::Entries {
                of,
                outcome: EntryOutcome::Dropped,
                count: 1,
            });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
