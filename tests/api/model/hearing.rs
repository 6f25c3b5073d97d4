//! What replicas hear from each other, and what they have to forget.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::fixture::ModelFixture;
use super::judge::Exchange;
use super::scenario::REPLICAS;
use super::truth::{Known, Window};

/// How far the clocks of replicas may be apart.
pub(super) const SKEW: u64 = 60;

/// What a replica can tell the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// This session was logged out.
    Session(usize),
    /// What this session rests on at the IAM is over.
    Upstream(usize),
    /// Every session of this user is over that began up to a moment.
    User(usize),
}

/// All times in seconds since 1970, by somebody's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// Sessions that began later are not meant.
    until: u64,
    /// Until then it matters.
    forget_at: u64,
}

/// What replicas told each other, and what each still has to tell.
#[derive(Debug, Default)]
pub(super) struct Hearsay {
    kept: Vec<(What, End)>,
    known: [HashMap<What, End>; REPLICAS],
    untold: [HashSet<What>; REPLICAS],
    /// Those that have not heard yet what was told before they started.
    starting: [bool; REPLICAS],
}

impl Hearsay {
    /// Makes what the replica knows no less than this; tells whether it was less.
    fn strengthen(&mut self, at: usize, what: What, end: End) -> bool {
        let before = self.known[at].get(&what).copied();
        let known = self.known[at].entry(what).or_insert(end);
        known.until = known.until.max(end.until);
        known.forget_at = known.forget_at.max(end.forget_at);
        before != Some(*known)
    }
}

impl ModelFixture {
    /// Makes the new process one of those who tell each other, which it does at once where it can.
    pub(super) fn join(&mut self, replica: usize, connected: bool) {
        if self.setting.bus
            && let Some(gateway) = self.replicas[replica].door.gateway()
        {
            self.bus.join(replica, gateway);
            self.hearsay.known[replica].clear();
            self.hearsay.untold[replica].clear();
            self.hearsay.starting[replica] = true;
            if connected {
                self.come_back(replica);
            }
        }
    }

    /// What the replica was told before, it does not believe any more.
    pub(super) fn rejoin(&mut self, replica: usize) {
        if self.setting.bus
            && self.replicas[replica].door.gateway().is_some()
            && !self.bus.has(replica)
        {
            self.come_back(replica);
            self.rejoined[replica] = Some(self.now());
            for word in &mut *self.replicas[replica].line.words() {
                word.counts = false;
            }
        }
    }

    fn come_back(&mut self, replica: usize) {
        let Some(gateway) = self.replicas[replica].door.gateway() else {
            return;
        };
        self.bus.come_back(replica, gateway);
        self.hearsay.starting[replica] = false;
        for what in std::mem::take(&mut self.hearsay.untold[replica]) {
            self.told(replica, what);
        }
        for (what, end) in self.hearsay.kept.clone() {
            self.hears(replica, what, end);
        }
        // What is asked in that very moment may have been asked before it.
        self.advance(Duration::from_millis(1));
    }

    /// Whether the replica has not heard yet what ended before it started, so that it must give no
    /// token.
    pub(super) fn is_starting(&self, replica: usize) -> bool {
        self.hearsay.starting[replica]
    }

    /// When the replica may have learned what it still believes.
    pub(super) fn window(&self, exchange: &Exchange, bound: Duration) -> Window {
        Window::before(self.now(), bound).and_not_before(self.rejoined[exchange.at])
    }

    /// The client of a session logged out at the replica.
    pub(super) fn tells_of_logout(&mut self, at: usize, session: usize) {
        let end = End {
            until: u64::MAX,
            forget_at: self.lives[session].pair.expires_at + SKEW,
        };
        self.tells(at, What::Session(session), end);
    }

    /// The IAM told the replica that a session is over.
    pub(super) fn tells_of_session(&mut self, at: usize, session: usize) {
        let end = End {
            until: u64::MAX,
            forget_at: self.forgets_at(at),
        };
        self.tells(at, What::Upstream(session), end);
        self.learned(at, session, Known::Ended);
    }

    /// The IAM told the replica that all of a user's sessions up to a moment are over.
    pub(super) fn tells_of_user(&mut self, at: usize, user: usize, until: u64) {
        let forget_at = self.forgets_at(at);
        self.tells(at, What::User(user), End { until, forget_at });
        self.heard_of_user(at, user, until);
    }

    /// Once, unless there is more to tell.
    fn tells(&mut self, at: usize, what: What, end: End) {
        if !self.setting.bus || !self.hearsay.strengthen(at, what, end) {
            return;
        }
        if self.bus.has(at) {
            self.told(at, what);
        } else {
            self.hearsay.untold[at].insert(what);
        }
    }

    fn told(&mut self, at: usize, what: What) {
        let end = self.hearsay.known[at][&what];
        self.hearsay.kept.push((what, end));
        for other in 0..REPLICAS {
            if other != at && self.bus.has(other) {
                self.hears(other, what, end);
            }
        }
    }

    /// Only what makes sense to the replica's own clock counts.
    fn hears(&mut self, at: usize, what: What, end: End) {
        let wall = self.clock_of(at).unix_seconds();
        let to_come = matches!(what, What::User(_)) && end.until > wall + SKEW;
        if wall >= end.forget_at || to_come {
            return;
        }
        self.hearsay.strengthen(at, what, end);
        match what {
            What::Session(session) => self.learned(at, session, Known::LoggedOut),
            What::Upstream(session) => self.learned(at, session, Known::Ended),
            What::User(user) => self.heard_of_user(at, user, end.until),
        }
    }

    /// Until when, in seconds since 1970, what the IAM tells the replica now is worth remembering: by
    /// its clock, every session that there is will have expired then.
    fn forgets_at(&self, replica: usize) -> u64 {
        self.clock_of(replica).unix_seconds() + self.setting.max_lifetime + 2 * SKEW
    }

    fn heard_of_user(&mut self, at: usize, user: usize, until: u64) {
        let before = &mut self.heard_until[at][user];
        *before = (*before).max(Some(until));
        for session in 0..self.lives.len() {
            self.spread_what_was_heard(session);
        }
    }

    /// A replica that heard of the end of all sessions of a user takes each for ended whose login was
    /// sent by then, also where that was in truth right afterwards.
    pub(super) fn spread_what_was_heard(&mut self, session: usize) {
        for at in 0..REPLICAS {
            let life = &self.lives[session];
            if Some(life.sent_at) <= self.heard_until[at][life.user] {
                self.learned(at, session, Known::Inactive);
            }
        }
    }
}
