use std::future::pending;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::pin::Pin;

use futures_util::FutureExt as _;
use iam_adapters::{Credentials, IamError, Refusal};
use test_support::ManualClock;

use super::*;
use crate::gateway::tests::recorded::Recorded;
use crate::gateway::tests::test_gateway::login_limits;

mod attempts;
mod cardinality;
mod sessions;
mod sharing;
mod slow;
mod stuffing;
mod victim;

const RIGHT: &str = "right";
const HOME: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const START: Duration = Duration::from_secs(1_800_000_000);

/// Without the limits of refused logins for each account.
fn limits_without_refusals_of_accounts() -> Limits {
    let limits = login_limits();
    Limits {
        account: Bound {
            most: 0,
            ..limits.account
        },
        account_slow: SlowRate {
            after: 0,
            ..limits.account_slow
        },
        ..limits
    }
}

/// A login rate limiter, and an IAM that accepts one password.
struct TestLimiter {
    clock: Arc<ManualClock>,
    login_limiter: LoginRateLimiter,
    events: Arc<Recorded>,
    /// Of the IAM.
    rate: Option<Rate>,
    /// The number of calls to the IAM.
    calls: usize,
}

impl TestLimiter {
    /// With the rate of Keycloak.
    fn new(limits: Limits) -> Self {
        Self {
            rate: NonZeroU32::new(30).map(Rate::new),
            ..Self::without_rate(limits)
        }
    }

    fn without_rate(limits: Limits) -> Self {
        Self::replica(limits, None)
    }

    fn replica(limits: Limits, replicas: Option<Arc<dyn LoginPublisher>>) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let events = Arc::<Recorded>::default();
        let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let key = Arc::new(IdentifierKey::new(&[1; 32]));
        Self {
            login_limiter: LoginRateLimiter::new(limits, time, key, replicas, events.subscribed()),
            clock,
            events,
            rate: None,
            calls: 0,
        }
    }

    /// A login as in the gateway: `admit`, then the call to the IAM.
    fn log_in(
        &mut self,
        email: &str,
        password: &str,
        address: impl Into<Option<IpAddr>>,
    ) -> Result<(), GatewayError> {
        let address = address.into();
        self.admit(address, Some(email))?;
        self.log_in_with(email, password, address, |right| {
            if right {
                Ok(())
            } else {
                Err(IamError::Refused(Refusal::InvalidCredentials))
            }
        })
    }

    fn admit(&self, address: Option<IpAddr>, email: Option<&str>) -> Result<(), GatewayError> {
        let rates = std::iter::once(self.rate.as_ref());
        let address = address.map(Into::into);
        self.login_limiter.admit(address, email, rates)
    }

    fn log_in_with(
        &mut self,
        email: &str,
        password: &str,
        address: Option<IpAddr>,
        respond: impl FnOnce(bool) -> Result<(), IamError>,
    ) -> Result<(), GatewayError> {
        let call = async {
            self.calls += 1;
            respond(password == RIGHT)
        };
        let address = address.map(Into::into);
        let limited = self.login_limiter.limit(
            self.login_limiter.key.account(email),
            email,
            address,
            !password.is_empty(),
            self.rate.as_ref(),
            call,
        );
        limited.now_or_never().expect("an IAM that does not wait")
    }

    /// An attempt, and its call to the IAM.
    fn attempt<'a>(
        &'a self,
        credentials: &'a Credentials,
        address: Option<IpAddr>,
        call: impl Future<Output = Result<(), IamError>> + 'a,
    ) -> Pin<Box<dyn Future<Output = Result<(), GatewayError>> + 'a>> {
        Box::pin(self.login_limiter.limit(
            self.login_limiter.key.account(credentials.email()),
            credentials.email(),
            address.map(Into::into),
            true,
            None,
            call,
        ))
    }

    /// Whether the IAM refused the attempt, in contrast to a limit.
    fn refused(&mut self, email: &str, address: impl Into<Option<IpAddr>>) -> bool {
        match self.log_in(email, "wrong", address) {
            Err(GatewayError::Refused(_)) => true,
            Err(GatewayError::TooManyLogins { .. }) => false,
            other => panic!("{other:?}"),
        }
    }

    fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

/// The limit that refused the login, and the seconds to wait.
fn limited_by(result: &Result<(), GatewayError>) -> Option<(Limit, f64)> {
    match result {
        Err(GatewayError::TooManyLogins { limit, retry_after }) => {
            Some((*limit, retry_after.as_secs_f64()))
        }
        _ => None,
    }
}

/// The limit that refused the login.
fn limit_of(result: &Result<(), GatewayError>) -> Option<Limit> {
    limited_by(result).map(|(limit, _)| limit)
}

/// One of many unrelated addresses.
fn unrelated_address(number: usize) -> IpAddr {
    Ipv4Addr::from_bits(0x0b00_0000 + u32::try_from(number).unwrap()).into()
}

/// One of many /64 networks in one /48.
fn address_in_one_48(number: usize) -> IpAddr {
    let number = u128::try_from(number % 65_536).unwrap();
    Ipv6Addr::from_bits(0x2001_0db8_0001_0000_0000_0000_0000_0001 + (number << 64)).into()
}
