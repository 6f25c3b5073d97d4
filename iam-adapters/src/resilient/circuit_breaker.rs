//! A circuit breaker: a server that fails repeatedly gets no calls for a moment, so that requests fail
//! fast and the server can recover.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use parking_lot::Mutex;
use strum::IntoStaticStr;

use crate::clock::{Clock, Moment};
use crate::types::Subject;

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
/// single call may fail by chance; few, because the server may still be failing.
const TRIALS: u32 = 3;

/// One retry is allowed per this many calls, so that retries do not add much load to an overloaded
/// server.
const RETRIED_ONE_IN: u32 = 10;

/// This number of retries in the window is always allowed, however few the calls are.
const RETRIES_MIN: u32 = 3;

/// The state of a circuit breaker.
///
/// The circuit opens if at least half of at least 20 calls within 10 s failed. After 3 s, or as soon as
/// [`CircuitBreaker::probed`] reports that the server is available, up to three concurrent calls are
/// made: the first success closes the circuit, the first failure opens it again.
///
/// A failure counts at most once in 10 s for each [`Requester`], so that one of them whose calls always
/// fail does not open the circuit for all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Circuit {
    /// Every call is made.
    Closed,
    /// A few calls are made, to find out whether the server is available again.
    HalfOpen,
    /// No call is made.
    Open,
}

/// For whom a call is made. A server may fail for one of them and serve all others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Requester {
    /// The e-mail address of a login.
    Account(Box<str>),
    /// The IPv4 address or the IPv6 /48 of a login.
    Network(IpNet),
    /// The user of a session.
    Subject(Subject),
}

/// The circuit breaker of one kind of call. The caller decides which results are failures.
///
/// The `Debug` form is without the requesters, which are personal data.
#[derive(derive_more::Debug)]
#[debug("CircuitBreaker {{ .. }}")]
pub struct CircuitBreaker {
    clock: Arc<dyn Clock>,
    changed: Box<dyn Fn(Circuit) + Send + Sync>,
    state: Mutex<BreakerState>,
}

#[derive(Debug)]
struct BreakerState {
    phase: Phase,
    /// Counts the phases, so that the result of a call counts only in the phase in which it started.
    number: u64,
    /// Whether the last probe failed. Then the failures of calls are not about their requesters.
    is_down: bool,
    /// When a failure was last counted for these requesters.
    failed: HashMap<Requester, Moment>,
}

impl BreakerState {
    /// Whether a failure counts. Without requesters it is one of the whole server.
    fn counts_failure(&mut self, requesters: &[Requester], now: Moment) -> bool {
        if self.is_down || requesters.is_empty() {
            return true;
        }
        self.failed.retain(|_, at| now.since(*at) < SPAN);
        if requesters.iter().any(|one| self.failed.contains_key(one)) {
            return false;
        }
        let requesters = requesters.iter().cloned();
        self.failed.extend(requesters.map(|one| (one, now)));
        true
    }

    /// Ends a call that does not count.
    const fn end_uncounted(&mut self) {
        if let Phase::HalfOpen { trials } = &mut self.phase {
            *trials = trials.saturating_sub(1);
        }
    }
}

#[derive(Debug)]
enum Phase {
    Closed(FailureWindow),
    Open { since: Moment },
    HalfOpen { trials: u32 },
}

