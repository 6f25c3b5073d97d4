//! Snapshots of a namespace, in memory.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::Clock as _;
use mock_iam::faults::Fault;
use mock_iam::{DirectorySnapshot, Offset};
use parking_lot::Mutex;
use thiserror::Error;

use super::Namespace;

/// The limit of a namespace.
const MAX: usize = 32;

/// The users, sessions, faults (with their counters) and clock offset of a namespace. The journal and the
/// settings of a realm are not included.
#[derive(Debug)]
pub struct Snapshot {
    directory: DirectorySnapshot,
    faults: Vec<Fault>,
    offset: Offset,
}

/// The id and time of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Its id.
    pub id: u64,
    /// When it was taken, since 1970-01-01T00:00:00Z by the namespace's clock.
    pub taken_at: Duration,
}

/// The limit of snapshots is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there are {MAX} snapshots already; delete one first")]
pub struct TooManySnapshots;

/// There is no snapshot with this id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there is no such snapshot")]
pub struct UnknownSnapshot;

/// The snapshots of a namespace.
#[derive(Debug, Default)]
pub struct Snapshots(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: u64,
    snapshots: Vec<(SnapshotInfo, Arc<Snapshot>)>,
}

impl Snapshots {
    /// Takes a snapshot of the namespace.
    ///
    /// # Errors
    ///
    /// [`TooManySnapshots`].
    pub fn take(&self, namespace: &Namespace) -> Result<SnapshotInfo, TooManySnapshots> {
        let mut state = self.0.lock();
        if state.snapshots.len() >= MAX {
            return Err(TooManySnapshots);
        }
        state.last += 1;
        let info = SnapshotInfo {
            id: state.last,
            taken_at: namespace.clock.now().unix,
        };
        state
            .snapshots
            .push((info, Arc::new(Snapshot::of(namespace))));
        Ok(info)
    }

    /// All snapshots, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<SnapshotInfo> {
        self.0
            .lock()
            .snapshots
            .iter()
            .map(|(info, _)| *info)
            .collect()
    }

    /// The snapshot with this id.
    ///
    /// # Errors
    ///
    /// [`UnknownSnapshot`].
    pub fn find(&self, id: u64) -> Result<Arc<Snapshot>, UnknownSnapshot> {
        let state = self.0.lock();
        let found = state.snapshots.iter().find(|(info, _)| info.id == id);
        found
            .map(|(_, snapshot)| Arc::clone(snapshot))
            .ok_or(UnknownSnapshot)
    }

    /// Deletes the snapshot with this id.
    ///
    /// # Errors
    ///
    /// [`UnknownSnapshot`].
    pub fn delete(&self, id: u64) -> Result<(), UnknownSnapshot> {
        let mut state = self.0.lock();
        let before = state.snapshots.len();
        state.snapshots.retain(|(info, _)| info.id != id);
        (state.snapshots.len() < before)
            .then_some(())
            .ok_or(UnknownSnapshot)
    }
}

impl Snapshot {
    fn of(namespace: &Namespace) -> Self {
        Self {
            directory: namespace.mock.directory().snapshot(),
            faults: namespace.mock.faults().list(),
            offset: namespace.clock.offset(),
        }
    }

    /// Restores the snapshot into a namespace. Its gateway must be new, because caches and
    /// revocations of an old one belong to another state.
    pub(super) fn restore_into(&self, namespace: &Namespace) {
        namespace.clock.follow(self.offset);
        namespace.mock.directory().restore(&self.directory);
        namespace.mock.faults().restore(self.faults.clone());
    }
}
