//! The states of the keys in a folder, and the plan of a rotation: whether the next key is due, and
//! which keys are no longer needed.

use std::time::Duration;

use jiff::Timestamp;

use super::{CLOCK_SKEW, after, begins, lead, overlap};

/// The state of a key among those of its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// Published, and not yet used.
    Waiting {
        /// No gateway uses it earlier, unless the key in use is removed.
        from: Timestamp,
        /// Every gateway uses it from then on.
        latest: Timestamp,
    },
    /// Some gateways may use it already, and others still the one before.
    Starting {
        /// Every gateway uses it from then on.
        latest: Timestamp,
    },
    /// Used by every gateway.
    InUse,
    /// Used until the next one has started everywhere.
    InUseUntil(Timestamp),
    /// No longer used, but its tokens are accepted until then.
    HonouredUntil(Timestamp),
    /// Not needed since then.
    RetiredSince(Timestamp),
}

/// The times of a key file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTimes {
    /// The `first_use` in the file.
    pub first_use: Timestamp,
    /// When the file was written: no gateway can have published the key earlier.
    pub written: Timestamp,
}

impl FileTimes {
    /// The first and the last time at which a gateway begins to use the key, if another one is in use
    /// before it.
    ///
    /// A running gateway counts from when it found the file, up to [`CLOCK_SKEW`] after the file was
    /// written. A starting gateway counts from its start or from the first use, whichever is earlier.
    #[must_use]
    pub fn begins(self, max_age: Duration) -> (Timestamp, Timestamp) {
        let begins = |published| begins(published, self.first_use, max_age);
        let earliest = self.first_use.min(self.written);
        let latest = self.first_use.max(after(self.written, CLOCK_SKEW));
        (begins(earliest), begins(latest))
    }
}

/// The plan of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The first use of the next key, which must be made; `None`: no key is due.
    pub next: Option<Timestamp>,
    /// The keys to remove, as indices in the order of first use.
    pub retired: Vec<usize>,
}

/// The durations that determine the states of keys.
#[derive(Debug, Default, Clone, Copy)]
pub struct Times {
    /// How long verifiers may cache the published keys.
    pub max_age: Duration,
    /// The lifetime of the tokens that the keys sign or seal.
    pub lifetime: Duration,
}

/// The state of every key of one purpose, in the order of first use, as it follows from the files.
#[must_use]
pub fn key_states(files: &[FileTimes], times: Times, now: Timestamp) -> Vec<KeyState> {
    let spans: Vec<_> = files
        .iter()
        .map(|file| file.begins(times.max_age))
        .collect();
    // As in a gateway: if none has begun, the first one.
    let current = spans.iter().rposition(|(_, latest)| *latest <= now);
    let current = current.unwrap_or_default();
    let starting = |(from, latest): &&(Timestamp, Timestamp)| *from <= now && now < *latest;
    let overlap = overlap(times.lifetime, times.max_age);
    let state = |(place, (from, latest)): (usize, &(Timestamp, Timestamp))| {
        let successor = files.get(place + 1);
        match successor {
            Some(successor) if place < current => {
                let end = after(successor.first_use.max(successor.written), overlap);
                if end <= now {
                    KeyState::RetiredSince(end)
                } else {
                    KeyState::HonouredUntil(end)
                }
            }
            _ if place <= current => {
                let next = spans.iter().skip(current + 1).find(starting);
                next.map_or(KeyState::InUse, |(_, latest)| KeyState::InUseUntil(*latest))
            }
            _ if *from <= now => KeyState::Starting { latest: *latest },
            _ => KeyState::Waiting {
                from: *from,
                latest: *latest,
            },
        }
    };
    spans.iter().enumerate().map(state).collect()
}

/// The plan of a rotation that runs now, if each key is used for `every` or a little longer. `files` are in the order
/// of first use. A second rotation does nothing: the next key is waiting already.
///
/// Gateways use the predecessor of a key until its file has come, also if that is after its first use. But in a folder that
/// is copied for each rotation, all files are new. So the time of a file counts only if it is more than [`CLOCK_SKEW`]
/// later than that of the oldest file.
#[must_use]
pub fn plan(files: &[FileTimes], times: Times, every: Duration, now: Timestamp) -> Plan {
    let newest = files.last().map(|file| file.first_use);
    let oldest_file = files.iter().map(|file| file.written).min();
    let came_late = |file: &FileTimes| {
        oldest_file.is_some_and(|oldest| file.written > after(oldest, CLOCK_SKEW))
    };
    let file = |file: &FileTimes| FileTimes {
        written: if came_late(file) {
            file.first_use.max(file.written)
        } else {
            file.first_use
        },
        ..*file
    };
    let files: Vec<_> = files.iter().map(file).collect();
    let states = key_states(&files, times, now);
    let soonest = after(now, lead(times.max_age));
    let next = match newest {
        None => Some(now),
        Some(newest) if newest <= now && after(newest, every) <= soonest => Some(soonest),
        Some(_) => None,
    };
    let retired = states.iter().enumerate();
    let retired = retired.filter(|(_, state)| matches!(state, KeyState::RetiredSince(_)));
    Plan {
        next,
        retired: retired.map(|(place, _)| place).collect(),
    }
}
