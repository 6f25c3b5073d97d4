//! The connections of one worker together: whose turn it is on each of them, who makes room where
//! they are too many, and whether the worker keeps up.

pub(super) mod turn;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::telemetry::metrics::{Metrics, Shed};

pub use turn::Turn;

/// How often a worker that keeps up is asked whether it does.
const LOOK: Duration = Duration::from_millis(20);

/// Since when a task stands in the worker's queue that was put at its end to measure it; none where
/// the worker keeps up.
type Marker = Rc<Cell<Option<Instant>>>;

/// All connections of a worker.
///
/// Whoever waits for nothing but its client can be parted with: a client that says nothing, or not
/// all that it began to say, must not keep out one that has something to say. Whoever is the
/// gateway's turn stays.
#[derive(Debug)]
pub struct Crowd {
    most: usize,
    members: RefCell<BTreeMap<u64, Turn>>,
    /// How many came so far.
    came: Cell<u64>,
    /// How many of them have not been made up for.
    owed: Cell<usize>,
    marker: Marker,
    shed: Shed,
}

impl Crowd {
    /// Nobody yet, and never more than `most`.
    #[must_use]
    pub fn new(most: usize, metrics: &Metrics) -> Rc<Self> {
        Rc::new(Self {
            most,
            members: RefCell::default(),
            came: Cell::new(0),
            owed: Cell::new(0),
            marker: Marker::default(),
            shed: metrics.shed().clone(),
        })
    }

    /// A place for a new connection. There is none where all are the gateway's turn.
    ///
    /// Once few places are left, every newcomer costs one of those their place that have kept the
    /// gateway waiting the longest. They are asked to leave many at once, so that looking for them
    /// costs next to nothing.
    #[must_use]
    pub fn join(self: &Rc<Self>) -> Option<Place> {
        let there = self.members.borrow().len();
        let spare = (self.most / 8).max(1);
        if there + spare >= self.most {
            self.owed.set(self.owed.get() + 1);
            if self.owed.get() >= spare.div_ceil(4) {
                self.make_room(self.owed.take());
            }
        }
        if there >= self.most {
            self.shed.full.inc();
            return None;
        }
        let name = self.came.get();
        self.came.set(name + 1);
        let turn = Turn::of_a_new_connection(Rc::clone(&self.marker));
        self.members.borrow_mut().insert(name, turn.clone());
        Some(Place {
            crowd: Rc::clone(self),
            name,
            turn,
        })
    }

    fn make_room(&self, count: usize) {
        let members = self.members.borrow();
        let mut waiting: Vec<_> = members
            .values()
            .filter_map(|turn| turn.waiting().map(|key| (key, turn)))
            .collect();
        if count < waiting.len() {
            waiting.select_nth_unstable_by_key(count, |(key, _)| *key);
        }
        for (_, turn) in waiting.into_iter().take(count) {
            turn.leave();
            self.shed.idle.inc();
        }
    }

    /// Measures how long the worker's queue is, for as long as there is a crowd. A worker keeps up
    /// where nobody waits for longer than `keeps_up`.
    ///
    /// The queue holds each connection once on which something happened, in their order. Whoever
    /// is served while the marker is still in the queue came before it, and so has waited longer
    /// than the marker. No queue is measured while the worker keeps up, and the first long wait is
    /// not held against anybody: a machine that held its breath is no overload.
    pub async fn measure(crowd: Weak<Self>, keeps_up: Duration) {
        loop {
            let due = Instant::now() + LOOK;
            sleep(LOOK).await;
            let mut waited = due.elapsed();
            loop {
                let Some(crowd) = crowd.upgrade() else {
                    return;
                };
                if waited < keeps_up {
                    crowd.marker.set(None);
                    break;
                }
                let began = Instant::now();
                crowd.marker.set(Some(began));
                drop(crowd);
                tokio::task::yield_now().await;
                waited = began.elapsed();
            }
        }
    }
}

/// The place of one connection, given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    crowd: Rc<Crowd>,
    name: u64,
    turn: Turn,
}

impl Place {
    /// Whose turn it is.
    #[must_use]
    pub fn turn(&self) -> &Turn {
        &self.turn
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.members.borrow_mut().remove(&self.name);
    }
}

#[cfg(test)]
mod tests;
