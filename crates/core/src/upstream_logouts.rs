//! Ends sessions at the IAM, and later finishes the logouts that failed there.
//!
//! A logout that fails is kept in a table until the IAM confirms it, gives an answer that repeating
//! cannot change, or the session has expired by every clock. The table is in memory, so a restart loses it. Its size is
//! bounded; a full table drops the oldest logout.
//!
//! [`UpstreamLogouts::run`] makes one call at a time, so clients' logouts keep their concurrency at
//! the IAM. A call that fails begins a pause for the whole table, because most faults concern the IAM
//! and not the session. Pauses grow exponentially, and a success ends them: then the others follow
//! without a pause. The next call after a pause is for the next session of the table, so a session
//! for which the IAM always fails does not delay the others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use iam_adapters::single_flight::SingleFlight;
use iam_adapters::{IamAdapter, IamError, Misconfiguration, Moment, UpstreamSession};
use parking_lot::Mutex;
use scopeguard::ScopeGuard;
use strum::EnumCount;

use super::event::{Event, Subscribers};
use super::replica_state::ReplicaState;
use super::revocations::{Revocation, RevocationId};
use crate::results::UpstreamLogoutOutcome;
use crate::session_id::SessionId;

/// The maximum number of unfinished logouts. A session token has at most 8 KiB, so they take at most
/// 70 MB; with the refresh tokens of Keycloak about 15 MB.
pub(super) const CAPACITY: usize = 10_000;

/// The first pause after a failed call.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest pause after a failed call, and so the longest time until a recovery of the IAM is
/// noticed.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The longest `Retry-After` of the IAM that is respected, so that a wrong value does not stop the
/// retries.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// The age from which an unfinished logout is reported. Younger ones are finished by the next few
/// calls if the IAM fails only now and then.
const OVERDUE: Duration = Duration::from_secs(30);

/// A session to end at the IAM.
#[derive(Clone)]
pub(super) struct UpstreamLogout {
    pub(super) upstream: UpstreamSession,
    pub(super) session_id: SessionId,
    /// Recorded when the IAM has ended the session. When it can be forgotten, the session has expired by every clock,
    /// and the logout is no longer repeated.
    pub(super) confirmed: Revocation,
}

/// Unfinished logouts that have waited for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverdueLogouts {
    /// The number of all unfinished logouts.
    pub unfinished: usize,
    /// The age of the oldest one.
    pub oldest: Duration,
}

/// Ends sessions at the IAM, one call at a time for each session, and finishes failed logouts.
#[derive(derive_more::Debug)]
#[debug("UpstreamLogouts {{ unfinished: {}, .. }}", self.unfinished_count())]
pub struct UpstreamLogouts {
    iam: Arc<dyn IamAdapter>,
    replica: Arc<ReplicaState>,
    /// The calls in flight, of clients and of [`Self::finish_due`].
    pub(super) calls: SingleFlight<RevocationId, Result<(), IamError>>,
    unfinished: Mutex<UnfinishedLogouts>,
}

impl UpstreamLogouts {
    /// The time between two calls of [`Self::finish_due`].
    const INTERVAL: Duration = Duration::from_millis(500);

    pub(super) fn new(
        name: Arc<str>,
        iam: Arc<dyn IamAdapter>,
        replica: Arc<ReplicaState>,
    ) -> Self {
        let unfinished = UnfinishedLogouts::new(name, replica.subscribers.clone());
        Self {
            iam,
            replica,
            calls: SingleFlight::default(),
            unfinished: Mutex::new(unfinished),
        }
    }

    /// Ends a session at the IAM for a client. If that fails, or if the future is dropped, it is finished
    /// later.
    ///
    /// # Errors
    ///
    /// The fault of the IAM.
    pub(super) fn end(
        self: Arc<Self>,
        logout: UpstreamLogout,
    ) -> impl Future<Output = Result<(), IamError>> {
        // Before the first poll: a worker that stops drops its tasks, also those that have not begun.
        let unended = scopeguard::guard((self, logout), |(this, logout)| {
            this.add(logout, FaultEffect::FAILED);
        });
        async move {
            let (this, logout) = &*unended;
            let ended = this.call(logout).await;
            let (this, logout) = ScopeGuard::into_inner(unended);
            if let Err(fault) = &ended {
                this.add(logout, FaultEffect::of(fault));
            }
            ended
        }
    }

