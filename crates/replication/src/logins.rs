//! The logs of login events: one of known networks, and one of everything else, so that failed logins remove no
//! networks.
//!
//! Each event has the id of its replica, which is random at each start, and a number. An event that
//! does not have a higher number than those before it is ignored. So a stream can be read again, a
//! batch can be sent again, and a replay has no effect; what this replica sent is counted already.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::log::{Codec, Log};
use super::login_entry::{self, ENTRY_LEN, LoginEntry, NumberedEvent};
use super::outbox::Outbox;
use super::redis::Redis;
use auth_gateway_core::Random;
use auth_gateway_core::event::{EntryOutcome, Ignored, Replicated};
use auth_gateway_core::login_limiter::{LoginEvent, LoginPublisher};
use auth_gateway_core::replica_state::ReplicaState;
use auth_gateway_core::stream_mac_key::KEY_ID_LEN;

/// How many events of a log wait for Redis at most, about 2 MB. The oldest are dropped.
pub(super) const QUEUE_MAX: usize = 10_000;

pub(super) type LoginLog = Log<LoginCodec, ENTRY_LEN>;

/// Sends the login events of a gateway to one of two logs, and numbers them.
#[derive(Debug)]
pub(super) struct LoginOutboxes {
    replica: u64,
    last: Mutex<u64>,
    failures: Outbox<NumberedEvent>,
    known_networks: Outbox<NumberedEvent>,
}

impl LoginOutboxes {
    pub(super) fn new(max: usize, random: &dyn Random) -> Self {
        let mut replica = [0; 8];
        // Without random numbers no login succeeds.
        let _ = random.fill(&mut replica);
        Self {
            replica: u64::from_be_bytes(replica),
            last: Mutex::new(0),
            failures: Outbox::new(max),
            known_networks: Outbox::new(max),
        }
    }

    fn of(&self, log: Replicated) -> &Outbox<NumberedEvent> {
        match log {
            Replicated::KnownNetworks => &self.known_networks,
            _ => &self.failures,
        }
    }
}

impl LoginPublisher for LoginOutboxes {
    fn publish(&self, event: LoginEvent) -> bool {
        // Held until it is queued: events are queued in the order of their numbers.
        let mut last = self.last.lock();
        *last += 1;
        self.of(event.change.log()).push(NumberedEvent {
            replica: self.replica,
            number: *last,
            event,
        })
    }
}

/// The logs of failures and of known networks.
pub(super) fn logs(
    redis: &Redis,
    outboxes: &LoginOutboxes,
    replica: &Arc<ReplicaState>,
) -> [LoginLog; 2] {
    [redis.logins(), redis.known_networks()].map(|stream| {
        let codec = LoginCodec {
            replica: Arc::clone(replica),
            numbers: Mutex::new(HashMap::from([(outboxes.replica, u64::MAX)])),
        };
        let outbox = outboxes.of(stream.of).clone();
        Log::new(stream, codec, outbox, replica)
    })
}

/// The login events of a gateway, and those of the others, which count there.
#[derive(Debug)]
pub(super) struct LoginCodec {
    replica: Arc<ReplicaState>,
    /// The highest number of each replica. A start of a replica adds one, and no attacker can.
    numbers: Mutex<HashMap<u64, u64>>,
}

impl Codec<ENTRY_LEN> for LoginCodec {
    type Item = NumberedEvent;
    type Content = ();

    const READ_PAUSE: Duration = Duration::from_millis(100);

    fn key_ids(&self) -> Vec<[u8; KEY_ID_LEN]> {
        vec![self.replica.login_limiter.stream_mac_key().id()]
    }

    fn load(&self, _event: &NumberedEvent) -> Option<()> {
        Some(())
    }

    fn encode(&self, batch: &[(NumberedEvent, ())]) -> Vec<LoginEntry> {
        let key = self.replica.login_limiter.stream_mac_key();
        let entries = batch.iter();
        entries
            .map(|(event, ())| login_entry::write(event, key))
            .collect()
    }

    fn apply(&self, entry: &LoginEntry, _outbox: &Outbox<NumberedEvent>) -> Option<EntryOutcome> {
        let limiter = &self.replica.login_limiter;
        let numbered = match login_entry::read(entry, limiter.stream_mac_key()) {
            Ok(numbered) => numbered,
            Err(why) => return Some(EntryOutcome::Ignored(why)),
        };
        let mut numbers = self.numbers.lock();
        let highest = numbers.entry(numbered.replica).or_default();
        if numbered.number <= *highest {
            return None;
        }
        *highest = numbered.number;
        drop(numbers);
        Some(if limiter.apply_remote(&numbered.event) {
            EntryOutcome::Received
        } else {
            EntryOutcome::Ignored(Ignored::Expired)
        })
    }
}

#[cfg(test)]
mod tests;
