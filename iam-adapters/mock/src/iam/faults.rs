//! Faults that the mock injects: rules that select calls, and delay or replace their answers.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_lc_rs::rand;
use iam_adapters::error::Refusal;
use iam_adapters::name::Name as _;
use iam_adapters::resilient::Operation;
use parking_lot::Mutex;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use strum::IntoStaticStr;
use thiserror::Error;

use super::users::fold;

/// The limit of rules.
const RULES_MAX: usize = 1000;

/// A random number in [0, 1).
pub type Rng = fn() -> f64;

/// A rule in effect, with its counters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fault {
    /// Its id.
    pub id: u64,
    /// The rule.
    #[serde(flatten)]
    pub rule: Rule,
    /// How many calls it was applied to.
    pub applied: u64,
    /// How many more calls it applies to; none: all until it is removed.
    pub remaining: Option<u64>,
}

/// The fault of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// The id of the rule.
    pub id: u64,
    /// The delay before the answer.
    pub delay: Option<Duration>,
    /// The answer; none: perform the operation.
    pub answer: Option<Answer>,
}

/// All rules, in the order of their evaluation.
pub struct Faults {
    rng: Rng,
    /// Whether the mock answers over the wire, where responses and connections can be broken.
    wire: bool,
    /// A mock without rules, as in a load test, takes no lock.
    count: AtomicUsize,
    rules: Mutex<Rules>,
}

#[derive(Debug, Clone, Default)]
struct Rules {
    last: u64,
    active: Vec<Fault>,
}

impl Default for Faults {
    fn default() -> Self {
        Self::new(false, random_fraction)
    }
}

impl Faults {
    /// No rules, for a mock that answers over the wire.
    #[must_use]
    pub const fn over_the_wire() -> Self {
        Self::new(true, random_fraction)
    }

    /// No rules, with this random number generator. `wire`: whether the mock answers over the wire.
    #[must_use]
    pub const fn new(wire: bool, rng: Rng) -> Self {
        Self {
            rng,
            wire,
            count: AtomicUsize::new(0),
            rules: Mutex::new(Rules {
                last: 0,
                active: Vec::new(),
            }),
        }
    }

    /// Adds a rule after the others.
    ///
    /// # Errors
    ///
    /// [`InvalidRule`] if its members contradict each other, or the limit of rules is reached.
    pub fn add(&self, rule: Rule) -> Result<Fault, InvalidRule> {
        rule.check()?;
        if let Some(answer) = rule
            .answer
            .filter(|answer| answer.is_wire_only() && !self.wire)
        {
            return Err(InvalidRule::NoWire(answer.name()));
        }
        let mut rules = self.rules.lock();
        if rules.active.len() >= RULES_MAX {
            return Err(InvalidRule::TooMany(RULES_MAX));
        }
        rules.last += 1;
        let fault = Fault {
            id: rules.last,
            remaining: rule.times,
            applied: 0,
            rule,
        };
        rules.active.push(fault.clone());
        self.update_count(&rules);
        Ok(fault)
    }

    /// Every rule.
    #[must_use]
    pub fn list(&self) -> Vec<Fault> {
        self.rules.lock().active.clone()
    }

    /// The number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes a rule. Returns whether it existed.
    pub fn remove(&self, id: u64) -> bool {
        let mut rules = self.rules.lock();
        let before = rules.active.len();
        rules.active.retain(|fault| fault.id != id);
        self.update_count(&rules);
        rules.active.len() < before
    }

    /// Removes every rule.
    pub fn clear(&self) {
        let mut rules = self.rules.lock();
        rules.active.clear();
        self.update_count(&rules);
    }

    /// Replaces all rules, including counters.
    pub fn restore(&self, active: Vec<Fault>) {
        let mut rules = self.rules.lock();
        let newest = active.iter().map(|fault| fault.id).max();
        rules.last = rules.last.max(newest.unwrap_or_default());
        rules.active = active;
        self.update_count(&rules);
    }

    /// Takes the last id from the rules that these replace, so that an id in the journal names one rule.
    pub fn take_over_from(&self, before: &Self) {
        let last = before.rules.lock().last;
        let mut rules = self.rules.lock();
        rules.last = rules.last.max(last);
    }

