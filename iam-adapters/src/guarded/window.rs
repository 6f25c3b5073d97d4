//! What went on in the last few seconds, counted second by second.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Moment;

/// How far back is looked. Long enough for a quiet operation to be judged at all, short enough
/// that a trouble which is over is soon forgotten.
pub(super) const SPAN: Duration = Duration::from_secs(10);

/// How finely: what is older than the span is forgotten in steps of this.
const STEP: Duration = Duration::from_secs(1);

/// What was counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    /// Calls that are over, the failed ones among them.
    pub(super) calls: u32,
    /// Calls that failed.
    pub(super) failures: u32,
    /// Further attempts.
    pub(super) retries: u32,
}

/// The last ten seconds.
#[derive(Debug)]
pub(super) struct Window {
    began: Moment,
    current: Tally,
    past: VecDeque<(Moment, Tally)>,
}

impl Window {
    /// Begins with nothing counted.
    pub(super) fn new(now: Moment) -> Self {
        Self {
            began: now,
            current: Tally::default(),
            past: VecDeque::new(),
        }
    }

    /// The count that goes on at this moment.
    pub(super) fn at(&mut self, now: Moment) -> &mut Tally {
        if now.since(self.began) >= STEP {
            self.past.push_back((self.began, self.current));
            self.began = now;
            self.current = Tally::default();
        }
        self.past.retain(|(began, _)| now.since(*began) < SPAN);
        &mut self.current
    }

    /// The sum of all that is not forgotten.
    pub(super) fn sum(&mut self, now: Moment) -> Tally {
        let current = *self.at(now);
        self.past.iter().fold(current, |sum, (_, tally)| Tally {
            calls: sum.calls.saturating_add(tally.calls),
            failures: sum.failures.saturating_add(tally.failures),
            retries: sum.retries.saturating_add(tally.retries),
        })
    }
}
