//! The state of this replica, and the last word of the IAM.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use iam_adapters::guarded::{Observer, Operation};
use iam_adapters::{Clock, IamError, Misconfiguration, Moment};
use serde::Serialize;

use crate::telemetry::metrics::Metrics;

/// Whether this replica should get traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Yes.
    Ready,
    /// Yes, though not everything works: taking it away would help nobody.
    Degraded,
    /// No.
    NotReady,
}

impl Readiness {
    /// The state's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::NotReady => "not_ready",
        }
    }
}

/// Why a replica is not simply ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// A short stable name.
    pub code: &'static str,
    /// What an operator should know.
    pub message: String,
}

/// What `/health/ready` tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The verdict.
    pub readiness: Readiness,
    /// What it rests on; empty where all is well.
    pub reasons: Vec<Reason>,
    /// `ok`, `never_asked`, or the kind of the last fault.
    pub last_word: &'static str,
    /// How long ago that was.
    pub age: Option<Duration>,
}

#[derive(Debug, Default)]
struct Iam {
    last: Option<(Moment, Result<(), IamError>)>,
    /// Whether it ever served this replica.
    ever_ok: bool,
}

/// The state of this replica.
#[derive(Debug)]
pub struct Health {
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    iam: Mutex<Iam>,
    /// What is wrong between the replicas.
    replicas: Mutex<Vec<Reason>>,
    draining: AtomicBool,
    leaving: AtomicBool,
}

impl Health {
    /// A replica that just began.
    pub fn new(clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Self {
        Self {
            clock,
            metrics,
            iam: Mutex::default(),
            replicas: Mutex::default(),
            draining: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
        }
    }

    /// Takes what is wrong between this replica and the others; nothing, where all is well. It
    /// never takes a replica out of service: none serves better.
    pub fn replicas(&self, reasons: Vec<Reason>) {
        *self.replicas.lock().unwrap_or_else(PoisonError::into_inner) = reasons;
    }

    /// From now on no load balancer should send anything here.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// From now on what arrives nevertheless is refused.
    pub fn drain(&self) {
        self.leave();
        self.draining.store(true, Ordering::Release);
    }

    /// Whether new requests are refused.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// How this replica is doing.
    #[must_use]
    pub fn report(&self, now: Moment) -> Report {
        let iam = self.iam.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reasons = Vec::new();
        let mut readiness = Readiness::Ready;
        if let Some((_, Err(fault))) = &iam.last {
            readiness = match fault {
                // A replica that was never served has no knowledge to serve from, and a rollout
                // of wrong settings should stop at the first replica. But no probe finds out by
                // itself that introspection is right again: that takes traffic.
                IamError::Misconfigured { what, .. }
                    if !iam.ever_ok && *what != Misconfiguration::Introspection =>
                {
                    Readiness::NotReady
                }
                IamError::Misconfigured { .. }
                | IamError::Refused(_)
                | IamError::Unreachable(_)
                | IamError::TimedOut(_)
                | IamError::Failed(_)
                | IamError::Throttled { .. }
                | IamError::Unreadable(_)
                | IamError::Saturated => Readiness::Degraded,
            };
            let code = match fault {
                IamError::Misconfigured { what, .. } => what.kind(),
                other => other.kind(),
            };
            reasons.push(Reason {
                code,
                message: fault.to_string(),
            });
        }
        let replicas = self.replicas.lock().unwrap_or_else(PoisonError::into_inner);
        if readiness == Readiness::Ready && !replicas.is_empty() {
            readiness = Readiness::Degraded;
        }
        reasons.extend(replicas.iter().cloned());
        if self.leaving.load(Ordering::Acquire) {
            readiness = Readiness::NotReady;
            reasons.push(Reason {
                code: "stopping",
                message: "this replica is about to stop".to_owned(),
            });
        }
        Report {
            readiness,
            reasons,
            last_word: match &iam.last {
                None => "never_asked",
                Some((_, Ok(()))) => "ok",
                Some((_, Err(fault))) => fault.kind(),
            },
            age: iam.last.as_ref().map(|(at, _)| now.since(*at)),
        }
    }
}

/// Every call to the IAM is its last word until the next one, but for those that it never saw.
impl Observer for Health {
    fn called(&self, operation: Operation, result: Result<(), &IamError>, took: Duration) {
        self.metrics.iam_call(operation, result, took);
        let word = match result {
            // A refusal is the answer of an IAM that works.
            Ok(()) | Err(IamError::Refused(_)) => Ok(()),
            Err(IamError::Saturated) => return,
            Err(fault) => Err(fault.clone()),
        };
        let mut iam = self.iam.lock().unwrap_or_else(PoisonError::into_inner);
        let before = iam.last.take().map(|(_, word)| word);
        match (&before, &word) {
            (Some(Err(_)), Ok(())) => {
                tracing::info!(iam.operation = operation.name(), "the IAM answers again");
            }
            (None | Some(Ok(())), Err(fault)) => {
                tracing::warn!(iam.operation = operation.name(), error = %fault, "the IAM does not serve");
            }
            (Some(Err(old)), Err(new)) if old != new => {
                tracing::warn!(iam.operation = operation.name(), error = %new, "the IAM does not serve");
            }
            _ => {}
        }
        iam.ever_ok |= word.is_ok();
        iam.last = Some((self.clock.now(), word));
    }
}

#[cfg(test)]
mod tests {
    use iam_adapters::clock::ManualClock;

    use super::*;

    fn after(words: &[Result<(), IamError>]) -> Report {
        let clock = Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)));
        let health = Health::new(Arc::<ManualClock>::clone(&clock), Arc::default());
        for word in words {
            let word = word.as_ref().copied();
            health.called(Operation::Probe, word, Duration::ZERO);
        }
        health.report(clock.now())
    }

    fn misconfigured(what: Misconfiguration) -> Result<(), IamError> {
        Err(IamError::misconfigured(what, "detail"))
    }

    #[test]
    fn an_outage_alone_keeps_a_replica_in_service() {
        let outage = || Err(IamError::Unreachable("refused".to_owned()));
        for words in [vec![outage()], vec![Ok(()), outage()]] {
            let report = after(&words);
            assert_eq!(report.readiness, Readiness::Degraded);
            assert_eq!(report.last_word, "unreachable");
            assert_eq!(report.reasons.len(), 1);
        }
        assert_eq!(after(&[]).last_word, "never_asked");
        assert_eq!(after(&[outage(), Ok(())]).readiness, Readiness::Ready);
    }

    #[test]
    fn wrong_settings_stop_a_replica_that_was_never_served_and_no_other() {
        let wrong = || misconfigured(Misconfiguration::ClientSecret);
        assert_eq!(after(&[wrong()]).readiness, Readiness::NotReady);
        assert_eq!(after(&[Ok(()), wrong()]).readiness, Readiness::Degraded);
    }

    #[test]
    fn what_only_traffic_can_find_mended_does_not_stop_traffic() {
        let lie = misconfigured(Misconfiguration::Introspection);
        assert_eq!(after(&[lie]).readiness, Readiness::Degraded);
    }

    #[test]
    fn a_refusal_is_the_word_of_an_iam_that_works_and_saturation_none_of_its_words() {
        let refusal = Err(IamError::Refused(iam_adapters::Refusal::Disabled));
        assert_eq!(after(&[refusal]).last_word, "ok");
        let report = after(&[Ok(()), Err(IamError::Saturated)]);
        assert_eq!(report.last_word, "ok");
    }
}
