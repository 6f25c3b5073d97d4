//! The revocations that replicas exchange, and how long they retain them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use auth_gateway_core::timeline::DIFFERENCE_MAX;

use super::fixture::ModelFixture;
use super::oracle::Exchange;
use super::scenario::REPLICAS;
use super::state::{KnownEnd, Window};

/// What a revocation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// This session, by a logout.
    Session(usize),
    /// The IAM's session of this session.
    Upstream(usize),
    /// All sessions of this user that began until a time.
    User(usize),
    /// All sessions that began until a time.
    All,
}

/// All times in seconds since 1970, by the clock of the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// Sessions that began later are not affected.
    until: u64,
    /// The revocation is retained until then.
    retained_until: u64,
}

/// The revocations that replicas exchanged, and those that are pending.
#[derive(Debug, Default)]
pub(super) struct ReplicationModel {
    stored: Vec<(Target, End)>,
    known: [HashMap<Target, End>; REPLICAS],
    pending: [HashSet<Target>; REPLICAS],
    /// Replicas that have not caught up since their start.
    starting: [bool; REPLICAS],
}

impl ReplicationModel {
    /// Adds a revocation to those of a replica; returns whether it was new or extended an earlier
    /// one.
    fn extend(&mut self, at: usize, what: Target, end: End) -> bool {
        let before = self.known[at].get(&what).copied();
        let known = self.known[at].entry(what).or_insert(end);
        known.until = known.until.max(end.until);
        known.retained_until = known.retained_until.max(end.retained_until);
        before != Some(*known)
    }
}

impl ModelFixture {
    /// Connects a new process to the others, if they exchange revocations.
    pub(super) fn join(&mut self, replica: usize, connected: bool) {
        if self.are_connected()
            && let Some(gateway) = self.replicas[replica].api.gateway()
        {
            self.stream.measure(gateway);
            self.replication.known[replica].clear();
            self.replication.pending[replica].clear();
            self.replication.starting[replica] = true;
            if connected {
                self.catch_up(replica);
            }
        }
    }

    /// After a reconnect, the replica distrusts its cached data.
    pub(super) fn reconnect(&mut self, replica: usize) {
        if self.are_connected()
            && self.replicas[replica].api.gateway().is_some()
            && !self.stream.is_connected(replica)
        {
            self.catch_up(replica);
            self.reconnected_at[replica] = Some(self.now());
            for report in &mut *self.replicas[replica].iam.reports() {
                report.counts = false;
            }
        }
    }

    fn catch_up(&mut self, replica: usize) {
        let Some(gateway) = self.replicas[replica].api.gateway() else {
            return;
        };
        self.stream.connect(replica, gateway);
        self.replication.starting[replica] = false;
        for what in std::mem::take(&mut self.replication.pending[replica]) {
            self.deliver(replica, what);
        }
        for (what, end) in self.replication.stored.clone() {
            self.receive(replica, what, end);
        }
        // Data requested at the same moment is distrusted as well.
        self.advance(Duration::from_millis(1));
    }

    /// Whether the replica has not caught up since its start, so that it must issue no token.
    pub(super) fn is_starting(&self, replica: usize) -> bool {
        self.replication.starting[replica]
    }

    /// The time of the data that the replica may use.
    pub(super) fn window(&self, exchange: &Exchange, bound: Duration) -> Window {
        Window::before(self.now(), bound).and_not_before(self.reconnected_at[exchange.at])
    }

    /// A client logged the session out at the replica.
    pub(super) fn publish_logout(&mut self, at: usize, session: usize) {
        let end = End {
            until: u64::MAX,
            retained_until: self.session_states[session].expired_by_every_clock_at(),
        };
        self.publish(at, Target::Session(session), end);
    }

    /// An operator revoked the session at the replica, which does not know its expiry.
    pub(super) fn publish_revocation(&mut self, at: usize, session: usize) {
        let end = End {
            until: u64::MAX,
            retained_until: self.retained_until(at),
        };
        self.publish(at, Target::Session(session), end);
        self.learned(at, session, KnownEnd::LoggedOut);
    }