impl CircuitBreaker {
    /// A closed circuit. Each change of its state is reported to `changed`, in their order.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, changed: impl Fn(Circuit) + Send + Sync + 'static) -> Self {
        let phase = Phase::Closed(FailureWindow::default());
        Self {
            clock,
            changed: Box::new(changed),
            state: Mutex::new(BreakerState {
                phase,
                number: 0,
                is_down: false,
                failed: HashMap::new(),
            }),
        }
    }

    /// Whether a call would be admitted now, so that no call waits for a permit of an open circuit.
    #[must_use]
    pub fn admits(&self) -> bool {
        self.admits_in(&mut self.state.lock())
    }

    /// Admits a call, unless the circuit is open. The caller reports the result with
    /// [`Permit::settle`].
    #[must_use]
    pub fn admit(&self) -> Option<Permit<'_>> {
        let mut state = self.state.lock();
        if !self.admits_in(&mut state) {
            return None;
        }
        if let Phase::HalfOpen { trials } = &mut state.phase {
            *trials += 1;
        }
        Some(Permit {
            breaker: self,
            number: state.number,
            settled: false,
        })
    }

    /// Takes the result of a probe, which is no call for a requester. After a failure, every failure of
    /// a call counts. An available server half-opens an open circuit before the end of its pause.
    pub fn probed(&self, is_available: bool, is_down: bool) {
        let mut state = self.state.lock();
        state.is_down = is_down;
        if is_available && matches!(state.phase, Phase::Open { .. }) {
            self.enter(&mut state, Phase::HalfOpen { trials: 0 });
        }
    }

    fn admits_in(&self, state: &mut BreakerState) -> bool {
        if let Phase::Open { since } = state.phase
            && self.clock.now().since(since) >= PAUSE
        {
            self.enter(state, Phase::HalfOpen { trials: 0 });
        }
        match state.phase {
            Phase::Closed(_) => true,
            Phase::HalfOpen { trials } => trials < TRIALS,
            Phase::Open { .. } => false,
        }
    }

    /// Reports the change under the lock, so that changes are reported in their order.
    fn enter(&self, state: &mut BreakerState, next: Phase) {
        let circuit = match next {
            Phase::Closed(_) => Circuit::Closed,
            Phase::Open { .. } => Circuit::Open,
            Phase::HalfOpen { .. } => Circuit::HalfOpen,
        };
        state.phase = next;
        state.number += 1;
        (self.changed)(circuit);
    }
}

/// An admitted call. Dropped without [`Self::settle`], the call was cancelled and counts neither as a
/// success nor as a failure.
#[derive(Debug)]
pub struct Permit<'a> {
    breaker: &'a CircuitBreaker,
    number: u64,
    settled: bool,
}

impl Permit<'_> {
    /// Takes a retry from the budget. False if none is left, and for a trial call.
    #[must_use]
    pub fn take_retry(&self) -> bool {
        let mut state = self.breaker.state.lock();
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
            window.count(now, |counts| counts.retries += 1);
        }
        allowed
    }

    /// Counts the result of the call. `requesters` are those for whom alone the server may have failed;
    /// none, if the failure is one of the whole server.
    pub fn settle(mut self, failed: bool, requesters: &[Requester]) {
        self.settled = true;
        let breaker = self.breaker;
        let mut state = breaker.state.lock();
        if state.number != self.number {
            return;
        }
        let now = breaker.clock.now();
        if failed && !state.counts_failure(requesters, now) {
            state.end_uncounted();
            return;
        }
        match &mut state.phase {
            Phase::Closed(window) => {
                window.count(now, |counts| {
                    counts.calls += 1;
                    counts.failures += u32::from(failed);
                });
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
                breaker.enter(&mut state, Phase::Closed(FailureWindow::default()));
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
        let mut state = self.breaker.state.lock();
        if state.number == self.number {
            state.end_uncounted();
        }
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

/// The calls, failures and retries of the last ten seconds: the counts of each step, with its start.
#[derive(Debug, Default)]
struct FailureWindow(Vec<(Moment, CallCounts)>);

impl FailureWindow {
    /// Changes the counts of the current step.
    fn count(&mut self, now: Moment, add: impl FnOnce(&mut CallCounts)) {
        match self.0.last_mut() {
            Some((started, counts)) if now.since(*started) < STEP => add(counts),
            _ => {
                let mut counts = CallCounts::default();
                add(&mut counts);
                self.0.push((now, counts));
            }
        }
    }

    /// The sum of all steps in the window.
    fn sum(&mut self, now: Moment) -> CallCounts {
        self.0.retain(|(started, _)| now.since(*started) < SPAN);
        let steps = self.0.iter().map(|(_, counts)| counts);
        steps.fold(CallCounts::default(), |sum, step| CallCounts {
            calls: sum.calls.saturating_add(step.calls),
            failures: sum.failures.saturating_add(step.failures),
            retries: sum.retries.saturating_add(step.retries),
        })
    }
}
