//! The connections of one worker together: whose turn it is on each of them, who makes room where
//! they are too many, and how far the worker is behind.

pub(super) mod turn;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::telemetry::metrics::{Metrics, Shed};

pub use turn::Turn;

/// How often a worker that keeps up is asked how far it is behind.
const LOOK: Duration = Duration::from_millis(20);

/// Below this, a worker keeps up.
const KEEPS_UP: Duration = Duration::from_millis(10);

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
    /// How many had come when room was last made.
    came_before: Cell<u64>,
    behind: Rc<Cell<Duration>>,
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
            came_before: Cell::new(0),
            behind: Rc::default(),
            shed: metrics.shed().clone(),
        })
    }

    /// A place for a new connection. There is none where all are the gateway's turn.
    ///
    /// Before the last places are taken, those that have kept the gateway waiting the longest are
    /// asked to leave, many at once, so that it costs next to nothing for each newcomer.
    #[must_use]
    pub fn join(self: &Rc<Self>) -> Option<Place> {
        let there = self.members.borrow().len();
        let spare = (self.most / 16).max(1);
        if there + spare >= self.most {
            self.make_room(spare);
        }
        if there >= self.most {
            self.shed.full.inc();
            return None;
        }
        let name = self.came.get();
        self.came.set(name + 1);
        let turn = Turn::of_a_new_connection(Rc::clone(&self.behind));
        self.members.borrow_mut().insert(name, turn.clone());
        Some(Place {
            crowd: Rc::clone(self),
            name,
            turn,
        })
    }

    fn make_room(&self, spare: usize) {
        let newcomers = self.came.get() - self.came_before.get();
        let full = self.members.borrow().len() >= self.most;
        if newcomers < (spare as u64).div_ceil(4) && !full {
            return;
        }
        self.came_before.set(self.came.get());
        let members = self.members.borrow();
        let mut waiting: Vec<_> = members
            .values()
            .filter_map(|turn| turn.waiting().map(|key| (key, turn)))
            .collect();
        if spare < waiting.len() {
            waiting.select_nth_unstable_by_key(spare, |(key, _)| *key);
        }
        for (_, turn) in waiting.into_iter().take(spare) {
            turn.leave();
            self.shed.idle.inc();
        }
    }

    /// Measures how far the worker is behind, for as long as there is a crowd.
    ///
    /// A worker has one queue: the connections on which something happened, each in there once. So
    /// whoever stands at its end waits as long as everybody who comes now.
    pub async fn measure(crowd: Weak<Self>) {
        let mut keeps_up = true;
        loop {
            let mut due = Instant::now();
            if keeps_up {
                due += LOOK;
                sleep(LOOK).await;
            } else {
                tokio::task::yield_now().await;
            }
            let Some(crowd) = crowd.upgrade() else {
                return;
            };
            let behind = due.elapsed();
            crowd.behind.set(behind);
            keeps_up = behind < KEEPS_UP;
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
