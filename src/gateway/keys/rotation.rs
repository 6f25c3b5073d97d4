//! What a rotation does with a folder of keys: whether the next key is due, and which ones nobody
//! needs any more.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{lead, overlap};

/// Where a key stands among those of its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Published, and not yet used.
    Waiting,
    /// Used now.
    InUse,
    /// Used no more, but what it signed or sealed is honoured until then.
    HonouredUntil(Timestamp),
    /// Of no use to anybody since then.
    RetiredSince(Timestamp),
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
pub fn standing(first_uses: &[Timestamp], times: Times, now: Timestamp) -> Vec<Standing> {
    // As a gateway chooses: before the first of all has come, that one.
    let current = first_uses.iter().rposition(|first_use| *first_use <= now);
    let current = current.unwrap_or_default();
    let overlap = overlap(times.lifetime, times.max_age);
    let successors = first_uses.iter().skip(1).map(Some).chain([None]);
    let standing = |(place, successor): (usize, Option<&Timestamp>)| match successor {
        _ if place > current => Standing::Waiting,
        Some(successor) if place < current => {
            let end = later(*successor, overlap);
            if end <= now {
                Standing::RetiredSince(end)
            } else {
                Standing::HonouredUntil(end)
            }
        }
        _ => Standing::InUse,
    };
    successors
        .enumerate()
        .take(first_uses.len())
        .map(standing)
        .collect()
}

/// What a rotation does now, if each key is to be used for `every` or a little longer. Done twice,
/// it does nothing the second time: a key that waits is the next one.
#[must_use]
pub fn plan(first_uses: &[Timestamp], times: Times, every: Duration, now: Timestamp) -> Plan {
    let standings = standing(first_uses, times, now);
    let soonest = later(now, lead(times.max_age));
    let next = match first_uses.last() {
        None => Some(now),
        Some(newest) if *newest <= now && later(*newest, every) <= soonest => Some(soonest),
        Some(_) => None,
    };
    let retired = standings.iter().enumerate();
    let retired = retired.filter(|(_, standing)| matches!(standing, Standing::RetiredSince(_)));
    Plan {
        next,
        retired: retired.map(|(place, _)| place).collect(),
    }
}

fn later(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
