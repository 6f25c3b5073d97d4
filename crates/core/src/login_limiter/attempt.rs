//! One login attempt, from before the IAM is called until it has responded.

use std::future::Future;

use iam_adapters::{ClientAddress, IamError, Refusal};

use super::counts::{Counts, Quota, Settlement, StreakChange};
use super::{LoginChange, LoginRateLimiter, Rate, SESSIONS, too_many};
use crate::error::{GatewayError, Limit};
use crate::event::Event;
use crate::identifiers::Identifier;

#[derive(Debug, Clone, Copy)]
enum AttemptOutcome {
    Success,
    Refused,
    /// A fault that the IAM may have for this account alone: it counts against the address.
    Failed,
    /// The IAM was not called, or did not decide.
    NotCounted,
    /// The caller did not wait for the response, so it may be any of these.
    Abandoned,
}

#[derive(Debug, Clone, Copy)]
enum CounterKind {
    FailuresOfAddress,
    Failures,
    FailuresInARow,
    Sessions,
}

impl CounterKind {
    /// How the attempt is counted in the end. If the response is unknown, the worst is assumed.
    const fn settlement(self, outcome: AttemptOutcome) -> Settlement {
        match (self, outcome) {
            (_, AttemptOutcome::NotCounted)
            | (Self::FailuresOfAddress | Self::Failures, AttemptOutcome::Success)
            | (Self::Failures | Self::FailuresInARow | Self::Sessions, AttemptOutcome::Failed)
            | (Self::Sessions, AttemptOutcome::Refused) => Settlement::Release,
            (_, AttemptOutcome::Abandoned)
            | (Self::Sessions, AttemptOutcome::Success)
            | (Self::FailuresOfAddress, AttemptOutcome::Refused | AttemptOutcome::Failed)
            | (Self::Failures | Self::FailuresInARow, AttemptOutcome::Refused) => Settlement::Count,
            (Self::FailuresInARow, AttemptOutcome::Success) => Settlement::Reset,
        }
    }
}

/// The count of an attempt in one of the tables.
struct Reservation<'a> {
    of: CounterKind,
    counts: &'a Counts,
    key: u64,
    quota: Quota,
}

/// An attempt in progress, and the tables in which it is counted.
struct Attempt<'a> {
    login_limiter: &'a LoginRateLimiter,
    now: u64,
    email: &'a str,
    reservations: Vec<Reservation<'a>>,
    pair: Option<u64>,
    is_known_network: bool,
    /// The account, or the pair if its network is known.
    of: u64,
    /// The hashes of the client's network and of the one around it; 0: none.
    networks: [u64; 2],
    is_guess: bool,
    outcome: AttemptOutcome,
}

impl LoginRateLimiter {
    /// Calls the IAM, which has this rate, if the limits allow an attempt, and counts the result. An attempt
    /// that does not reach an IAM is refused like a wrong password and counted, without the call. It is not a
    /// guess, so it does not count as a failure in a row. Otherwise such attempts, which no rate of an IAM
    /// bounds, could fill the table of streaks. A fault that may be of this account counts against the
    /// address. If the caller does not wait for the response, the attempt counts as a failure and as a
    /// session: the IAM may have received it.
    ///
    /// # Errors
    ///
    /// [`GatewayError::TooManyLogins`] if the IAM was not called, [`GatewayError::Refused`], or a
    /// fault.
    pub async fn limit<T>(
        &self,
        account: Identifier,
        email: &str,
        address: Option<ClientAddress>,
        reaches_iam: bool,
        rate: Option<&Rate>,
        call: impl Future<Output = Result<T, IamError>>,
    ) -> Result<T, GatewayError> {
        let mut attempt = self.begin(account, email, address, reaches_iam, rate)?;
        let result = if reaches_iam {
            call.await
        } else {
            Err(IamError::Refused(Refusal::InvalidCredentials))
        };
        attempt.outcome = match &result {
            Ok(_) => AttemptOutcome::Success,
            Err(IamError::Refused(_) | IamError::PossibleRefusal(_)) => AttemptOutcome::Refused,
            Err(
                IamError::Disconnected(_)
                | IamError::TimedOut(_)
                | IamError::Failed(_)
                | IamError::Unreadable(_)
                | IamError::UnreadableSession(_),
            ) if self.counts_fault(account, address) => AttemptOutcome::Failed,
            Err(_) => AttemptOutcome::NotCounted,
        };
        Ok(result?)
    }

