//! The rate limit of logins: for each account, for each address, and for the whole replica.
//!
//! The first two count refused logins only, so that an office behind one address, or a program that
//! logs in all day, reaches no limit. The third counts every login that would reach the IAM. An
//! attempt counts from before the IAM is called until it has responded, so that no number of
//! concurrent attempts exceeds a limit. A success or a fault is then removed from the count. But a fault
//! that the IAM may have for one account counts against the address, once in ten seconds for each
//! account: one address must not make calls fail that the circuit breaker counts.
//! Everything is counted by its identifier in tables of a fixed size. Replicas that share login events
//! count the first two and known networks together; each counts new sessions and its rate for itself.
//!
//! A decision depends on earlier attempts only, so it does not show whether an account exists. There
//! is one intended exception. A network from which an account has logged in is *known* to it, and
//! has its own counts, so that other networks cannot lock out the account's owner.
//!
//! Failures in a row are counted as well: after many, the rate falls until a login succeeds. How
//! long a streak is kept depends on its length: 1.7 hours for each failure. So at least 38 failures a
//! second for that long are needed to fill the table of 229,376 streaks, each of which reaches an IAM.

mod attempt;
mod counts;
mod known_networks;
mod rate;
mod sharing;

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::{ClientAddress, Clock};
use ipnet::IpNet;

use super::error::GatewayError;
use super::event::{Event, Subscribers};
use super::identifiers::{Identifier, IdentifierKey, network_octets};
use crate::error::Limit;
use counts::{Counts, Quota, Settlement};
use known_networks::KnownNetworks;

pub use rate::Rate;
pub use sharing::{LoginChange, LoginEvent, LoginPublisher};

/// How many times more failures than an IPv6 /64 the /48 around it may have. A rented server has a
/// /64 or all 65,536 of a /48, so a limit for the /64 alone could be evaded. A provider gives each
/// customer a /64 or a /56, so a limit for the /48 alone would affect other customers.
const SITE_FACTOR: u32 = 10;

/// One fault of an account counts against an address in this time.
const FAULT: Bound = Bound {
    most: 1,
    window: Duration::from_secs(10),
};

/// Labels of what is counted beside accounts and networks.
const PAIR: &str = "auth-gateway limits pair 1:";
const RESERVE: &str = "auth-gateway limits reserve 1:";
const SESSIONS: &str = "auth-gateway limits sessions 1:";
const FAULTS: &str = "auth-gateway limits faults 1:";

/// The limits that an operator sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Refused logins for each account.
    pub account: Bound,
    /// Refused logins in a row for each account.
    pub account_slow: SlowRate,
    /// New sessions of each account. As many again at once are reserved for known networks.
    pub account_sessions: Bound,
    /// Refused logins from each address.
    pub address: Bound,
}

/// A rate with a burst: 10 in 5 minutes allows 10 at once, and then one in 30 seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The most at once; 0: no bound.
    pub most: u32,
    /// The time in which all of them expire.
    pub window: Duration,
}

/// The slow rate, after failures in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowRate {
    /// The number of failures from which on it applies; 0: never.
    pub after: u32,
    /// The time until the first attempt then. It doubles with each further failure, up to four hours.
    pub interval: Duration,
}

/// Counts login attempts, and refuses those beyond the limits.
#[derive(derive_more::Debug)]
#[debug("LoginRateLimiter")]
pub struct LoginRateLimiter {
    clock: Arc<dyn Clock>,
    key: Arc<IdentifierKey>,
    /// `None`: there are no other replicas.
    replicas: Option<Arc<dyn LoginPublisher>>,
    account: Option<Quota>,
    slow: Option<Quota>,
    sessions: Option<Quota>,
    address: Option<Quota>,
    site: Option<Quota>,
    accounts: Counts,
    /// Failures in a row, in their own table, because they are kept for much longer.
    streaks: Counts,
    addresses: Counts,
    known_networks: KnownNetworks,
    subscribers: Subscribers,
}

impl LoginRateLimiter {
    /// A limiter without attempts.
    #[must_use]
    pub fn new(
        limits: Limits,
        clock: Arc<dyn Clock>,
        key: Arc<IdentifierKey>,
        replicas: Option<Arc<dyn LoginPublisher>>,
        subscribers: Subscribers,
    ) -> Self {
        let site = Bound {
            most: limits.address.most.saturating_mul(SITE_FACTOR),
            ..limits.address
        };
        Self {
            clock,
            key,
            replicas,
            account: Quota::of(limits.account),
            slow: Quota::slow(limits.account_slow),
            sessions: Quota::of(limits.account_sessions),
            address: Quota::of(limits.address),
            site: Quota::of(site),
            accounts: Counts::default(),
            streaks: Counts::default(),
            addresses: Counts::default(),
            known_networks: KnownNetworks::default(),
            subscribers,
        }
    }

