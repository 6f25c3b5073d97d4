//! Delivers revocations between replicas at once, and stores them for later ones, as Redis does.

use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use auth_gateway::gateway::Gateway;
use auth_gateway::gateway::revocations::{Delivery, Revocation};
use auth_gateway::gateway::session_ends::{Delivered, Replicas};

use super::scenario::REPLICAS;

/// The connection between all replicas.
#[derive(Default)]
pub(super) struct ReplicationStream {
    connected: Mutex<[Option<Weak<Gateway>>; REPLICAS]>,
    stored: Mutex<Vec<Revocation>>,
}

/// The connection of one replica to the others.
#[derive(Debug)]
struct Sender {
    stream: Arc<ReplicationStream>,
    number: usize,
}

impl ReplicationStream {
    /// Registers a new gateway as this replica. It is not connected yet, and issues no tokens.
    pub(super) fn join(self: &Arc<Self>, number: usize, gateway: &Arc<Gateway>) {
        gateway.session_ends().join(Arc::new(Sender {
            stream: Arc::clone(self),
            number,
        }));
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
        for revocation in &*self.stored() {
            gateway.session_ends().learn(revocation);
        }
        gateway.caught_up();
    }

    /// Delivers the pending revocations of a connected replica to all others.
    fn deliver(&self, number: usize) {
        let connected = self.connected().clone();
        let Some(sender) = connected[number].as_ref().and_then(Weak::upgrade) else {
            return;
        };
        let pending = sender.session_ends().revocations().offer(usize::MAX);
        let others = connected.iter().enumerate();
        let others = others.filter(|(other, _)| *other != number);
        for gateway in others.filter_map(|(_, other)| other.as_ref()?.upgrade()) {
            for revocation in &pending {
                gateway.session_ends().learn(revocation);
            }
        }
        self.stored().extend(&pending);
        let stored = pending.into_iter();
        let stored = stored.map(|revocation| (revocation, Delivery::Stored));
        sender.session_ends().revocations().settle(stored);
    }

    fn connected(&self) -> MutexGuard<'_, [Option<Weak<Gateway>>; REPLICAS]> {
        self.connected.lock().expect("the connected replicas")
    }

    fn stored(&self) -> MutexGuard<'_, Vec<Revocation>> {
        self.stored.lock().expect("the stored revocations")
    }
}

impl Replicas for Sender {
    fn send(&self, _: Revocation) -> Delivered {
        self.stream.deliver(self.number);
        Box::pin(ready(()))
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