    fn begin<'a>(
        &'a self,
        account: Identifier,
        email: &'a str,
        address: Option<ClientAddress>,
        is_guess: bool,
        rate: Option<&Rate>,
    ) -> Result<Attempt<'a>, GatewayError> {
        let now = self.now();
        let pair = address.map(|address| self.pair(account, address));
        let known_pair = pair.filter(|pair| self.known_networks.contains(*pair, now));
        let mut attempt = Attempt {
            login_limiter: self,
            now,
            email,
            reservations: Vec::new(),
            pair,
            is_known_network: known_pair.is_some(),
            of: known_pair.unwrap_or(account.index()),
            networks: [0; 2],
            is_guess,
            // An attempt that a limit refuses is not counted.
            outcome: AttemptOutcome::NotCounted,
        };
        let networks = self.networks(address);
        let mut of_account = CounterKind::Failures;
        for ((network, quota), place) in networks.zip(0..) {
            let (kind, key) = (CounterKind::FailuresOfAddress, self.network(network));
            let reserved = attempt.reserve(kind, &self.addresses, key, Some(quota), Limit::Address);
            match (reserved, attempt.networks.get_mut(place)) {
                (Ok(()), Some(hash)) => *hash = key,
                (Err(refused), _) if !self.has_own_limit(known_pair) => return Err(refused),
                // The limit of the pair replaces that of the address, also for faults.
                _ => of_account = CounterKind::FailuresOfAddress,
            }
        }
        let of = attempt.of;
        attempt.reserve(of_account, &self.accounts, of, self.account, Limit::Account)?;
        if attempt.is_guess {
            let kind = CounterKind::FailuresInARow;
            attempt.reserve(kind, &self.streaks, of, self.slow, Limit::AccountSlow)?;
            let key = self.index(SESSIONS, &[&account.index().to_be_bytes()]);
            let (kind, limit) = (CounterKind::Sessions, Limit::AccountSessions);
            // Attempts from other networks that are abandoned, which count, leave this part to the owner.
            let sessions = if attempt.is_known_network {
                self.sessions.map(Quota::doubled)
            } else {
                self.sessions
            };
            attempt.reserve(kind, &self.accounts, key, sessions, limit)?;
            if let Some(rate) = rate {
                let taken = rate.take(now, || self.may_use_reserve(known_pair, now));
                taken.map_err(|wait| too_many(Limit::Replica, wait))?;
            }
        }
        attempt.outcome = AttemptOutcome::Abandoned;
        Ok(attempt)
    }
}

impl<'a> Attempt<'a> {
    /// Counts the attempt in this table, if there is a quota.
    fn reserve(
        &mut self,
        of: CounterKind,
        counts: &'a Counts,
        key: u64,
        quota: Option<Quota>,
        limit: Limit,
    ) -> Result<(), GatewayError> {
        let Some(quota) = quota else {
            return Ok(());
        };
        let taken = counts.take(key, quota, self.now);
        if taken.map_err(|wait| too_many(limit, wait))? {
            self.reservations.push(Reservation {
                of,
                counts,
                key,
                quota,
            });
        } else {
            self.login_limiter.emit_untracked();
        }
        Ok(())
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let (login_limiter, of) = (self.login_limiter, self.of);
        let now = login_limiter.now();
        let mut ends_streak = false;
        for reservation in self.reservations.drain(..) {
            let Reservation { key, quota, .. } = reservation;
            let settlement = reservation.of.settlement(self.outcome);
            let change = reservation.counts.settle(key, quota, now, settlement);
            ends_streak |= change == StreakChange::Ended;
            if change == StreakChange::ReachedBound {
                login_limiter.subscribers.emit(&Event::SlowRate {
                    email: self.email,
                    is_known_network: self.is_known_network,
                });
            }
        }
        match self.outcome {
            AttemptOutcome::Success => {
                if ends_streak {
                    login_limiter.publish(LoginChange::Succeeded { of });
                }
                if let Some(pair) = self.pair
                    && login_limiter.known_networks.insert(pair, now)
                {
                    login_limiter.publish(LoginChange::KnownNetwork { pair });
                }
            }
            AttemptOutcome::Refused | AttemptOutcome::Abandoned => {
                login_limiter.publish(LoginChange::Failed {
                    of,
                    networks: self.networks,
                    in_a_row: self.is_guess,
                });
            }
            // Each replica counts faults for itself, like its circuit breakers.
            AttemptOutcome::Failed | AttemptOutcome::NotCounted => {}
        }
    }
}