    /// Whether a login from this address can be allowed for the account of this e-mail address, if there
    /// is one, at one of the IAMs with these rates. Counts nothing.
    ///
    /// # Errors
    ///
    /// [`GatewayError::TooManyLogins`] with the limit and the time to wait.
    pub fn admit<'r>(
        &self,
        address: Option<ClientAddress>,
        email: Option<&str>,
        rates: impl Iterator<Item = Option<&'r Rate>>,
    ) -> Result<(), GatewayError> {
        let now = self.now();
        for (network, quota) in self.networks(address) {
            let key = self.network(network);
            if let Err(wait) = self.addresses.room(key, quota, now) {
                let pair = address.zip(email);
                let pair = pair.map(|(address, email)| self.pair(self.key.account(email), address));
                let known_pair = pair.filter(|pair| self.known_networks.contains(*pair, now));
                if !self.has_own_limit(known_pair) {
                    return Err(too_many(Limit::Address, wait));
                }
            }
        }
        let mut shortest = None;
        for rate in rates {
            match rate.map_or(Ok(()), |rate| rate.left(now)) {
                Ok(()) => return Ok(()),
                Err(wait) => shortest = Some(shortest.map_or(wait, |other: u64| other.min(wait))),
            }
        }
        shortest.map_or(Ok(()), |wait| Err(too_many(Limit::Replica, wait)))
    }

    /// Removes the failures of an account from unknown networks and, if an address is given, those
    /// from its network, also at the other replicas. Returns the account.
    pub fn clear_failures(&self, email: &str, address: Option<ClientAddress>) -> Identifier {
        let account = self.key.account(email);
        let pair = address.map(|address| self.pair(account, address));
        let (index, pair) = (account.index(), pair.unwrap_or_default());
        self.reset(index, pair);
        self.publish(LoginChange::Reset {
            account: index,
            pair,
        });
        account
    }

    /// An attempt was not counted, because a table was full.
    fn emit_untracked(&self) {
        self.subscribers.emit(&Event::UntrackedLogin);
    }

    /// Whether a login need not fit into the limit of its address: another client of the address must
    /// not lock out an account that is known there. The pair's own limit applies instead.
    const fn has_own_limit(&self, known_pair: Option<u64>) -> bool {
        known_pair.is_some() && self.account.is_some()
    }

    /// Whether a login may use the part of the rate that is reserved for known networks. Each of them
    /// may use it as often as its account may fail.
    fn may_use_reserve(&self, known_pair: Option<u64>, now: u64) -> bool {
        let Some(pair) = known_pair else {
            return false;
        };
        let Some(quota) = self.account else {
            return true;
        };
        self.use_one(self.index(RESERVE, &[&pair.to_be_bytes()]), quota, now)
    }

    /// Whether the fault of a login counts against its address, which one account must not use up.
    fn counts_fault(&self, account: Identifier, address: Option<ClientAddress>) -> bool {
        address
            .zip(Quota::of(FAULT))
            .is_some_and(|(address, quota)| {
                let pair = self.pair(account, address).to_be_bytes();
                self.use_one(self.index(FAULTS, &[&pair]), quota, self.now())
            })
    }

    /// Counts an event if there is room for it.
    fn use_one(&self, key: u64, quota: Quota, now: u64) -> bool {
        let used = self.accounts.take(key, quota, now).is_ok();
        if used {
            self.accounts.settle(key, quota, now, Settlement::Count);
        }
        used
    }

    fn networks(&self, address: Option<ClientAddress>) -> impl Iterator<Item = (IpNet, Quota)> {
        let own = address.map(ClientAddress::network).zip(self.address);
        let site = address.and_then(ClientAddress::site).zip(self.site);
        own.into_iter().chain(site)
    }

    /// The key of a pair of an account and a network.
    fn pair(&self, account: Identifier, address: ClientAddress) -> u64 {
        let account = account.index().to_be_bytes();
        self.index(PAIR, &[&account, &network_octets(address.network())])
    }

    fn network(&self, network: IpNet) -> u64 {
        self.key.network(network).index()
    }

    fn index(&self, label: &str, parts: &[&[u8]]) -> u64 {
        self.key.hash(label, parts).index()
    }

    /// In nanoseconds, by the monotonic clock. Events from before the start of the process have a time
    /// too.
    fn now(&self) -> u64 {
        let since_start = self.clock.now().monotonic;
        nanoseconds(since_start + known_networks::RETENTION)
    }
}

/// At most 584 years.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn too_many(limit: Limit, wait: u64) -> GatewayError {
    GatewayError::TooManyLogins {
        limit,
        retry_after: Duration::from_nanos(wait),
    }
}

#[cfg(test)]
mod tests;
