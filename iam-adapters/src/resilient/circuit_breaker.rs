//! The circuit breaker of one operation: an IAM that fails repeatedly gets no calls for a moment, so
//! that requests fail fast and the IAM can recover.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Observer, Operation};
use crate::clock::{Clock, Moment};
use crate::error::IamError;

/// The circuit stays closed below this number of calls in the window: two failures of three calls
/// are no outage.
const CALLS_MIN: u32 = 20;

/// The circuit opens if one call in this many failed. Below that, more calls succeed than fail, and an
/// open circuit would fail all of them.
const FAILED_ONE_IN: u32 = 2;

/// How long the circuit stays open. Clients get a `Retry-After` of 2 to 3 s, so at the retry of the
/// first refused clients the circuit is half open.
const PAUSE: Duration = Duration::from_secs(3);

/// The maximum number of concurrent trial calls of a half-open circuit. More than one, because a
/// single call may fail by chance; few, because the IAM may still be failing.
const TRIALS: u32 = 3;

/// One retry is allowed per this many calls, so that retries do not add much load to an overloaded
/// IAM.
const RETRIED_ONE_IN: u32 = 10;

/// This number of retries in the window is always allowed, however few the calls are.
const RETRIES_MIN: u32 = 3;

/// The state of the circuit breaker of one operation.
///
/// The circuit opens if at least half of at least 20 calls within 10 s failed: the IAM could not be
/// reached, did not respond in time, or responded with a 5xx. A refusal, "inactive", a 429 and an
/// unreadable response are no failures. After 3 s, or as soon as a probe succeeds, up to three
/// concurrent calls are made: the first success closes the circuit, the first failure opens it again.
/// Probes have no circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Circuit {
    /// Every call is made.
    Closed,
    /// A few calls are made, to find out whether the IAM is available again.
    HalfOpen,
    /// No call is made.
    Open,
}

impl Circuit {
    /// The state's name in logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }
}

/// The circuit breaker of one operation.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    operation: Operation,
    clock: Arc<dyn Clock>,
    observer: Arc<dyn Observer>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Counts the phases, so that the result of a call counts only in the phase in which it started.
    number: u64,
}

#[derive(Debug)]
enum Phase {
    Closed(FailureWindow),
    Open { since: Moment },
    HalfOpen { trials: u32 },
}

impl CircuitBreaker {
    /// A closed circuit.
    pub(super) fn new(
        operation: Operation,
        clock: Arc<dyn Clock>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let phase = Phase::Closed(FailureWindow::new(clock.now()));
        Self {
            operation,
            clock,
            observer,
            state: Mutex::new(State { phase, number: 0 }),
        }
    }

    /// Whether a call would be admitted now, so that no call waits for a permit of an open circuit.
    ///
    /// # Errors
    ///
    /// [`IamError::CircuitOpen`].
    pub(super) fn check(&self) -> Result<(), IamError> {
        self.check_state(&mut self.state())
    }

    /// Admits a call. The caller reports its result with [`Permit::settle`].
    ///
    /// # Errors
    ///
    /// [`IamError::CircuitOpen`].
    pub(super) fn admit(&self) -> Result<Permit<'_>, IamError> {
        let mut state = self.state();
        self.check_state(&mut state)?;
        if let Phase::HalfOpen { trials } = &mut state.phase {
            *trials += 1;
        }
        Ok(Permit {
            breaker: self,
            number: state.number,
            settled: false,
        })
    }

    /// Half-opens an open circuit before the end of its pause.
    pub(super) fn end_pause(&self) {
        let mut state = self.state();
        if matches!(state.phase, Phase::Open { .. }) {
            self.enter(&mut state, Phase::HalfOpen { trials: 0 });
        }
    }

    fn check_state(&self, state: &mut State) -> Result<(), IamError> {
        if let Phase::Open { since } = state.phase
            && self.clock.now().since(since) >= PAUSE
        {
            self.enter(state, Phase::HalfOpen { trials: 0 });
        }
        match state.phase {
            Phase::Closed(_) => Ok(()),
            Phase::HalfOpen { trials } if trials < TRIALS => Ok(()),
            Phase::HalfOpen { .. } | Phase::Open { .. } => Err(IamError::CircuitOpen),
        }
    }

    /// Reports the change under the lock, so that the observer gets changes in their order.
    fn enter(&self, state: &mut State, next: Phase) {
        let circuit = match next {
            Phase::Closed(_) => Circuit::Closed,
            Phase::Open { .. } => Circuit::Open,
            Phase::HalfOpen { .. } => Circuit::HalfOpen,
        };
        state.phase = next;
        state.number += 1;
        self.observer.circuit(self.operation, circuit);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An admitted call. Dropped without [`Self::settle`], the call was cancelled and counts neither as a
/// success nor as a failure.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    breaker: &'a CircuitBreaker,
    number: u64,
    settled: bool,
}

