//! Delivers revocations between replicas at once, and stores them for later ones, as Redis does. Also
//! stores the cached data that they share, by the true time.

use std::collections::HashMap;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use auth_gateway_core::Gateway;
use auth_gateway_core::replica_state::Replicas;
use auth_gateway_core::results::LookUp;
use auth_gateway_core::revocations::{Delivered, RevocationPublisher};
use auth_gateway_core::revocations::{Revocation, RevocationId, RevocationIndex};
use auth_gateway_core::shared_cache::{LookUpFuture, SharedCache, Stored};

use iam_adapters::Clock as _;
use test_support::ManualClock;

use super::scenario::REPLICAS;

/// The connection between all replicas.
pub(super) struct ReplicationStream {
    connected: Mutex<[Option<Weak<Gateway>>; REPLICAS]>,
    stored: Mutex<Vec<Revocation>>,
    /// What the replicas have not sent yet. It is sent in the form that their tables have then.
    unsent: Mutex<[Vec<RevocationIndex>; REPLICAS]>,
    /// Cached data, with its expiry by the clock of Redis.
    cached: Mutex<HashMap<RevocationId, (Vec<u8>, Duration)>>,
    clock: Arc<ManualClock>,
}

/// The connection of one replica to the others.
#[derive(Debug)]
struct Sender {
    stream: Arc<ReplicationStream>,
    number: usize,
}

impl ReplicationStream {
    /// Without replicas. `clock` is that of Redis.
    pub(super) fn new(clock: Arc<ManualClock>) -> Self {
        Self {
            connected: Mutex::default(),
            stored: Mutex::default(),
            unsent: Mutex::default(),
            cached: Mutex::default(),
            clock,
        }
    }

    /// How the gateway of this replica reaches the others. It is not connected yet, and issues no tokens.
    pub(super) fn sharing(self: &Arc<Self>, number: usize) -> Replicas {
        // They were in the memory of the gateway before it.
        self.unsent()[number].clear();
        let sender = || {
            let stream = Arc::clone(self);
            Arc::new(Sender { stream, number })
        };
        Replicas {
            revocations: Some(sender()),
            logins: None,
            cache: Some(sender()),
        }
    }

    /// Tells a gateway that has begun the time of Redis.
    pub(super) fn measure(&self, gateway: &Gateway) {
        let now = gateway.replica.clock.now();
        let timeline = &gateway.replica.timeline;
        timeline.measured(now, self.clock.now().unix, now);
    }

    pub(super) fn disconnect(&self, number: usize) {
        self.connected()[number] = None;
    }

    /// Whether the replica is connected.
    pub(super) fn is_connected(&self, number: usize) -> bool {
        self.connected()[number].is_some()
    }

    /// Connects the replica: it sends its pending revocations and receives all earlier ones.
    pub(super) fn connect(&self, number: usize, gateway: &Arc<Gateway>) {
        self.connected()[number] = Some(Arc::downgrade(gateway));
        self.deliver(number);
        let revocations = &gateway.replica.revocations;
        for revocation in &*self.stored() {
            revocations.apply_remote(revocation, gateway.replica.clock.now());
        }
        revocations.initial_sync_done(gateway.replica.clock.now());
    }

    /// Delivers the pending revocations of a connected replica to all others.
    fn deliver(&self, number: usize) {
        let connected = self.connected().clone();
        let Some(sender) = connected[number].as_ref().and_then(Weak::upgrade) else {
            return;
        };
        let pending = std::mem::take(&mut self.unsent()[number]);
        let pending = pending.iter();
        let pending: Vec<_> = pending
            .filter_map(|index| sender.replica.revocations.get(index))
            .collect();
        let others = connected.iter().enumerate();
        let others = others.filter(|(other, _)| *other != number);
        for gateway in others.filter_map(|(_, other)| other.as_ref()?.upgrade()) {
            for revocation in &pending {
                let revocations = &gateway.replica.revocations;
                revocations.apply_remote(revocation, gateway.replica.clock.now());
            }
        }
        self.stored().extend(pending);
    }

    fn unsent(&self) -> MutexGuard<'_, [Vec<RevocationIndex>; REPLICAS]> {
        self.unsent.lock().expect("the unsent revocations")
    }

    fn connected(&self) -> MutexGuard<'_, [Option<Weak<Gateway>>; REPLICAS]> {
        self.connected.lock().expect("the connected replicas")
    }

    fn stored(&self) -> MutexGuard<'_, Vec<Revocation>> {
        self.stored.lock().expect("the stored revocations")
    }
}

impl RevocationPublisher for Sender {
    fn publish(&self, revocation: &Revocation, is_unpublished: bool) -> Delivered {
        if is_unpublished {
            self.stream.unsent()[self.number].push(revocation.index());
        }
        self.stream.deliver(self.number);
        Box::pin(ready(()))
    }

    fn is_pending(&self, revocation: &Revocation) -> bool {
        self.stream.unsent()[self.number].contains(&revocation.index())
    }

    fn pending(&self) -> usize {
        self.stream.unsent()[self.number].len()
    }
}

impl SharedCache for Sender {
    fn get(&self, id: RevocationId) -> LookUpFuture<'_> {
        let now = self.stream.clock.now().monotonic;
        let cached = self.stream.cached.lock().expect("the cached data");
        let found = cached.get(&id).and_then(|(entry, expires_at)| {
            let remaining = expires_at.checked_sub(now)?;
            let entry = entry.clone();
            (!remaining.is_zero()).then_some(Stored { entry, remaining })
        });
        let is_connected = self.stream.is_connected(self.number);
        let found = found.ok_or(LookUp::Miss);
        Box::pin(ready(found.and_then(|stored| {
            is_connected.then_some(stored).ok_or(LookUp::Unavailable)
        })))
    }

    fn put(&self, id: RevocationId, entry: Vec<u8>, lifetime: Duration) {
        if self.stream.is_connected(self.number) {
            let expires_at = self.stream.clock.now().monotonic + lifetime;
            let mut cached = self.stream.cached.lock().expect("the cached data");
            cached.insert(id, (entry, expires_at));
        }
    }
}

impl fmt::Debug for ReplicationStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connected: Vec<_> = (0..REPLICAS)
            .filter(|number| self.is_connected(*number))
            .collect();
        write!(f, "ReplicationStream({connected:?})")
    }
}
