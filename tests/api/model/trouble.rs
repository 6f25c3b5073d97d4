//! Whether replicas and the IAM understand each other.

use std::time::Duration;

use super::fixture::ModelFixture;
use super::line::Outage;

/// What may be the matter between a replica and the IAM.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trouble {
    outage: Option<Outage>,
    /// There was silence a moment ago, so the IAM may not be asked yet.
    pause: bool,
}

impl Trouble {
    /// How long a gateway may leave an IAM alone that has failed it.
    const PAUSE: Duration = Duration::from_secs(3);

    pub(super) const fn is_certain(self) -> bool {
        self.outage.is_some()
    }

    pub(super) const fn is_possible(self) -> bool {
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
    pub(super) fn trouble(&self, replica: usize) -> Trouble {
        let silent_until = self.replicas[replica].silent_until;
        Trouble {
            outage: self.replicas[replica].line.outage(),
            pause: silent_until.is_some_and(|until| self.now() < until + Trouble::PAUSE),
        }
    }

    pub(super) fn set_outage(&mut self, replica: usize, outage: Option<Outage>) {
        let now = self.now();
        let replica = &mut self.replicas[replica];
        if replica.line.outage().is_some_and(Outage::is_silent) {
            replica.silent_until = Some(now);
        }
        replica.line.set_outage(outage);
    }
}
