//! How often each kind of case occurred.

use super::replica::Extent;

/// The kind of one exchange, or of one logout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Granted,
    /// With fresh or stale cached data, while the IAM is down.
    GrantedInAnOutage,
    /// With permissions that have changed since.
    GrantedFromBefore,
    /// With an end of the session that the replica has not learned yet.
    GrantedAfterEnd,
    Refused,
    /// An introspection of this exchange reported the session as inactive.
    EndedByIntrospection,
    Fault,
    /// Something happened while the introspection was in progress.
    Concurrent,
    /// A replica finished a logout that had failed, when the scenario requested it.
    LogoutFinished,
}

impl Case {
    const ALL: [Self; 9] = [
        Self::Granted,
        Self::GrantedInAnOutage,
        Self::GrantedFromBefore,
        Self::GrantedAfterEnd,
        Self::Refused,
        Self::EndedByIntrospection,
        Self::Fault,
        Self::Concurrent,
        Self::LogoutFinished,
    ];

    /// Whether scenarios of this extent contain it. A whole service finishes logouts by itself, at
    /// any time.
    fn occurs(self, extent: Extent) -> bool {
        self != Self::LogoutFinished || extent == Extent::Operations
    }
}

/// How often each case occurred.
#[derive(Debug, Clone, Default)]
pub(super) struct CaseCounts([usize; Case::ALL.len()]);

impl CaseCounts {
    pub(super) fn count(&mut self, case: Case) {
        self.0[case as usize] += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// Panics if a case is so rare that the absence of violations means nothing.
    pub(super) fn assert_minimum(&self, scenarios: usize, extent: Extent) {
        for case in Case::ALL.into_iter().filter(|case| case.occurs(extent)) {
            let count = self.0[case as usize];
            assert!(count >= scenarios, "only {count} times {case:?}: {self:?}");
        }
    }
}
