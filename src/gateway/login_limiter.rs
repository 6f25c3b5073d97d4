//! How many logins may be tried here: for each account, for each address, and in all.
//!
//! The first two count refusals alone, so that neither a busy office behind one address nor a
//! program that logs in all day is in anybody's way. The third counts whatever would reach the
//! IAM. An attempt holds its place from before the IAM is asked until the answer is there, so that
//! no number of attempts at once gets past a bound; a success, and a fault, give the place back.
//! Everything is counted by keyed hashes in tables of a fixed size, and on this replica alone.
//!
//! What is decided depends on nothing but earlier attempts: whether an account exists does not
//! show. One exception is wanted. A network from which an account has logged in is *known* to it,
//! and has counts of its own, so that other networks cannot lock out the account's owner.
//!
//! Failures are also counted in a row: after many, the pace falls until one succeeds from there.
//! For how long a row is kept depends on its length, so that a table with room for 229,376 rows is
//! filled by no fewer than 250 failures a second for a quarter of an hour.

mod account;
mod attempt;
mod counts;
mod known_networks;
mod network;
mod rate;

use std::fmt;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use iam_adapters::Clock;

use super::Gateway;
use super::error::GatewayError;
use counts::{Counts, Pace, Settlement};
use known_networks::KnownNetworks;
use network::Network;
use rate::Rate;

pub use account::Account;

/// How many times more failures than an IPv6 /64 the /48 around it may have. Whoever rents a server
/// has a /64 or all 65,536 of a /48, so one bound alone could be walked around; a provider gives
/// its customers a /64 or a /56 each, so one for the /48 alone would punish neighbours.
const NEIGHBOURHOOD: u32 = 10;

/// What an operator allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Refused logins for each account.
    pub account: Bound,
    /// Refused logins in a row for each account.
    pub account_slow: SlowPace,
    /// New sessions of each account.
    pub account_sessions: Bound,
    /// Refused logins from each address.
    pub address: Bound,
    /// Logins that reach the IAM from this replica in a second; none: no bound.
    pub replica: Option<NonZeroU32>,
}

/// So many at once, and another for each part of the window that passes: 10 in 5 minutes are 10,
/// and then one in 30 seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The most at once; 0: no bound.
    pub most: u32,
    /// The time in which all of them are forgotten.
    pub window: Duration,
}

/// The pace after failures in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowPace {
    /// So many failures; 0: the pace never falls.
    pub after: u32,
    /// Then one attempt in this time.
    pub interval: Duration,
}

/// Which of the limits an attempt ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// That of its account.
    Account,
    /// The slow pace of its account, after failures in a row.
    AccountSlow,
    /// That of its account's new sessions.
    AccountSessions,
    /// That of its address, or of the network around it.
    Address,
    /// That of the whole replica.
    Replica,
}

impl Limit {
    /// Every limit there is.
    pub const ALL: [Self; 5] = [
        Self::Account,
        Self::AccountSlow,
        Self::AccountSessions,
        Self::Address,
        Self::Replica,
    ];

    /// The limit's name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::AccountSlow => "account_slow",
            Self::AccountSessions => "account_sessions",
            Self::Address => "address",
            Self::Replica => "replica",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The attempts of the last minutes, and what they leave room for.
pub struct LoginRateLimiter {
    clock: Arc<dyn Clock>,
    /// `SipHash` with a key that this process chose at its start and nobody sees.
    keyed: RandomState,
    account: Option<Pace>,
    slow: Option<Pace>,
    sessions: Option<Pace>,
    address: Option<Pace>,
    neighbourhood: Option<Pace>,
    accounts: Counts,
    /// Failures in a row, in a table of their own, because they are kept for so much longer.
    rows: Counts,
    addresses: Counts,
    known_networks: KnownNetworks,
    rate: Option<Rate>,
    untracked: AtomicU64,
}

/// What a hash is of, so that no two kinds of thing ever share a count.
#[derive(Hash)]
enum Kind {
    Account,
    Network,
    Pair,
    Reserve,
    Sessions,
}

impl LoginRateLimiter {
    /// With no attempt made yet.
    #[must_use]
    pub fn new(limits: Limits, clock: Arc<dyn Clock>) -> Self {
        let around = Bound {
            most: limits.address.most.saturating_mul(NEIGHBOURHOOD),
            ..limits.address
        };
        Self {
            clock,
            keyed: RandomState::new(),
            account: Pace::of(limits.account),
            slow: Pace::slow(limits.account_slow),
            sessions: Pace::of(limits.account_sessions),
            address: Pace::of(limits.address),
            neighbourhood: Pace::of(around),
            accounts: Counts::default(),
            rows: Counts::default(),
            addresses: Counts::default(),
            known_networks: KnownNetworks::default(),
            rate: limits.replica.map(Rate::new),
            untracked: AtomicU64::new(0),
        }
    }

