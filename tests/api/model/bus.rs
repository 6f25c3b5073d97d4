//! What replicas tell each other, at once and to all who are there to hear it.

use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use auth_gateway::gateway::Gateway;
use auth_gateway::gateway::replicas::{Replicas, Told};
use auth_gateway::gateway::revocations::Revocation;

use super::scenario::REPLICAS;

/// Between all replicas. It keeps nothing: who was away has missed what was told.
#[derive(Default)]
pub(super) struct Bus {
    here: Mutex<[Option<Weak<Gateway>>; REPLICAS]>,
}

/// The way of one replica to the others.
#[derive(Debug)]
struct End {
    bus: Arc<Bus>,
    number: usize,
}

impl Bus {
    /// Lets a new gateway take the place of the replica.
    pub(super) fn join(self: &Arc<Self>, number: usize, gateway: &Arc<Gateway>) {
        gateway.join(Arc::new(End {
            bus: Arc::clone(self),
            number,
        }));
        self.come_back(number, gateway);
    }

    pub(super) fn leave(&self, number: usize) {
        self.here()[number] = None;
    }

    /// Whether the replica tells and hears.
    pub(super) fn has(&self, number: usize) -> bool {
        self.here()[number].is_some()
    }

    /// From now on the replica tells and hears again.
    pub(super) fn come_back(&self, number: usize, gateway: &Arc<Gateway>) {
        self.here()[number] = Some(Arc::downgrade(gateway));
        gateway.in_step_again();
    }

    fn here(&self) -> MutexGuard<'_, [Option<Weak<Gateway>>; REPLICAS]> {
        self.here.lock().expect("who is here")
    }
}

impl Replicas for End {
    fn tell(&self, revocation: Revocation) -> Told {
        let here = self.bus.here().clone();
        if here[self.number].is_some() {
            let others = here.iter().enumerate();
            let others = others.filter(|(number, _)| *number != self.number);
            for gateway in others.filter_map(|(_, other)| other.as_ref()?.upgrade()) {
                gateway.learn(&revocation);
            }
        }
        Box::pin(ready(()))
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here: Vec<_> = (0..REPLICAS).filter(|number| self.has(*number)).collect();
        write!(f, "Bus({here:?})")
    }
}
