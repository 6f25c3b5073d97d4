//! Whether the IAM is available to a replica.

use std::time::Duration;

use super::fixture::ModelFixture;
use super::recording_iam::Outage;

/// The availability of the IAM for one replica.
#[derive(Debug, Clone, Copy)]
pub(super) struct Availability {
    outage: Option<Outage>,
    /// An outage ended a moment ago, so a circuit may still be open.
    pause: bool,
}

impl Availability {
    /// How long a circuit stays open.
    const PAUSE: Duration = Duration::from_secs(3);

    pub(super) const fn is_down(self) -> bool {
        self.outage.is_some()
    }

    pub(super) const fn may_be_down(self) -> bool {
        self.outage.is_some() || self.pause
    }

    pub(super) fn is_silent(self) -> bool {
        self.outage.is_some_and(Outage::is_silent)
    }

    pub(super) fn may_be_silent(self) -> bool {
        self.pause || self.is_silent()
    }
}

impl ModelFixture {
    pub(super) fn availability(&self, replica: usize) -> Availability {
        let silent_until = self.replicas[replica].silent_until;
        Availability {
            outage: self.replicas[replica].iam.outage(),
            pause: silent_until.is_some_and(|until| self.now() < until + Availability::PAUSE),
        }
    }

    pub(super) fn set_outage(&mut self, replica: usize, outage: Option<Outage>) {
        let now = self.now();
        let replica = &mut self.replicas[replica];
        if replica.iam.outage().is_some_and(Outage::is_silent) {
            replica.silent_until = Some(now);
        }
        replica.iam.set_outage(outage);
    }
}