impl Permit<'_> {
    /// Takes a retry from the budget. False if none is left, and for a trial call.
    pub(super) fn take_retry(&self) -> bool {
        let mut state = self.breaker.state();
        if state.number != self.number {
            return false;
        }
        let Phase::Closed(window) = &mut state.phase else {
            return false;
        };
        let now = self.breaker.clock.now();
        let CallCounts { calls, retries, .. } = window.sum(now);
        let allowed = retries < RETRIES_MIN.max(calls / RETRIED_ONE_IN);
        if allowed {
            window.at(now).retries += 1;
        }
        allowed
    }

    /// Counts the result of the call.
    pub(super) fn settle(mut self, result: Result<(), &IamError>) {
        self.settled = true;
        let failed = result.is_err_and(is_failure);
        let breaker = self.breaker;
        let mut state = breaker.state();
        if state.number != self.number {
            return;
        }
        let now = breaker.clock.now();
        match &mut state.phase {
            Phase::Closed(window) => {
                let counts = window.at(now);
                counts.calls += 1;
                counts.failures += u32::from(failed);
                let CallCounts {
                    calls, failures, ..
                } = window.sum(now);
                if calls >= CALLS_MIN && failures >= calls.div_ceil(FAILED_ONE_IN) {
                    breaker.enter(&mut state, Phase::Open { since: now });
                }
            }
            Phase::HalfOpen { .. } if failed => {
                breaker.enter(&mut state, Phase::Open { since: now });
            }
            Phase::HalfOpen { .. } => {
                breaker.enter(&mut state, Phase::Closed(FailureWindow::new(now)));
            }
            // No call is admitted in this phase.
            Phase::Open { .. } => {}
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
            && let Phase::HalfOpen { trials } = &mut state.phase
        {
            *trials = trials.saturating_sub(1);
        }
    }
}

/// Whether the IAM did not respond, or reported its own failure. With any other response it is
/// available, and a pause would change nothing.
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

/// How far back calls are counted: long enough that an operation with few calls reaches
/// [`CALLS_MIN`], short enough that failures which are over soon count no more.
const SPAN: Duration = Duration::from_secs(10);

/// The resolution of the window: counts leave it in steps of this length.
const STEP: Duration = Duration::from_secs(1);

/// The calls of one step, or of the whole window.
#[derive(Debug, Clone, Copy, Default)]
struct CallCounts {
    /// Completed calls, including failures.
    calls: u32,
    failures: u32,
    retries: u32,
}

/// Counts calls, failures and retries of the last ten seconds.
#[derive(Debug)]
struct FailureWindow {
    step_started: Moment,
    current: CallCounts,
    past: VecDeque<(Moment, CallCounts)>,
}

impl FailureWindow {
    /// An empty window.
    fn new(now: Moment) -> Self {
        Self {
            step_started: now,
            current: CallCounts::default(),
            past: VecDeque::new(),
        }
    }

    /// The counts of the current step.
    fn at(&mut self, now: Moment) -> &mut CallCounts {
        if now.since(self.step_started) >= STEP {
            self.past.push_back((self.step_started, self.current));
            self.step_started = now;
            self.current = CallCounts::default();
        }
        self.past.retain(|(started, _)| now.since(*started) < SPAN);
        &mut self.current
    }

    /// The sum of all steps in the window.
    fn sum(&mut self, now: Moment) -> CallCounts {
        let current = *self.at(now);
        self.past
            .iter()
            .fold(current, |sum, (_, counts)| CallCounts {
                calls: sum.calls.saturating_add(counts.calls),
                failures: sum.failures.saturating_add(counts.failures),
                retries: sum.retries.saturating_add(counts.retries),
            })
    }
}
