//! The circuit breaker of one operation: an IAM that keeps failing is left alone for a moment, so
//! that nobody waits for a deadline that will not be met, and so that it can get up again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::window::{Tally, Window};
use super::{Circuit, Observer, Operation};
use crate::clock::{Clock, Moment};
use crate::error::IamError;

/// Fewer calls than this in the window prove nothing: two unlucky ones of three are no outage.
const CALLS_MIN: u32 = 20;

/// One failed call in so many is too much. Below that the IAM serves more people than it fails, and
/// refusing all of them would only make it worse.
const FAILED_ONE_IN: u32 = 2;

/// How long nothing is asked. Clients are told to come back after 2 to 3 s, so those who were
/// refused in the first moment find the circuit tried again.
const PAUSE: Duration = Duration::from_secs(3);

/// How many calls may be under way to find out whether the IAM is back. More than one, since any
/// single one may be unlucky; few, since it may not be back.
const TRIALS: u32 = 3;

/// Further attempts may be one in so many calls. An IAM that breaks down under its load must not
/// get more of it from us.
const RETRIED_ONE_IN: u32 = 10;

/// Further attempts in the window that are no burden to anybody, however few the calls are.
const RETRIES_MIN: u32 = 3;

/// The circuit breaker of one operation.
#[derive(Debug)]
pub(super) struct Breaker {
    operation: Operation,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// Counts the stages, so that a call has its say only in the one that let it through.
    number: u64,
}

#[derive(Debug)]
enum Stage {
    Closed(Window),
    Open { since: Moment },
    HalfOpen { trials: u32 },
}

impl Breaker {
    /// Begins closed.
    pub(super) fn new(
        operation: Operation,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let stage = Stage::Closed(Window::new(clock.now()));
        Self {
            operation,
            clock,
            observer,
            state: Mutex::new(State { stage, number: 0 }),
        }
    }

    /// Whether a call would be let through now, so that none waits for a place in vain.
    ///
    /// # Errors
    ///
    /// [`IamError::CircuitOpen`].
    pub(super) fn look(&self) -> Result<(), IamError> {
        self.passable(&mut self.state())
    }

    /// Lets a call through, which owes its result.
    ///
    /// # Errors
    ///
    /// [`IamError::CircuitOpen`]: the IAM is not to be asked.
    pub(super) fn admit(&self) -> Result<Permit<'_>, IamError> {
        let mut state = self.state();
        self.passable(&mut state)?;
        if let Stage::HalfOpen { trials } = &mut state.stage {
            *trials += 1;
        }
        Ok(Permit {
            breaker: self,
            number: state.number,
            settled: false,
        })
    }

    /// Ends the pause: there is reason to believe that the IAM is back.
    pub(super) fn try_again(&self) {
        let mut state = self.state();
        if matches!(state.stage, Stage::Open { .. }) {
            self.enter(&mut state, Stage::HalfOpen { trials: 0 });
        }
    }

    fn passable(&self, state: &mut State) -> Result<(), IamError> {
        if let Stage::Open { since } = state.stage
            && self.clock.now().since(since) >= PAUSE
        {
            self.enter(state, Stage::HalfOpen { trials: 0 });
        }
        match state.stage {
            Stage::Closed(_) => Ok(()),
            Stage::HalfOpen { trials } if trials < TRIALS => Ok(()),
            Stage::HalfOpen { .. } | Stage::Open { .. } => Err(IamError::CircuitOpen),
        }
    }

    /// Tells it under the lock, so that nobody hears of two changes in the wrong order.
    fn enter(&self, state: &mut State, next: Stage) {
        let circuit = match next {
            Stage::Closed(_) => Circuit::Closed,
            Stage::Open { .. } => Circuit::Open,
            Stage::HalfOpen { .. } => Circuit::HalfOpen,
        };
        state.stage = next;
        state.number += 1;
        self.observer.circuit(self.operation, circuit);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that was let through. Dropped without a result, it was cancelled, and proves nothing.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    breaker: &'a Breaker,
    number: u64,
    settled: bool,
}

impl Permit<'_> {
    /// Takes a further attempt out of the budget, where there is one left. A trial has none.
    pub(super) fn may_retry(&self) -> bool {
        let mut state = self.breaker.state();
        if state.number != self.number {
            return false;
        }
        let Stage::Closed(window) = &mut state.stage else {
            return false;
        };
        let now = self.breaker.clock.now();
        let Tally { calls, retries, .. } = window.sum(now);
        let allowed = retries < RETRIES_MIN.max(calls / RETRIED_ONE_IN);
        if allowed {
            window.at(now).retries += 1;
        }
        allowed
    }

    /// The call is over.
    pub(super) fn settle(mut self, result: Result<(), &IamError>) {
        self.settled = true;
        let failed = result.is_err_and(is_failure);
        let breaker = self.breaker;
        let mut state = breaker.state();
        if state.number != self.number {
            return;
        }
        let now = breaker.clock.now();
        match &mut state.stage {
            Stage::Closed(window) => {
                let tally = window.at(now);
                tally.calls += 1;
                tally.failures += u32::from(failed);
                let Tally {
                    calls, failures, ..
                } = window.sum(now);
                if calls >= CALLS_MIN && failures >= calls.div_ceil(FAILED_ONE_IN) {
                    breaker.enter(&mut state, Stage::Open { since: now });
                }
            }
            Stage::HalfOpen { .. } if failed => {
                breaker.enter(&mut state, Stage::Open { since: now });
            }
            Stage::HalfOpen { .. } => {
                breaker.enter(&mut state, Stage::Closed(Window::new(now)));
            }
            // No call was let through in this stage.
            Stage::Open { .. } => {}
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let mut state = self.breaker.state();
        if state.number == self.number
            && let Stage::HalfOpen { trials } = &mut state.stage
        {
            *trials = trials.saturating_sub(1);
        }
    }
}

/// Whether the IAM gave no answer, or said that it cannot. Whatever else it says is the answer of
/// an IAM that is there: no pause would make a wrong password right, a wrong secret known, or a
/// strange answer readable.
fn is_failure(error: &IamError) -> bool {
    match error {
        IamError::Unreachable(_) | IamError::TimedOut(_) | IamError::Failed(_) => true,
        IamError::Refused(_)
        | IamError::Throttled { .. }
        | IamError::Unreadable(_)
        | IamError::Misconfigured { .. }
        | IamError::Saturated
        | IamError::CircuitOpen => false,
    }
}
