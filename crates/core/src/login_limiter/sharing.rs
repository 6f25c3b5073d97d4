//! Login events that replicas share, so that attempts count at every replica and after a restart.

use std::fmt;
use std::time::Duration;

use super::counts::{Counts, Quota};
use super::known_networks::RETENTION;
use super::{LoginRateLimiter, nanoseconds};
use crate::event::{EntryOutcome, Event, Replicated};
use crate::timeline::DIFFERENCE_MAX;

/// Publishes login events to the other replicas.
pub trait LoginPublisher: fmt::Debug + Send + Sync {
    /// Queues an event. The login does not wait for it. Returns whether an older one was dropped for it.
    fn publish(&self, event: LoginEvent) -> bool;
}

/// The end of a login attempt, or a reset by an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoginEvent {
    /// When it happened, in milliseconds since 1970.
    pub at: u64,
    /// From when on it has no effect, in seconds since 1970.
    pub forget_at: u64,
    /// What it changes.
    pub change: LoginChange,
}

/// What a login event changes in the counts. Accounts and networks are the first halves of their identifiers; 0 is
/// none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoginChange {
    /// A refused login, or one whose response is unknown.
    Failed {
        /// The account, or the pair of the account and its known network.
        of: u64,
        /// The network of the client, and the one around it.
        networks: [u64; 2],
        /// Whether it counts as a failure in a row.
        in_a_row: bool,
    },
    /// A success that ends failures in a row.
    Succeeded {
        /// The account, or the pair of the account and its known network.
        of: u64,
    },
    /// A success, from a network that is known from now on.
    KnownNetwork {
        /// The account and the network.
        pair: u64,
    },
    /// An operator resets the counts of an account.
    Reset {
        /// The account.
        account: u64,
        /// The account and a known network.
        pair: u64,
    },
}

impl LoginChange {
    /// The log to which it belongs.
    #[must_use]
    pub const fn log(&self) -> Replicated {
        match self {
            Self::KnownNetwork { .. } => Replicated::KnownNetworks,
            _ => Replicated::Logins,
        }
    }
}

impl LoginRateLimiter {
    /// Applies an event of another replica, or of this one before its restart, as if it had happened
    /// here at that time. But a success and a reset also remove failures that are newer, because a count does not have
    /// the time of each. Returns whether it is neither expired nor further in the future than clocks may differ.
    pub fn apply_remote(&self, event: &LoginEvent) -> bool {
        let moment = self.clock.now();
        let happened = Duration::from_millis(event.at);
        if event.forget_at <= moment.unix_seconds() || happened > moment.unix + DIFFERENCE_MAX {
            return false;
        }
        let now = self.now();
        let age = moment.unix.saturating_sub(happened);
        let at = now.saturating_sub(nanoseconds(age));
        match event.change {
            LoginChange::Failed {
                of,
                networks: [own, site],
                in_a_row,
            } => {
                self.add(&self.addresses, own, self.address, at);
                self.add(&self.addresses, site, self.site, at);
                self.add(&self.accounts, of, self.account, at);
                self.add(&self.streaks, of, self.slow.filter(|_| in_a_row), at);
            }
            LoginChange::Succeeded { of } => self.streaks.clear(of, now),
            LoginChange::KnownNetwork { pair } => {
                self.known_networks.insert(pair, at);
            }
            LoginChange::Reset { account, pair } => self.reset(account, pair),
        }
        true
    }

    fn add(&self, counts: &Counts, key: u64, quota: Option<Quota>, at: u64) {
        if let Some(quota) = quota.filter(|_| key != 0)
            && !counts.add(key, quota, at, self.now())
        {
            self.emit_untracked();
        }
    }

    pub(super) fn reset(&self, account: u64, pair: u64) {
        for key in [account, pair] {
            self.accounts.clear(key, self.now());
            self.streaks.clear(key, self.now());
        }
    }

    /// Sends an event to the other replicas, if there are any.
    pub(super) fn publish(&self, change: LoginChange) {
        let Some(replicas) = &self.replicas else {
            return;
        };
        let now = self.clock.now().unix;
        let lifetime = match change {
            LoginChange::KnownNetwork { .. } => RETENTION,
            _ => self.retention(),
        };
        let has_dropped = replicas.publish(LoginEvent {
            at: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            forget_at: (now + lifetime).as_secs().saturating_add(1),
            change,
        });
        if has_dropped {
            self.subscribers.emit(&Event::Entries {
                of: change.log(),
                outcome: EntryOutcome::Dropped,
                count: 1,
            });
        }
    }

    /// How long a failure counts at most.
    fn retention(&self) -> Duration {
        let quotas = [self.account, self.slow, self.address, self.site];
        let lifetimes = quotas.iter().flatten().map(Quota::longest);
        lifetimes.max().unwrap_or_default()
    }
}
