//! A namespace as it was at several moments, to come back to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iam_adapters::Clock as _;
use iam_adapters::clock::Offset;
use thiserror::Error;

use super::World;
use crate::iam::DirectorySnapshot;
use crate::iam::faults::Fault;

/// How many are kept.
const MAX: usize = 32;

/// A namespace as it was: its users and sessions, its faults as far as they had come, and how far
/// its clock was ahead. What was asked of it is not part of it.
#[derive(Debug)]
pub struct Snapshot {
    directory: DirectorySnapshot,
    faults: Vec<Fault>,
    offset: Offset,
}

/// A snapshot that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Its number.
    pub id: u64,
    /// When it was taken, since 1970-01-01T00:00:00Z by the namespace's clock.
    pub taken_at: Duration,
}

/// As many are kept as can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{MAX} snapshots are kept already; forget one first")]
pub struct Full;

/// None of that number is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there is no such snapshot")]
pub struct Unknown;

/// The snapshots of a namespace.
#[derive(Debug, Default)]
pub struct Snapshots(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    last: u64,
    kept: Vec<(Kept, Arc<Snapshot>)>,
}

impl Snapshots {
    /// Keeps the namespace as it is now.
    ///
    /// # Errors
    ///
    /// [`Full`].
    pub fn take(&self, world: &World) -> Result<Kept, Full> {
        let mut held = self.lock();
        if held.kept.len() >= MAX {
            return Err(Full);
        }
        held.last += 1;
        let kept = Kept {
            id: held.last,
            taken_at: world.clock.now().unix,
        };
        held.kept.push((kept, Arc::new(Snapshot::of(world))));
        Ok(kept)
    }

    /// Those that are kept, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<Kept> {
        self.lock().kept.iter().map(|(kept, _)| *kept).collect()
    }

    /// The snapshot of that number.
    ///
    /// # Errors
    ///
    /// [`Unknown`].
    pub fn find(&self, id: u64) -> Result<Arc<Snapshot>, Unknown> {
        let held = self.lock();
        let found = held.kept.iter().find(|(kept, _)| kept.id == id);
        found
            .map(|(_, snapshot)| Arc::clone(snapshot))
            .ok_or(Unknown)
    }

    /// Forgets the snapshot of that number.
    ///
    /// # Errors
    ///
    /// [`Unknown`].
    pub fn forget(&self, id: u64) -> Result<(), Unknown> {
        let mut held = self.lock();
        let before = held.kept.len();
        held.kept.retain(|(kept, _)| kept.id != id);
        (held.kept.len() < before).then_some(()).ok_or(Unknown)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshot {
    fn of(world: &World) -> Self {
        Self {
            directory: world.mock.directory().snapshot(),
            faults: world.mock.faults().list(),
            offset: world.clock.offset(),
        }
    }

    /// Makes a namespace what this one was. Its gateway should be new, or else it knows and
    /// revoked what never was.
    pub(super) fn put_into(&self, world: &World) {
        world.clock.follow(self.offset);
        world.mock.directory().restore(&self.directory);
        world.mock.faults().restore(self.faults.clone());
    }
}
