//! One login, from before the IAM is asked until its answer is there.

use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use iam_adapters::{Credentials, IamError, Refusal};

use super::counts::{Counts, Pace};
use super::network::Network;
use super::{Kind, Limit, Throttle, too_many};
use crate::gateway::error::GatewayError;

enum Verdict {
    Good,
    Failed,
    Undecided,
}

/// An attempt that is under way, and the places that it holds.
struct Attempt<'a> {
    throttle: &'a Throttle,
    held: Vec<(&'a Counts, u64, Pace)>,
    pair: Option<u64>,
    verdict: Verdict,
}

impl Throttle {
    /// Asks the IAM where there is room for an attempt, and counts what comes of it. An empty
    /// password is refused and counted, and the IAM not asked. Where nobody waits for the answer
    /// any more, the attempt counts as a failure: the IAM may have heard of it.
    ///
    /// # Errors
    ///
    /// [`GatewayError::TooManyLogins`] without having asked, [`GatewayError::Refused`], or what
    /// else came of it.
    pub async fn limit<T>(
        &self,
        credentials: &Credentials,
        address: Option<IpAddr>,
        ask: impl Future<Output = Result<T, IamError>>,
    ) -> Result<T, GatewayError> {
        let mut attempt = self.begin(credentials, address)?;
        let result = if credentials.has_empty_password() {
            Err(IamError::Refused(Refusal::InvalidCredentials))
        } else {
            ask.await
        };
        attempt.verdict = match &result {
            Ok(_) => Verdict::Good,
            Err(IamError::Refused(_)) => Verdict::Failed,
            Err(_) => Verdict::Undecided,
        };
        Ok(result?)
    }

    fn begin(
        &self,
        credentials: &Credentials,
        address: Option<IpAddr>,
    ) -> Result<Attempt<'_>, GatewayError> {
        let now = self.now();
        let account = self.account(credentials.email()).hash();
        let pair = address.map(|address| self.hash(&Kind::Pair, (account, Network::of(address))));
        let mut attempt = Attempt {
            throttle: self,
            held: Vec::new(),
            pair,
            // Until every limit has let it pass, it is no attempt at all.
            verdict: Verdict::Undecided,
        };
        for (network, pace) in self.networks(address) {
            let key = self.hash(&Kind::Network, network);
            let held = attempt.hold(&self.addresses, key, pace, now);
            held.map_err(|wait| too_many(Limit::Address, wait))?;
        }
        let familiar = pair.filter(|pair| self.familiar.contains(*pair, now));
        if let Some(pace) = self.account {
            let key = familiar.unwrap_or(account);
            let held = attempt.hold(&self.accounts, key, pace, now);
            held.map_err(|wait| too_many(Limit::Account, wait))?;
        }
        // An empty password goes no further than the gateway.
        if let Some(rate) = &self.rate
            && !credentials.has_empty_password()
        {
            let taken = rate.take(now, || self.may_use_reserve(familiar, now));
            taken.map_err(|wait| too_many(Limit::Replica, wait))?;
        }
        attempt.verdict = Verdict::Failed;
        Ok(attempt)
    }
}

impl<'a> Attempt<'a> {
    fn hold(&mut self, counts: &'a Counts, key: u64, pace: Pace, now: u64) -> Result<(), u64> {
        if counts.take(key, pace, now)?.is_tracked() {
            self.held.push((counts, key, pace));
        } else {
            self.throttle.untracked.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let now = self.throttle.now();
        let failed = matches!(self.verdict, Verdict::Failed);
        for (counts, key, pace) in self.held.drain(..) {
            counts.settle(key, pace, now, failed);
        }
        if let (Verdict::Good, Some(pair)) = (&self.verdict, self.pair) {
            self.throttle.familiar.remember(pair, now);
        }
    }
}
