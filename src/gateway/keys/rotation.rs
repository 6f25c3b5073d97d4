//! What a rotation does with a folder of keys: whether the next key is due, and which ones nobody
//! needs any more.

use std::time::Duration;

use jiff::Timestamp;

use super::key_store::{after, begins};
use super::{CLOCK_SKEW, lead, overlap};

/// The state of a key among those of its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Published, and not yet used.
    Waiting {
        /// No gateway uses it before, unless the key in use is removed.
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
    /// Used no more, but what it signed or sealed is honoured until then.
    HonouredUntil(Timestamp),
    /// Of no use to anybody since then.
    RetiredSince(Timestamp),
}

/// What a key file says of when its key is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTimes {
    /// The `first_use` in the file.
    pub first_use: Timestamp,
    /// When the file was written: no gateway can have published the key before.
    pub written: Timestamp,
}

impl FileTimes {
    /// The span in which gateways begin to use the key, where another one is in use before it.
    ///
    /// They do not all begin at once. One that runs counts from when it found the file, which is
    /// up to [`CLOCK_SKEW`] after it was written; one that starts, from its start or from the first
    /// use, whichever is earlier.
    #[must_use]
    pub fn begins(self, max_age: Duration) -> (Timestamp, Timestamp) {
        let begins = |seen| begins(seen, self.first_use, max_age);
        let earliest = self.first_use.min(self.written);
        let latest = self.first_use.max(after(self.written, CLOCK_SKEW));
        (begins(earliest), begins(latest))
    }
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// When the next key, which is to be made, begins to be used; none: no key is due.
    pub next: Option<Timestamp>,
    /// Which keys can be taken away, by their places in the order of first use.
    pub retired: Vec<usize>,
}

/// How long things last, by which keys are replaced.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// How long others may keep the published keys.
    pub max_age: Duration,
    /// How long what a key signed or sealed lives.
    pub lifetime: Duration,
}

/// The standing of every key of one purpose, in the order of their first use, by their files alone.
#[must_use]
pub fn standing(files: &[FileTimes], times: Times, now: Timestamp) -> Vec<Standing> {
    let spans: Vec<_> = files
        .iter()
        .map(|file| file.begins(times.max_age))
        .collect();
    // As a gateway chooses: before the first of all has come, that one.
    let current = spans.iter().rposition(|(_, latest)| *latest <= now);
    let current = current.unwrap_or_default();
    let starting = |(from, latest): &&(Timestamp, Timestamp)| *from <= now && now < *latest;
    let overlap = overlap(times.lifetime, times.max_age);
    let standing = |(place, (from, latest)): (usize, &(Timestamp, Timestamp))| {
        let successor = files.get(place + 1);
        match successor {
            Some(successor) if place < current => {
                let end = after(successor.first_use, overlap);
                if end <= now {
                    Standing::RetiredSince(end)
                } else {
                    Standing::HonouredUntil(end)
                }
            }
            _ if place <= current => {
                let next = spans.iter().skip(current + 1).find(starting);
                next.map_or(Standing::InUse, |(_, latest)| Standing::InUseUntil(*latest))
            }
            _ if *from <= now => Standing::Starting { latest: *latest },
            _ => Standing::Waiting {
                from: *from,
                latest: *latest,
            },
        }
    };
    spans.iter().enumerate().map(standing).collect()
}

/// What a rotation does now, if each key is to be used for `every` or a little longer. Done twice,
/// it does nothing the second time: a key that waits is the next one.
#[must_use]
pub fn plan(first_uses: &[Timestamp], times: Times, every: Duration, now: Timestamp) -> Plan {
    // A copy of the folder that was made again for each rotation has only new files.
    let file = |first_use: &Timestamp| FileTimes {
        first_use: *first_use,
        written: *first_use,
    };
    let files: Vec<_> = first_uses.iter().map(file).collect();
    let standings = standing(&files, times, now);
    let soonest = after(now, lead(times.max_age));
    let next = match first_uses.last() {
        None => Some(now),
        Some(newest) if *newest <= now && after(*newest, every) <= soonest => Some(soonest),
        Some(_) => None,
    };
    let retired = standings.iter().enumerate();
    let retired = retired.filter(|(_, standing)| matches!(standing, Standing::RetiredSince(_)));
    Plan {
        next,
        retired: retired.map(|(place, _)| place).collect(),
    }
}