    fn add(&self, logout: UpstreamLogout, effect: FaultEffect) {
        let (now, jitter) = (self.replica.clock.now(), self.jitter());
        self.unfinished.lock().add(logout, effect, now, jitter);
    }

    /// Removes an unfinished logout whose session has ended at the IAM.
    pub(super) fn ended_otherwise(&self, id: RevocationId) {
        self.unfinished
            .lock()
            .remove(id, UpstreamLogoutOutcome::Finished);
    }

    /// Finishes logouts periodically. Does not return.
    pub async fn run(self: Arc<Self>) {
        loop {
            tokio::time::sleep(Self::INTERVAL).await;
            self.finish_due().await;
        }
    }

    /// Finishes the unfinished logouts, one after the other, until a call fails. Makes no call during
    /// a pause.
    pub async fn finish_due(self: &Arc<Self>) {
        self.unfinished
            .lock()
            .remove_expired(self.replica.clock.now());
        loop {
            // The lock is not held during the call.
            let next = self.unfinished.lock().next(self.replica.clock.now());
            let Some(logout) = next else { break };
            self.finish(logout).await;
        }
        self.unfinished.lock().log_change(self.replica.clock.now());
    }

    /// Finishes the unfinished logouts as [`Self::finish_due`] does, without waiting for the end of
    /// a pause. Waits first for the calls in flight: those of a worker that stops become unfinished. For a
    /// process that stops.
    pub async fn finish_now(self: &Arc<Self>) {
        self.calls.ended().await;
        self.unfinished.lock().pause = None;
        self.finish_due().await;
    }

    async fn finish(self: &Arc<Self>, logout: UpstreamLogout) {
        let id = logout.confirmed.id;
        let this = Arc::clone(self);
        let flight = self.calls.join_or_start(
            id,
            self.replica.clock.now(),
            |_| true,
            // A client may have repeated the logout.
            || (!self.unfinished.lock().contains(id)).then_some(Ok(())),
            || async move { this.call(&logout).await },
        );
        let effect = match flight.result.await {
            Ok(Ok(())) => return,
            Ok(Err(fault)) => FaultEffect::of(&fault),
            Err(_) => FaultEffect::FAILED,
        };
        let (now, jitter) = (self.replica.clock.now(), self.jitter());
        self.unfinished.lock().failed_again(id, effect, now, jitter);
    }

    async fn call(&self, logout: &UpstreamLogout) -> Result<(), IamError> {
        self.iam.end_session(&logout.upstream).await?;
        let confirmed = &logout.confirmed;
        self.replica
            .revocations
            .record(confirmed, self.replica.clock.now());
        self.unfinished.lock().succeeded(confirmed.id);
        Ok(())
    }

    /// The number of unfinished logouts.
    #[must_use]
    pub fn unfinished_count(&self) -> usize {
        self.unfinished.lock().by_age.len()
    }

    /// The unfinished logouts, if one of them has waited for longer than 30 s.
    #[must_use]
    pub fn overdue(&self, now: Moment) -> Option<OverdueLogouts> {
        self.unfinished.lock().overdue(now)
    }

    /// The largest value if the system has no random numbers.
    fn jitter(&self) -> u8 {
        let mut byte = [u8::MAX];
        let _ = self.replica.random.fill(&mut byte);
        let [jitter] = byte;
        jitter
    }
}

/// What a fault means for an unfinished logout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultEffect {
    /// Repeating cannot change the answer.
    Final,
    /// The IAM was not called, so its state is unknown.
    NotCalled,
    /// The call failed. The pause is not shorter than `pause_min`.
    Failed { pause_min: Duration },
}

impl FaultEffect {
    const FAILED: Self = Self::Failed {
        pause_min: Duration::ZERO,
    };

