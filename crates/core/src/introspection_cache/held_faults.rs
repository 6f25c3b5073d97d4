//! The faults for which introspections of single sessions failed a moment ago.

use std::collections::HashMap;
use std::time::Duration;

use iam_adapters::{IamError, Moment};
use parking_lot::{Mutex, MutexGuard};

use super::SessionKey;

/// How long the fault of a session is held. `Retry-After` asks clients to wait longer.
const HELD: Duration = Duration::from_secs(1);

/// The most held faults, in about 5 MiB.
const CAPACITY: usize = 10_000;

/// Faults by session, each until a second after it happened. A session whose fault has no room causes a call for each
/// exchange.
///
/// Not a concurrent cache like the others: those keep the keys of several hundred removed entries, so with a few faults in each
/// outage the memory of a process would grow for many outages.
#[derive(Default)]
pub(super) struct HeldFaults(Mutex<Faults>);

#[derive(Default)]
struct Faults {
    by_session: HashMap<SessionKey, (Moment, IamError)>,
    /// When those that are over were last removed.
    swept_at: Option<Moment>,
}

impl HeldFaults {
    /// The fault of a session that is held now.
    pub(super) fn get(&self, session: &SessionKey, now: Moment) -> Option<IamError> {
        let faults = self.swept(now);
        let (at, fault) = faults.by_session.get(session)?;
        is_held(*at, now).then(|| fault.clone())
    }

    /// Holds a fault that happened now.
    pub(super) fn hold(&self, session: SessionKey, now: Moment, fault: IamError) {
        let mut faults = self.swept(now);
        if faults.by_session.len() < CAPACITY {
            faults.by_session.insert(session, (now, fault));
        }
    }

    /// Without those that are over, which are removed once in a second.
    fn swept(&self, now: Moment) -> MutexGuard<'_, Faults> {
        let mut faults = self.0.lock();
        if !faults.swept_at.is_some_and(|at| is_held(at, now)) {
            faults.by_session.retain(|_, (at, _)| is_held(*at, now));
            faults.by_session.shrink_to_fit();
            faults.swept_at = Some(now);
        }
        faults
    }
}

fn is_held(at: Moment, now: Moment) -> bool {
    now.since(at) < HELD
}

#[cfg(test)]
mod tests;
