//! Whether everything that could go wrong had its chance.

/// What an exchange was a case of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Granted,
    /// On fresh or stretched knowledge, with nobody to ask.
    GrantedInAnOutage,
    /// What the user held a moment ago, and no longer does; or what was given since is missing.
    GrantedFromBefore,
    /// Not noticed yet.
    GrantedAfterTheEnd,
    Denied,
    /// The IAM said in this very exchange that the session is over.
    ToldOver,
    Fault,
    /// The question or its answer was on the way while something happened.
    Crossed,
}

impl Case {
    const ALL: [Self; 8] = [
        Self::Granted,
        Self::GrantedInAnOutage,
        Self::GrantedFromBefore,
        Self::GrantedAfterTheEnd,
        Self::Denied,
        Self::ToldOver,
        Self::Fault,
        Self::Crossed,
    ];
}

/// How often.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally([usize; Case::ALL.len()]);

impl Tally {
    pub(super) fn count(&mut self, case: Case) {
        self.0[case as usize] += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// Panics where a case is too rare for its absence of failures to mean anything.
    pub(super) fn is_fair(&self, scenarios: usize) {
        for case in Case::ALL {
            let count = self.0[case as usize];
            assert!(count >= scenarios, "only {count} times {case:?}: {self:?}");
        }
    }
}
