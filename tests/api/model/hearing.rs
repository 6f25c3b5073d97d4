//! What replicas hear from each other, and what they have to forget.

use std::time::Duration;

use super::judge::Exchange;
use super::scenario::REPLICAS;
use super::stage::Stage;
use super::truth::{Known, Window};

/// How far the clocks of replicas may be apart.
pub(super) const SKEW: u64 = 60;

impl Stage {
    /// Makes the new process one of those who tell each other.
    pub(super) fn join(&self, replica: usize) {
        if self.setting.bus
            && let Some(gateway) = self.replicas[replica].door.gateway()
        {
            self.bus.join(replica, gateway);
            // What is asked in that very moment may have been asked before it.
            self.advance(Duration::from_millis(1));
        }
    }

    /// What the replica was told before, it does not believe any more.
    pub(super) fn rejoin(&mut self, replica: usize) {
        if self.setting.bus
            && let Some(gateway) = self.replicas[replica].door.gateway()
            && !self.bus.has(replica)
        {
            self.bus.come_back(replica, gateway);
            self.rejoined[replica] = Some(self.now());
            for word in &mut *self.replicas[replica].line.words() {
                word.counts = false;
            }
            // What is asked in that very moment may have been asked before it.
            self.advance(Duration::from_millis(1));
        }
    }

    /// When the replica may have learned what it still believes.
    pub(super) fn window(&self, exchange: &Exchange, bound: Duration) -> Window {
        Window::before(self.now(), bound).and_not_before(self.rejoined[exchange.at])
    }

    /// Who hears of what ends at the replica: itself, and those with whom it speaks and to whose
    /// clock, in seconds since 1970, it makes sense.
    pub(super) fn hearers(&self, replica: usize, sense: impl Fn(u64) -> bool) -> Vec<usize> {
        let speaks = self.bus.has(replica);
        let hears = |other: &usize| {
            let wall = self.clock_of(*other).unix_seconds();
            *other == replica || speaks && self.bus.has(*other) && sense(wall)
        };
        (0..REPLICAS).filter(hears).collect()
    }

    /// Until when, in seconds since 1970, what the IAM tells the replica now is worth remembering: by
    /// its clock, every session that there is will have expired then.
    pub(super) fn forgets_at(&self, replica: usize) -> u64 {
        self.clock_of(replica).unix_seconds() + self.setting.max_lifetime + 2 * SKEW
    }

    /// A replica that heard of the end of all sessions of a user takes each for ended that was
    /// verified by then, also where it was in truth begun right afterwards.
    pub(super) fn spread_what_was_heard(&mut self, session: usize) {
        for at in 0..REPLICAS {
            let life = &self.lives[session];
            if Some(life.pair.verified_at) <= self.heard_until[at][life.user] {
                self.learned(at, session, Known::Inactive);
            }
        }
    }
}