    /// An operator revoked all sessions at the replica.
    pub(super) fn publish_end_of_all(&mut self, at: usize, until: u64) {
        let retained_until = self.retained_until(at);
        self.publish(
            at,
            Target::All,
            End {
                until,
                retained_until,
            },
        );
        self.learn_end_of_all(at, until);
    }

    /// The IAM reported the end of a session to the replica.
    pub(super) fn publish_session_end(&mut self, at: usize, session: usize) {
        let end = End {
            until: u64::MAX,
            retained_until: self.retained_until(at),
        };
        self.publish(at, Target::Upstream(session), end);
        self.learned(at, session, KnownEnd::Ended);
    }

    /// The IAM reported the end of all sessions of a user to the replica, or an operator revoked
    /// them.
    pub(super) fn publish_user_end(&mut self, at: usize, user: usize, until: u64) {
        let retained_until = self.retained_until(at);
        self.publish(
            at,
            Target::User(user),
            End {
                until,
                retained_until,
            },
        );
        self.learn_user_end(at, user, until);
    }

    /// A repeated revocation is sent only if it extends the earlier one.
    fn publish(&mut self, at: usize, what: Target, end: End) {
        if !self.are_connected() || !self.replication.extend(at, what, end) {
            return;
        }
        if self.stream.is_connected(at) {
            self.deliver(at, what);
        } else {
            self.replication.pending[at].insert(what);
        }
    }

    fn deliver(&mut self, at: usize, what: Target) {
        let end = self.replication.known[at][&what];
        self.replication.stored.push((what, end));
        for other in 0..REPLICAS {
            if other != at && self.stream.is_connected(other) {
                self.receive(other, what, end);
            }
        }
    }

    /// Ignores revocations that have expired by the replica's clock.
    fn receive(&mut self, at: usize, what: Target, end: End) {
        if self.clock_of(at).unix_seconds() >= end.retained_until {
            return;
        }
        self.replication.extend(at, what, end);
        match what {
            Target::Session(session) => self.learned(at, session, KnownEnd::LoggedOut),
            Target::Upstream(session) => self.learned(at, session, KnownEnd::Ended),
            Target::User(user) => self.learn_user_end(at, user, end.until),
            Target::All => self.learn_end_of_all(at, end.until),
        }
    }

    /// When a revocation of the IAM can be dropped, in seconds since 1970: by the replica's clock,
    /// all sessions have expired by then.
    fn retained_until(&self, replica: usize) -> u64 {
        self.clock_of(replica).unix_seconds()
            + self.setting.max_lifetime
            + 2 * DIFFERENCE_MAX.as_secs()
    }

    fn learn_user_end(&mut self, at: usize, user: usize, until: u64) {
        let before = &mut self.user_ended_until[at][user];
        *before = (*before).max(Some(until));
        for session in 0..self.session_states.len() {
            self.apply_user_ends(session);
        }
    }

    fn learn_end_of_all(&mut self, at: usize, until: u64) {
        let before = &mut self.all_ended_until[at];
        *before = (*before).max(Some(until));
        for session in 0..self.session_states.len() {
            self.apply_user_ends(session);
        }
    }

    /// A replica that received the end of all sessions, or of all of a user, refuses every session
    /// whose login was sent until then, also if it began right afterwards.
    pub(super) fn apply_user_ends(&mut self, session: usize) {
        for at in 0..REPLICAS {
            let state = &self.session_states[session];
            if Some(state.sent_at) <= self.user_ended_until[at][state.user] {
                self.learned(at, session, KnownEnd::Inactive);
            }
            let state = &self.session_states[session];
            if Some(state.sent_at) <= self.all_ended_until[at] {
                self.learned(at, session, KnownEnd::LoggedOut);
            }
        }
    }
}
