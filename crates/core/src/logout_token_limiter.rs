//! The rate limit of invalid logout tokens.
//!
//! Any client may send such tokens, and to verify one costs about as much as an exchange. So a
//! sender whose tokens were invalid too often gets 429 for a while. The IAM, which sends valid ones
//! from another address, never does.

use std::sync::Arc;
use std::time::Duration;

use iam_adapters::{ClientAddress, Moment};
use parking_lot::Mutex;

use super::error::GatewayError;
use super::identifiers::IdentifierKey;
use super::results::EndedByIam;

/// How many invalid tokens a sender may send in one [`WINDOW`]. A misconfigured IAM sends one for
/// each logout.
const INVALID_MAX: u32 = 50;

const WINDOW: Duration = Duration::from_secs(10);

/// How long the sender of a valid token is not limited. Behind a proxy that hides the addresses of
/// its clients, the IAM and an attacker have the same address; then all tokens are verified.
const TRUSTED: Duration = Duration::from_secs(24 * 60 * 60);

/// The number of slots. A sender's slot is a keyed hash of its address, so the memory is fixed, and
/// no client can compute which addresses share a slot. A sender that shares one with an attacker is
/// limited with it, until a valid token of that sender is verified.
const SLOTS: usize = 1024;

/// The tokens of the senders of one slot.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// When the window began, and the number of invalid tokens in it.
    invalid: Option<(Moment, u32)>,
    valid_at: Option<Moment>,
}

pub(super) struct LogoutTokenRateLimiter {
    key: Arc<IdentifierKey>,
    slots: Mutex<Box<[Slot]>>,
}

impl LogoutTokenRateLimiter {
    pub(super) fn new(key: Arc<IdentifierKey>) -> Self {
        Self {
            key,
            slots: Mutex::new(vec![Slot::default(); SLOTS].into_boxed_slice()),
        }
    }

    /// Refuses a sender of too many invalid tokens.
    ///
    /// # Errors
    ///
    /// [`GatewayError::TooManyLogoutTokens`] with the time to wait.
    pub(super) fn admit(
        &self,
        sender: Option<ClientAddress>,
        now: Moment,
    ) -> Result<(), GatewayError> {
        let retry_after = sender.and_then(|sender| self.retry_after(sender, now));
        retry_after.map_or(Ok(()), |retry_after| {
            Err(GatewayError::TooManyLogoutTokens { retry_after })
        })
    }

    fn retry_after(&self, sender: ClientAddress, now: Moment) -> Option<Duration> {
        let slot = *self.slots.lock().get(self.slot_of(sender))?;
        let (began, count) = slot.invalid?;
        let age = now.since(began);
        let is_trusted = slot.valid_at.is_some_and(|at| now.since(at) < TRUSTED);
        (count >= INVALID_MAX && age < WINDOW && !is_trusted).then(|| WINDOW.saturating_sub(age))
    }

    /// Counts a token by the result of its verification.
    pub(super) fn record(
        &self,
        sender: Option<ClientAddress>,
        result: &Result<EndedByIam, GatewayError>,
        now: Moment,
    ) {
        let Some(sender) = sender else { return };
        let mut slots = self.slots.lock();
        let Some(slot) = slots.get_mut(self.slot_of(sender)) else {
            return;
        };
        match result {
            Ok(_) => slot.valid_at = Some(now),
            Err(GatewayError::InvalidLogoutToken(_)) => {
                let current = slot.invalid.filter(|(began, _)| now.since(*began) < WINDOW);
                let (began, count) = current.unwrap_or((now, 0));
                slot.invalid = Some((began, count.saturating_add(1)));
            }
            Err(_) => {}
        }
    }