    /// A misconfiguration is not final if an operator can correct it at the IAM, because this process
    /// goes on with the same settings. An unreadable response often comes from a proxy.
    fn of(fault: &IamError) -> Self {
        match fault {
            IamError::Refused(_) => Self::Final,
            IamError::Saturated | IamError::CircuitOpen => Self::NotCalled,
            IamError::Throttled { retry_after } => Self::Failed {
                pause_min: retry_after.unwrap_or_default().min(RETRY_AFTER_MAX),
            },
            IamError::Unreachable(_)
            | IamError::Disconnected(_)
            | IamError::TimedOut(_)
            | IamError::Failed(_)
            | IamError::Unreadable(_)
            | IamError::UnreadableSession(_)
            // Not of a logout.
            | IamError::PermissionSource(_)
            | IamError::PossibleRefusal(_) => Self::FAILED,
            IamError::Misconfigured { what, .. } => match what {
                // Only another setting of this gateway could change it, which needs a restart.
                Misconfiguration::ForeignClient => Self::Final,
                Misconfiguration::UnknownClient
                | Misconfiguration::ClientSecret
                | Misconfiguration::Tenant
                | Misconfiguration::PasswordLogin
                | Misconfiguration::Issuer
                | Misconfiguration::Introspection
                | Misconfiguration::Tls
                | Misconfiguration::PermissionSource
                | Misconfiguration::Other => Self::FAILED,
            },
        }
    }
}

/// The logouts that failed, and the pause before the next call. Has no clock and no random numbers.
struct UnfinishedLogouts {
    iam: Arc<str>,
    subscribers: Subscribers,
    /// By their numbers, which increase with time.
    by_age: BTreeMap<u64, QueuedLogout>,
    numbers: HashMap<RevocationId, u64>,
    next_number: u64,
    /// The number from which on the next call chooses its entry.
    next_call: u64,
    /// The calls that failed since the last success. Of those of clients only the first.
    failures: u32,
    pause: Option<Pause>,
    /// The number of logouts with each outcome since overdue ones were logged; `None` if none are overdue.
    logged: Option<[u64; UpstreamLogoutOutcome::COUNT]>,
    /// Whether it was logged that the table is full.
    logged_full: bool,
}

struct QueuedLogout {
    logout: UpstreamLogout,
    failed_at: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    began: Moment,
    length: Duration,
}

impl UnfinishedLogouts {
    fn new(iam: Arc<str>, subscribers: Subscribers) -> Self {
        Self {
            iam,
            subscribers,
            by_age: BTreeMap::new(),
            numbers: HashMap::new(),
            next_number: 0,
            next_call: 0,
            failures: 0,
            pause: None,
            logged: None,
            logged_full: false,
        }
    }

    /// Adds a logout of a client that failed.
    fn add(&mut self, logout: UpstreamLogout, effect: FaultEffect, now: Moment, jitter: u8) {
        let id = logout.confirmed.id;
        match (self.contains(id), effect) {
            (true, FaultEffect::Final) => {
                return self.remove(id, UpstreamLogoutOutcome::Rejected);
            }
            (false, FaultEffect::Final) => {
                return self.end(logout.session_id, UpstreamLogoutOutcome::Rejected);
            }
            (true, FaultEffect::NotCalled | FaultEffect::Failed { .. }) => return,
            (false, FaultEffect::NotCalled | FaultEffect::Failed { .. }) => {}
        }
        if self.by_age.len() >= CAPACITY {
            self.drop_oldest();
        }
        // Further failures of clients do not lengthen the pause: there may be many in one second.
        if self.by_age.is_empty() {
            self.begin_pause(effect, now, jitter);
        }
        self.numbers.insert(id, self.next_number);
        let entry = QueuedLogout {
            logout,
            failed_at: now,
        };
        self.by_age.insert(self.next_number, entry);
        self.next_number += 1;
    }

    fn drop_oldest(&mut self) {
        if !self.logged_full {
            tracing::error!(
                iam.name = &*self.iam,
                unfinished = self.by_age.len(),
                "too many unfinished logouts: the oldest are dropped"
            );
            self.logged_full = true;
        }
        if let Some((_, oldest)) = self.by_age.first_key_value() {
            self.remove(oldest.logout.confirmed.id, UpstreamLogoutOutcome::Dropped);
        }
    }

    fn contains(&self, id: RevocationId) -> bool {
        self.numbers.contains_key(&id)
    }

    /// The next logout to finish; `None` during a pause.
    fn next(&mut self, now: Moment) -> Option<UpstreamLogout> {
        let is_over = |pause: Pause| now.since(pause.began) >= pause.length;
        if !self.pause.is_none_or(is_over) {
            return None;
        }
        let mut from_there = self.by_age.range(self.next_call..);
        let next = from_there.next().or_else(|| self.by_age.first_key_value());
        let (number, entry) = next?;
        self.next_call = number + 1;
        Some(entry.logout.clone())
    }

