//! What replicas tell each other, at once, and kept for those who come later, as Redis does.

use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use auth_gateway::gateway::Gateway;
use auth_gateway::gateway::revocations::{Delivery, Revocation};
use auth_gateway::gateway::session_ends::{Delivered, Replicas};

use super::scenario::REPLICAS;

/// Between all replicas.
#[derive(Default)]
pub(super) struct Bus {
    here: Mutex<[Option<Weak<Gateway>>; REPLICAS]>,
    kept: Mutex<Vec<Revocation>>,
}

/// The way of one replica to the others.
#[derive(Debug)]
struct End {
    bus: Arc<Bus>,
    number: usize,
}

impl Bus {
    /// Makes a new gateway the replica of this number. It is not here yet, and issues no tokens.
    pub(super) fn join(self: &Arc<Self>, number: usize, gateway: &Arc<Gateway>) {
        gateway.session_ends().join(Arc::new(End {
            bus: Arc::clone(self),
            number,
        }));
    }

    pub(super) fn leave(&self, number: usize) {
        self.here()[number] = None;
    }

    /// Whether the replica tells and hears.
    pub(super) fn has(&self, number: usize) -> bool {
        self.here()[number].is_some()
    }

    /// From now on the replica tells and hears, beginning with what was left to tell and to hear.
    pub(super) fn come_back(&self, number: usize, gateway: &Arc<Gateway>) {
        self.here()[number] = Some(Arc::downgrade(gateway));
        self.carry(number);
        for revocation in &*self.kept() {
            gateway.session_ends().learn(revocation);
        }
        gateway.in_step_again();
    }

    /// Takes what the replica has to tell, where it is here, to all others who are.
    fn carry(&self, number: usize) {
        let here = self.here().clone();
        let Some(teller) = here[number].as_ref().and_then(Weak::upgrade) else {
            return;
        };
        let pending = teller.session_ends().revocations().offer(usize::MAX);
        let others = here.iter().enumerate();
        let others = others.filter(|(other, _)| *other != number);
        for gateway in others.filter_map(|(_, other)| other.as_ref()?.upgrade()) {
            for revocation in &pending {
                gateway.session_ends().learn(revocation);
            }
        }
        self.kept().extend(&pending);
        let stored = pending.into_iter();
        let stored = stored.map(|revocation| (revocation, Delivery::Stored));
        teller.session_ends().revocations().settle(stored);
    }

    fn here(&self) -> MutexGuard<'_, [Option<Weak<Gateway>>; REPLICAS]> {
        self.here.lock().expect("who is here")
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Revocation>> {
        self.kept.lock().expect("what is kept")
    }
}

impl Replicas for End {
    fn tell(&self, _: Revocation) -> Delivered {
        self.bus.carry(self.number);
        Box::pin(ready(()))
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here: Vec<_> = (0..REPLICAS).filter(|number| self.has(*number)).collect();
        write!(f, "Bus({here:?})")
    }
}
