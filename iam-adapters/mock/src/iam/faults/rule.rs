//! What can be asked of the mock.

use iam_adapters::resilient::Operation;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::super::users::fold;
use super::{Answer, Delay};

/// Which calls are met, and with what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The operation.
    pub operation: Operation,
    /// The user's address; none: whoever's call it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// How many calls; none: every one until the rule is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The part of the calls that is met, up to 1; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// How long they wait; none: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// What they are answered; none: the truth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// Why there can be no such rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidRule {
    /// A rule that changes nothing.
    #[error("a rule needs a `delay`, an `answer`, or both")]
    Idle,
    /// None at all.
    #[error("`times` must be at least 1; without it the rule stands until it is removed")]
    Times,
    /// Not a part of the calls.
    #[error("`share` must be above 0 and at most 1")]
    Share,
    /// Upside down, or longer than ten minutes.
    #[error(
        "`delay` must be at most 10m, its lower bound not above the upper, its sigma from 0 to 10"
    )]
    Delay,
    /// Nobody in particular asks for keys, or probes.
    #[error("`user` does not go with the operation `{}`", .0.name())]
    User(Operation),
    /// An answer to another question.
    #[error("`answer` {answer:?} does not go with the operation `{}`", .operation.name())]
    Answer {
        /// The answer.
        answer: &'static str,
        /// The operation.
        operation: Operation,
    },
    /// The in-process mock has no wire.
    #[error("`answer` {0:?} needs a wire: `auth-gateway mock-iam` has one")]
    NoWire(&'static str),
    /// Somebody forgot to remove them.
    #[error("there are {0} rules already")]
    TooMany(usize),
}

impl Rule {
    /// Whether its parts fit together.
    ///
    /// # Errors
    ///
    /// [`InvalidRule`], all but [`InvalidRule::NoWire`] and [`InvalidRule::TooMany`].
    pub(super) fn check(&self) -> Result<(), InvalidRule> {
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

    /// Whether a call of the operation, for this user, is one of those meant.
    pub(super) fn fits(&self, operation: Operation, user: Option<&str>) -> bool {
        let meant = self.user.as_deref();
        self.operation == operation
            && meant.is_none_or(|meant| user.is_some_and(|user| fold(user) == fold(meant)))
    }
}