    /// The fault of a call: of the first rule that matches and whose share selects the call. Counts it.
    pub fn next(&self, operation: Operation, user: Option<&str>) -> Option<Applied> {
        if self.is_empty() {
            return None;
        }
        let mut rules = self.rules.lock();
        let selects = |fault: &&mut Fault| {
            fault.rule.matches(operation, user)
                && fault.rule.share.is_none_or(|share| (self.rng)() < share)
        };
        let fault = rules.active.iter_mut().find(selects)?;
        fault.applied += 1;
        fault.remaining = fault.remaining.map(|left| left.saturating_sub(1));
        let applied = Applied {
            id: fault.id,
            delay: fault.rule.delay.map(|delay| delay.draw(self.rng)),
            answer: fault.rule.answer,
        };
        if fault.remaining == Some(0) {
            rules.active.retain(|fault| fault.remaining != Some(0));
            self.update_count(&rules);
        }
        Some(applied)
    }

    fn update_count(&self, rules: &Rules) {
        self.count.store(rules.active.len(), Ordering::Release);
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

/// 53 random bits, the precision of `f64`; 0 if the system has no random numbers.
fn random_fraction() -> f64 {
    let mut bits = [0; 8];
    let _ = rand::fill(&mut bits);
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let bits = (u64::from_le_bytes(bits) >> 11) as f64;
    bits / 2_f64.powi(53)
}

/// Selects calls, and delays or replaces their answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The operation.
    #[serde(with = "OperationName")]
    pub operation: Operation,
    /// The user's address; none: every user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// How many calls; none: all until the rule is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The share of the calls, up to 1; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The delay; none: no delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// The answer; none: the operation is performed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// An operation by its name. A fault is of a call to the IAM.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Operation", rename_all = "snake_case")]
enum OperationName {
    Login,
    Introspection,
    Logout,
    Keys,
    Probe,
    #[serde(skip)]
    Permissions,
}

/// A refusal by its name.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Refusal", rename_all = "snake_case")]
enum RefusalName {
    InvalidCredentials,
    Disabled,
    Locked,
    Incomplete,
}

/// Why a rule is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidRule {
    /// The rule has no effect.
    #[error("a rule needs a `delay`, an `answer`, or both")]
    Idle,
    /// `times` is 0.
    #[error("`times` must be at least 1; without it the rule applies until it is removed")]
    Times,
    /// `share` is out of range.
    #[error("`share` must be above 0 and at most 1")]
    Share,
    /// `delay` is out of range.
    #[error(
        "`delay` must be at most 10m, its lower bound not above the upper, its sigma from 0 to 10"
    )]
    Delay,
    /// Requests for keys and probes have no user.
    #[error("`user` does not go with the operation `{}`", .0.name())]
    User(Operation),
    /// The answer does not go with the operation.
    #[error("`answer` {answer:?} does not go with the operation `{}`", .operation.name())]
    Answer {
        /// The answer.
        answer: &'static str,
        /// The operation.
        operation: Operation,
    },
    /// The in-process mock does not answer over the wire.
    #[error("`answer` {0:?} works over the wire only, with `auth-gateway-dev mock-iam`")]
    NoWire(&'static str),
    /// The limit of rules is reached.
    #[error("there are {0} rules already")]
    TooMany(usize),
}