    fn slot_of(&self, sender: ClientAddress) -> usize {
        let slot = self.key.network(sender.network()).index() % SLOTS as u64;
        usize::try_from(slot).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use iam_adapters::logout_token::{Ended, InvalidLogoutToken};

    use super::*;

    fn limiter() -> LogoutTokenRateLimiter {
        LogoutTokenRateLimiter::new(Arc::new(IdentifierKey::new(&[1; 32])))
    }

    fn address(text: &str) -> ClientAddress {
        text.parse::<IpAddr>().expect(text).into()
    }

    fn attacker() -> ClientAddress {
        address("203.0.113.9")
    }

    /// How long the sender has to wait, if it is limited.
    fn wait_of(
        limiter: &LogoutTokenRateLimiter,
        sender: ClientAddress,
        now: Moment,
    ) -> Option<Duration> {
        match limiter.admit(Some(sender), now) {
            Err(GatewayError::TooManyLogoutTokens { retry_after }) => Some(retry_after),
            admitted => admitted.map(|()| None).unwrap(),
        }
    }

    /// The result of a verification.
    fn verified(is_valid: bool) -> Result<EndedByIam, GatewayError> {
        let ended = Ended::Session("ended".to_owned());
        let invalid = GatewayError::InvalidLogoutToken(InvalidLogoutToken::Replayed);
        is_valid
            .then_some(EndedByIam { sub: None, ended })
            .ok_or(invalid)
    }

    /// A token of the attacker.
    fn record(limiter: &LogoutTokenRateLimiter, is_valid: bool, now: Moment) {
        limiter.record(Some(attacker()), &verified(is_valid), now);
    }

    fn at(seconds: u64) -> Moment {
        Moment {
            unix: Duration::from_secs(1_800_000_000 + seconds),
            monotonic: Duration::from_secs(seconds),
        }
    }

    /// Another sender, which does not share the attacker's slot.
    fn another(limiter: &LogoutTokenRateLimiter) -> ClientAddress {
        (0..=u8::MAX)
            .map(|last| IpAddr::from([192, 0, 2, last]).into())
            .find(|other| limiter.slot_of(*other) != limiter.slot_of(attacker()))
            .expect("not all in one slot")
    }

    #[test]
    fn sender_of_too_many_invalid_tokens_is_limited_for_a_while_and_other_senders_are_not() {
        let limiter = limiter();
        let other = another(&limiter);
        for _ in 0..INVALID_MAX {
            assert_eq!(wait_of(&limiter, attacker(), at(0)), None);
            record(&limiter, false, at(0));
        }
        assert_eq!(wait_of(&limiter, attacker(), at(0)), Some(WINDOW));
        assert_eq!(
            wait_of(&limiter, attacker(), at(9)),
            Some(Duration::from_secs(1))
        );
        assert_eq!(wait_of(&limiter, other, at(9)), None);
        for _ in 0..INVALID_MAX {
            assert_eq!(wait_of(&limiter, attacker(), at(10)), None);
            record(&limiter, false, at(10));
        }
        assert_eq!(wait_of(&limiter, attacker(), at(10)), Some(WINDOW));
    }

    #[test]
    fn sender_of_a_valid_token_is_not_limited_for_a_day() {
        let limiter = limiter();
        record(&limiter, true, at(0));
        let day = TRUSTED.as_secs();
        for second in [1, day - 1, day] {
            for _ in 0..2 * INVALID_MAX {
                record(&limiter, false, at(second));
            }
            let is_limited = wait_of(&limiter, attacker(), at(second)).is_some();
            assert_eq!(is_limited, second == day, "{second}");
        }
    }

    #[test]
    fn all_addresses_of_one_network_of_ipv6_are_one_sender() {
        let limiter = limiter();
        let place = |text: &str| limiter.slot_of(address(text));
        assert_eq!(place("2001:db8:1:2::1"), place("2001:db8:1:2:ffff::9"));
        let others = (3..99).map(|net| place(&format!("2001:db8:1:{net}::1")));
        assert!(
            others
                .into_iter()
                .any(|one| one != place("2001:db8:1:2::1"))
        );
    }
}
