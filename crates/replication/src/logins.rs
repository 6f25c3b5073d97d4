//! The logs of login events: one of known networks, and one of everything else, so that failed logins remove no
//! networks.
//!
//! Each event has the id of its replica, which is random at each start, and a number of its log there. An event whose
//! number was received before is ignored. So a stream can be read again, a batch can be sent again, and a replay has
//! no effect; what this replica sent is counted already.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::log::{BATCH_MAX, Codec, Log};
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

/// How many missing numbers of a replica are kept at most, the highest. Redis refuses no more events than are sent at
/// once, before they are sent again.
const MISSING_MAX: usize = BATCH_MAX;

pub(super) type LoginLog = Log<LoginCodec, ENTRY_LEN>;

/// Sends the login events of a gateway to one of two logs, and numbers them.
#[derive(Debug)]
pub(super) struct LoginOutboxes {
    replica: u64,
    failures: NumberingOutbox,
    known_networks: NumberingOutbox,
}

/// The outbox of one of the logs, and the number of the last event.
#[derive(Debug)]
struct NumberingOutbox {
    last: Mutex<u64>,
    outbox: Outbox<NumberedEvent>,
}

impl NumberingOutbox {
    fn new(max: usize) -> Self {
        Self {
            last: Mutex::new(0),
            outbox: Outbox::new(max),
        }
    }
}

impl LoginOutboxes {
    pub(super) fn new(max: usize, random: &dyn Random) -> Self {
        let mut replica = [0; 8];
        // Without random numbers no login succeeds.
        let _ = random.fill(&mut replica);
        Self {
            replica: u64::from_be_bytes(replica),
            failures: NumberingOutbox::new(max),
            known_networks: NumberingOutbox::new(max),
        }
    }

    fn of(&self, log: Replicated) -> &NumberingOutbox {
        match log {
            Replicated::KnownNetworks => &self.known_networks,
            _ => &self.failures,
        }
    }
}

impl LoginPublisher for LoginOutboxes {
    fn publish(&self, event: LoginEvent) -> bool {
        let NumberingOutbox { last, outbox } = self.of(event.change.log());
        // Held until it is queued: events are queued in the order of their numbers.
        let mut last = last.lock();
        *last += 1;
        outbox.push(NumberedEvent {
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
    [Replicated::Logins, Replicated::KnownNetworks].map(|of| {
        let codec = LoginCodec {
            replica: Arc::clone(replica),
            received: Mutex::new(HashMap::from([(outboxes.replica, ReceivedNumbers::ALL)])),
        };
        let outbox = outboxes.of(of).outbox.clone();
        Log::new(redis.stream(of), codec, outbox, replica)
    })
}

/// The login events of a gateway, and those of the others, which count there.
#[derive(Debug)]
pub(super) struct LoginCodec {
    replica: Arc<ReplicaState>,
    /// The numbers of each replica. A start of a replica adds an entry, and no attacker can.
    received: Mutex<HashMap<u64, ReceivedNumbers>>,
}

/// Which numbers of a replica were received. The order of its events can change: of those sent at once, Redis can
/// refuse some and store later ones.
#[derive(Debug, Default)]
struct ReceivedNumbers {
    highest: u64,
    /// Lower ones that were not received.
    missing: BTreeSet<u64>,
}

impl ReceivedNumbers {
    const ALL: Self = Self {
        highest: u64::MAX,
        missing: BTreeSet::new(),
    };

    /// Returns whether the number is new.
    fn insert(&mut self, number: u64) -> bool {
        if number <= self.highest {
            return self.missing.remove(&number);
        }
        let skipped = self.highest + 1..number;
        self.missing.extend(skipped.rev().take(MISSING_MAX));
        self.highest = number;
        while self.missing.len() > MISSING_MAX {
            self.missing.pop_first();
        }
        true
    }
}

impl Codec<ENTRY_LEN> for LoginCodec {
    type Item = NumberedEvent;
    type Content = ();

    const READ_PAUSE: Duration = Duration::from_millis(100);

    fn key_ids(&self) -> Vec<[u8; KEY_ID_LEN]> {
        vec![self.replica.keys.identifiers.entries().id()]
    }

    fn load(&self, _event: &NumberedEvent) -> Option<()> {
        Some(())
    }

    fn encode(&self, batch: &[(NumberedEvent, ())]) -> Vec<LoginEntry> {
        let key = self.replica.keys.identifiers.entries();
        let entries = batch.iter();
        entries
            .map(|(event, ())| login_entry::write(event, key))
            .collect()
    }

    fn apply(&self, entry: &LoginEntry, _outbox: &Outbox<NumberedEvent>) -> Option<EntryOutcome> {
        let key = self.replica.keys.identifiers.entries();
        let numbered = match login_entry::read(entry, key) {
            Ok(numbered) => numbered,
            Err(why) => return Some(EntryOutcome::Ignored(why)),
        };
        let mut received = self.received.lock();
        let numbers = received.entry(numbered.replica).or_default();
        if !numbers.insert(numbered.number) {
            return None;
        }
        drop(received);
        Some(
            if self.replica.login_limiter.apply_remote(&numbered.event) {
                EntryOutcome::Received
            } else {
                EntryOutcome::Ignored(Ignored::Expired)
            },
        )
    }
}

#[cfg(test)]
mod tests;