impl Rule {
    /// Checks that the members do not contradict each other.
    ///
    /// # Errors
    ///
    /// [`InvalidRule`], all but [`InvalidRule::NoWire`] and [`InvalidRule::TooMany`].
    fn check(&self) -> Result<(), InvalidRule> {
        let operation = self.operation;
        if self.delay.is_none() && self.answer.is_none() {
            return Err(InvalidRule::Idle);
        }
        if self.times == Some(0) {
            return Err(InvalidRule::Times);
        }
        if self
            .share
            .is_some_and(|share| !(share > 0.0 && share <= 1.0))
        {
            return Err(InvalidRule::Share);
        }
        if let (Some(_), Operation::Keys | Operation::Probe) = (&self.user, operation) {
            return Err(InvalidRule::User(operation));
        }
        self.delay.map_or(Ok(()), Delay::check)?;
        match &self.answer {
            Some(answer) if !answer.goes_with(operation) => Err(InvalidRule::Answer {
                answer: answer.name(),
                operation,
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the rule selects a call of the operation for this user.
    fn matches(&self, operation: Operation, user: Option<&str>) -> bool {
        let selected = self.user.as_deref();
        self.operation == operation
            && selected.is_none_or(|selected| user.is_some_and(|user| fold(user) == fold(selected)))
    }
}

/// The answer of a fault. Written as its name, or with details as an object with the name as its only
/// member: `{"throttled": {"retry_after": "3s"}}`, `{"refused": "locked"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(remote = "Self", rename_all = "snake_case", deny_unknown_fields)]
#[strum(serialize_all = "snake_case")]
pub enum Answer {
    /// The connection is refused.
    Unreachable,
    /// No answer: in process the deadline passes at once, over the wire there is no response.
    Timeout,
    /// Too many requests (429).
    Throttled {
        /// Its `Retry-After`.
        #[serde(
            with = "humantime_serde",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        retry_after: Option<Duration>,
    },
    /// An internal error (500).
    ServerError,
    /// An unreadable response.
    Unreadable,
    /// The gateway's client secret is refused.
    Misconfigured,
    /// The login is refused with any password.
    Refused(#[serde(with = "RefusalName")] Refusal),
    /// The session is inactive.
    Inactive,
    /// The answer is about another session.
    AnotherSession,
    /// The connection is reset. This and all following: over the wire only.
    Reset,
    /// The connection ends within the response.
    Truncated,
    /// An HTML page, as of a proxy.
    Html,
    /// A redirect to another host.
    Redirect,
    /// A body of 10 MiB.
    HugeBody,
    /// A body that is sent byte by byte.
    SlowBody,
}

impl Answer {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    const fn goes_with(self, operation: Operation) -> bool {
        match self {
            Self::Refused(_) => matches!(operation, Operation::Login),
            Self::Inactive | Self::AnotherSession => matches!(operation, Operation::Introspection),
            _ => true,
        }
    }

    const fn is_wire_only(self) -> bool {
        matches!(
            self,
            Self::Reset
                | Self::Truncated
                | Self::Html
                | Self::Redirect
                | Self::HugeBody
                | Self::SlowBody
        )
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut answer = Value::deserialize(deserializer)?;
        // The answers with details have defaults for them.
        match answer.as_str() {
            Some("throttled") => answer = json!({"throttled": {}}),
            Some("refused") => answer = json!({"refused": "invalid_credentials"}),
            _ => {}
        }
        Self::deserialize(answer).map_err(D::Error::custom)
    }
}

/// The maximum delay: longer than any deadline of the gateway.
const DELAY_MAX: Duration = Duration::from_secs(600);

/// The delay of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Delay {
    /// Always the same.
    Fixed(#[serde(with = "humantime_serde")] Duration),
    /// Uniform between the two.
    Uniform(Bound, Bound),
    /// Log-normal, like the latency of networks and busy servers.
    Lognormal {
        /// The median.
        #[serde(with = "humantime_serde")]
        median: Duration,
        /// The standard deviation of the logarithm: 0.5 is a small spread, 2 a large one.
        sigma: f64,
    },
}

/// A duration as text (`200ms`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bound(#[serde(with = "humantime_serde")] pub Duration);

impl Delay {
    fn check(self) -> Result<(), InvalidRule> {
        let is_valid = match self {
            Self::Fixed(delay) => delay <= DELAY_MAX,
            Self::Uniform(Bound(least), Bound(most)) => least <= most && most <= DELAY_MAX,
            Self::Lognormal { median, sigma } => {
                median <= DELAY_MAX && (0.0..=10.0).contains(&sigma)
            }
        };
        is_valid.then_some(()).ok_or(InvalidRule::Delay)
    }

    /// Draws a delay of at most ten minutes.
    fn draw(self, rng: Rng) -> Duration {
        match self {
            Self::Fixed(delay) => delay,
            Self::Uniform(Bound(least), Bound(most)) => {
                least + most.saturating_sub(least).mul_f64(rng())
            }
            Self::Lognormal { median, sigma } => {
                let seconds = median.as_secs_f64() * (sigma * normal(rng)).exp();
                Duration::try_from_secs_f64(seconds).map_or(DELAY_MAX, |delay| delay.min(DELAY_MAX))
            }
        }
    }
}

/// A number of the standard normal distribution (Box-Muller).
fn normal(rng: Rng) -> f64 {
    // Not zero, which has no logarithm.
    let radius = (-2.0 * (1.0 - rng()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng()).cos()
}

#[cfg(test)]
mod tests;