    /// Whether a login from this address can be let in at all, whoever it is for. Takes nothing,
    /// so that it can be asked before a request's body is parsed.
    ///
    /// # Errors
    ///
    /// [`GatewayError::TooManyLogins`] with the limit and the time to wait.
    pub fn admit(&self, address: Option<IpAddr>) -> Result<(), GatewayError> {
        let now = self.now();
        for (network, pace) in self.networks(address) {
            let key = self.hash(&Kind::Network, network);
            let there = self.addresses.room(key, pace, now);
            there.map_err(|wait| too_many(Limit::Address, wait))?;
        }
        if let Some(rate) = &self.rate {
            let left = rate.left(now);
            left.map_err(|wait| too_many(Limit::Replica, wait))?;
        }
        Ok(())
    }

    /// What stands for an account in the log.
    #[must_use]
    pub fn account(&self, email: &str) -> Account {
        Account::new(self.hash(&Kind::Account, account::canonical(email)))
    }

    /// Forgets the failures of an account from unknown networks, and those from the network of this
    /// address, where one is given. What stands for the account in the log.
    pub fn forget_failures(&self, email: &str, address: Option<IpAddr>) -> Account {
        let now = self.now();
        let account = self.account(email);
        let pair = address.map(|address| self.pair(account, address));
        for key in pair.into_iter().chain([account.hash()]) {
            self.accounts.forget(key, now);
            self.rows.forget(key, now);
        }
        account
    }

    /// How many attempts went uncounted so far, because a table was full of others.
    #[must_use]
    pub fn untracked(&self) -> u64 {
        self.untracked.load(Ordering::Relaxed)
    }

    /// What the rate reserves in a flood is for known networks. Each may use it as often as its
    /// account may fail.
    fn may_use_reserve(&self, known_pair: Option<u64>, now: u64) -> bool {
        let Some(pair) = known_pair else {
            return false;
        };
        let Some(pace) = self.account else {
            return true;
        };
        let key = self.hash(&Kind::Reserve, pair);
        let used = self.accounts.take(key, pace, now).is_ok();
        if used {
            self.accounts.settle(key, pace, now, Settlement::Count);
        }
        used
    }

    fn networks(&self, address: Option<IpAddr>) -> impl Iterator<Item = (Network, Pace)> {
        let address = address.map(|address| address.to_canonical());
        let own = address.map(Network::of).zip(self.address);
        let around = address.and_then(Network::around).zip(self.neighbourhood);
        own.into_iter().chain(around)
    }

    /// The key of what an account and a network have to do with each other.
    fn pair(&self, account: Account, address: IpAddr) -> u64 {
        self.hash(&Kind::Pair, (account.hash(), Network::of(address)))
    }

    fn hash(&self, kind: &Kind, what: impl Hash) -> u64 {
        self.keyed.hash_one((kind, what))
    }

    /// In nanoseconds, by the clock that nobody sets.
    fn now(&self) -> u64 {
        nanoseconds(self.clock.now().monotonic)
    }
}

/// As many as fit: 584 years.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn too_many(limit: Limit, wait: u64) -> GatewayError {
    GatewayError::TooManyLogins {
        limit,
        retry_after: Duration::from_nanos(wait),
    }
}

impl fmt::Debug for LoginRateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginRateLimiter")
    }
}

impl Gateway {
    /// What is let in of the logins.
    #[must_use]
    pub fn login_limiter(&self) -> &LoginRateLimiter {
        &self.login_limiter
    }
}

#[cfg(test)]
mod tests;
