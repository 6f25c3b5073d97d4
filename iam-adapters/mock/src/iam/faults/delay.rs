//! How long the mock lets a call wait.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Dice, InvalidRule};

/// The longest delay. Longer than any deadline of the gateway.
const LONGEST: Duration = Duration::from_secs(600);

/// How long a call waits before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Delay {
    /// Always as long.
    Fixed(#[serde(with = "humantime_serde")] Duration),
    /// Anything between the two, each as likely.
    Uniform(Bound, Bound),
    /// Mostly about the median, now and then far more, as networks and busy servers are.
    Lognormal {
        /// As many calls wait longer as wait less.
        #[serde(with = "humantime_serde")]
        median: Duration,
        /// The spread: the standard deviation of the logarithm. 0.5 is mild, 2 wild.
        sigma: f64,
    },
}

/// A duration in its ordinary text (`200ms`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bound(#[serde(with = "humantime_serde")] pub Duration);

impl Delay {
    pub(super) fn check(self) -> Result<(), InvalidRule> {
        let fair = match self {
            Self::Fixed(delay) => delay <= LONGEST,
            Self::Uniform(Bound(least), Bound(most)) => least <= most && most <= LONGEST,
            Self::Lognormal { median, sigma } => median <= LONGEST && (0.0..=10.0).contains(&sigma),
        };
        fair.then_some(()).ok_or(InvalidRule::Delay)
    }

    /// One delay, never more than ten minutes.
    pub(super) fn draw(self, dice: Dice) -> Duration {
        match self {
            Self::Fixed(delay) => delay,
            Self::Uniform(Bound(least), Bound(most)) => {
                least + most.saturating_sub(least).mul_f64(dice())
            }
            Self::Lognormal { median, sigma } => {
                let seconds = median.as_secs_f64() * (sigma * normal(dice)).exp();
                Duration::try_from_secs_f64(seconds).map_or(LONGEST, |delay| delay.min(LONGEST))
            }
        }
    }
}

/// A number of the standard normal distribution, by Box and Muller.
fn normal(dice: Dice) -> f64 {
    // Away from zero, whose logarithm there is none of.
    let radius = (-2.0 * (1.0 - dice()).ln()).sqrt();
    radius * (std::f64::consts::TAU * dice()).cos()
}
