//! Trouble on demand: what the mock is told to do in place of its duty.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::rand;
use iam_adapters::resilient::Operation;
use serde::Serialize;

mod answer;
mod delay;
mod rule;

pub use answer::Answer;
pub use delay::{Bound, Delay};
pub use rule::{InvalidRule, Rule};

/// The most rules there can be at one time.
const RULES_MAX: usize = 1000;

/// A number from 0 up to and without 1, that nobody can foresee.
pub type Dice = fn() -> f64;

/// A rule that stands, and what has come of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fault {
    /// Its name.
    pub id: u64,
    /// What was asked for.
    #[serde(flatten)]
    pub rule: Rule,
    /// How many calls it has met.
    pub applied: u64,
    /// How many more it will meet; none: any number, until it is removed.
    pub remaining: Option<u64>,
}

/// What a call meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// The fault's name.
    pub id: u64,
    /// How long to wait before anything else.
    pub delay: Option<Duration>,
    /// What to answer; none: the truth.
    pub answer: Option<Answer>,
}

/// All rules, in the order in which they are tried.
pub struct Faults {
    dice: Dice,
    /// Whether answers go over a wire, and can be broken there.
    wire: bool,
    /// So that a mock without rules, as in a load test, takes no lock for them.
    count: AtomicUsize,
    rules: Mutex<Rules>,
}

#[derive(Debug, Clone, Default)]
struct Rules {
    last: u64,
    standing: Vec<Fault>,
}

impl Default for Faults {
    fn default() -> Self {
        Self::new(false, roll)
    }
}

impl Faults {
    /// No rules, and chance as the machine has it, for a mock that answers over a wire.
    #[must_use]
    pub const fn over_the_wire() -> Self {
        Self::new(true, roll)
    }

    /// No rules; chance is as the dice fall. Whether answers go over a wire, and can be broken
    /// there, is for the owner to know.
    #[must_use]
    pub const fn new(wire: bool, dice: Dice) -> Self {
        Self {
            dice,
            wire,
            count: AtomicUsize::new(0),
            rules: Mutex::new(Rules {
                last: 0,
                standing: Vec::new(),
            }),
        }
    }

    /// Adds a rule after those that there are.
    ///
    /// # Errors
    ///
    /// [`InvalidRule`] where its parts do not fit together, or there are a thousand.
    pub fn add(&self, rule: Rule) -> Result<Fault, InvalidRule> {
        rule.check()?;
        if let Some(answer) = rule
            .answer
            .filter(|answer| answer.needs_a_wire() && !self.wire)
        {
            return Err(InvalidRule::NoWire(answer.name()));
        }
        let mut rules = self.lock();
        if rules.standing.len() >= RULES_MAX {
            return Err(InvalidRule::TooMany(RULES_MAX));
        }
        rules.last += 1;
        let fault = Fault {
            id: rules.last,
            remaining: rule.times,
            applied: 0,
            rule,
        };
        rules.standing.push(fault.clone());
        self.counted(&rules);
        Ok(fault)
    }

    /// Every rule that stands.
    #[must_use]
    pub fn list(&self) -> Vec<Fault> {
        self.lock().standing.clone()
    }

    /// How many rules stand.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether none stands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes a rule; whether it was there.
    pub fn remove(&self, id: u64) -> bool {
        let mut rules = self.lock();
        let before = rules.standing.len();
        rules.standing.retain(|fault| fault.id != id);
        self.counted(&rules);
        rules.standing.len() < before
    }

    /// Removes every rule.
    pub fn clear(&self) {
        let mut rules = self.lock();
        rules.standing.clear();
        self.counted(&rules);
    }

    /// Puts these in the place of those that there are, as far as they have come.
    pub fn restore(&self, standing: Vec<Fault>) {
        let mut rules = self.lock();
        let newest = standing.iter().map(|fault| fault.id).max();
        rules.last = rules.last.max(newest.unwrap_or_default());
        rules.standing = standing;
        self.counted(&rules);
    }

    /// What a call meets: the first rule that fits and whose share it falls into. Uses it up by one.
    pub fn next(&self, operation: Operation, user: Option<&str>) -> Option<Applied> {
        if self.is_empty() {
            return None;
        }
        let mut rules = self.lock();
        let fits = |fault: &&mut Fault| {
            fault.rule.fits(operation, user)
                && fault.rule.share.is_none_or(|share| (self.dice)() < share)
        };
        let fault = rules.standing.iter_mut().find(fits)?;
        fault.applied += 1;
        fault.remaining = fault.remaining.map(|left| left.saturating_sub(1));
        let applied = Applied {
            id: fault.id,
            delay: fault.rule.delay.map(|delay| delay.draw(self.dice)),
            answer: fault.rule.answer,
        };
        if fault.remaining == Some(0) {
            rules.standing.retain(|fault| fault.remaining != Some(0));
            self.counted(&rules);
        }
        Some(applied)
    }

    fn counted(&self, rules: &Rules) {
        self.count.store(rules.standing.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

/// 53 random bits, as many as a fraction has; a machine without randomness rolls 0.
fn roll() -> f64 {
    let mut bits = [0; 8];
    let _ = rand::fill(&mut bits);
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let bits = (u64::from_le_bytes(bits) >> 11) as f64;
    bits / 2_f64.powi(53)
}

#[cfg(test)]
mod tests;