    /// The IAM ended a session.
    fn succeeded(&mut self, id: RevocationId) {
        self.failures = 0;
        self.pause = None;
        self.remove(id, UpstreamLogoutOutcome::Finished);
    }

    fn failed_again(&mut self, id: RevocationId, effect: FaultEffect, now: Moment, jitter: u8) {
        if effect == FaultEffect::Final {
            self.remove(id, UpstreamLogoutOutcome::Rejected);
        } else {
            self.begin_pause(effect, now, jitter);
        }
    }

    fn begin_pause(&mut self, effect: FaultEffect, now: Moment, jitter: u8) {
        let pause_min = match effect {
            FaultEffect::Failed { pause_min } => {
                self.failures = self.failures.saturating_add(1);
                pause_min
            }
            FaultEffect::NotCalled | FaultEffect::Final => Duration::ZERO,
        };
        let length = pause_after(self.failures, jitter).max(pause_min);
        self.pause = Some(Pause { began: now, length });
    }

    /// Removes a logout and counts its outcome, if it is in the table.
    fn remove(&mut self, id: RevocationId, outcome: UpstreamLogoutOutcome) {
        let number = self.numbers.remove(&id);
        let removed = number.and_then(|number| self.by_age.remove(&number));
        if let Some(entry) = removed {
            self.end(entry.logout.session_id, outcome);
            self.reset_if_empty();
        }
    }

    /// Counts and reports a logout that is no longer repeated.
    fn end(&mut self, session_id: SessionId, outcome: UpstreamLogoutOutcome) {
        let counts = self.logged.as_mut();
        if let Some(count) = counts.and_then(|counts| counts.get_mut(outcome as usize)) {
            *count += 1;
        }
        self.subscribers.emit(&Event::UpstreamLogout {
            iam: &self.iam,
            session_id,
            outcome,
        });
    }

    fn remove_expired(&mut self, now: Moment) {
        let seconds = now.unix_seconds();
        let logouts = self.by_age.values().map(|entry| &entry.logout);
        let expired = logouts.filter(|logout| seconds >= logout.confirmed.forget_at);
        let expired: Vec<_> = expired.map(|logout| logout.confirmed.id).collect();
        for id in expired {
            self.remove(id, UpstreamLogoutOutcome::Expired);
        }
        self.reset_if_empty();
    }

    fn reset_if_empty(&mut self) {
        if self.by_age.is_empty() {
            self.failures = 0;
            self.pause = None;
            self.logged_full = false;
        }
    }

    fn overdue(&self, now: Moment) -> Option<OverdueLogouts> {
        let (_, entry) = self.by_age.first_key_value()?;
        // Not `since`, which is infinite after the wall clock was set back.
        let oldest = now.monotonic.saturating_sub(entry.failed_at.monotonic);
        let unfinished = self.by_age.len();
        (oldest >= OVERDUE).then_some(OverdueLogouts { unfinished, oldest })
    }

    /// Logs when logouts become overdue, and when none are any more.
    fn log_change(&mut self, now: Moment) {
        match (self.logged, self.overdue(now)) {
            (None, Some(overdue)) => {
                tracing::warn!(
                    iam.name = &*self.iam,
                    unfinished = overdue.unfinished,
                    oldest_s = overdue.oldest.as_secs(),
                    "logouts that failed at the IAM are not finished yet"
                );
                self.logged = Some([0; UpstreamLogoutOutcome::COUNT]);
            }
            // In the order of the outcomes.
            (Some([finished, expired, rejected, dropped]), None) => {
                tracing::info!(
                    iam.name = &*self.iam,
                    finished,
                    expired,
                    rejected,
                    dropped,
                    "no logout is overdue at the IAM any more"
                );
                self.logged = None;
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
}

/// The pause after this number of failures. A random half spreads the calls of several replicas.
fn pause_after(failures: u32, jitter: u8) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let longest = PAUSE_MIN.saturating_mul(1 << doublings).min(PAUSE_MAX);
    let half = longest / 2;
    half + half * u32::from(jitter) / u32::from(u8::MAX)
}

#[cfg(test)]
mod tests;
