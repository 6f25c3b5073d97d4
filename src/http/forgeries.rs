//! Who sends forged logout tokens. For a while, nobody looks at what comes from there.
//!
//! Anybody may send such tokens, and to find out that one is forged costs about as much as to serve
//! an exchange. So a sender is turned away once too many of its tokens were invalid; the IAM, which
//! sends good ones from elsewhere, never is.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iam_adapters::Moment;

/// How many invalid tokens a sender may send in one [`WINDOW`]. An IAM that is set up wrongly sends
/// one for each logout.
const INVALID_MAX: u32 = 50;

const WINDOW: Duration = Duration::from_secs(10);

/// How long a sender of a good token is never turned away. Behind a proxy that does not tell its
/// clients apart, the IAM and a forger look alike; then forgeries are looked at as well.
const TRUSTED: Duration = Duration::from_secs(24 * 60 * 60);

/// Senders are remembered by their place among these, however many there are. Who shares a place
/// with a forger is turned away with it, until a good token of theirs comes through; which place
/// that is nobody outside can compute.
const PLACES: usize = 1024;

/// What is known of the senders of one place.
#[derive(Debug, Clone, Copy, Default)]
struct Sender {
    /// When the window began, and how many invalid tokens came in it.
    invalid: Option<(Moment, u32)>,
    good_at: Option<Moment>,
}

/// The senders of logout tokens, in a memory of fixed size.
pub struct Forgeries {
    hasher: RandomState,
    senders: Mutex<Box<[Sender]>>,
}

impl Default for Forgeries {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            senders: Mutex::new(vec![Sender::default(); PLACES].into_boxed_slice()),
        }
    }
}

impl Forgeries {
    /// For how many seconds the sender is still turned away; none: it is not.
    #[must_use]
    pub fn turned_away(&self, sender: IpAddr, now: Moment) -> Option<u64> {
        let known = *self.senders().get(self.place(sender))?;
        let (began, count) = known.invalid?;
        let age = now.since(began);
        let trusted = known.good_at.is_some_and(|at| now.since(at) < TRUSTED);
        (count >= INVALID_MAX && age < WINDOW && !trusted)
            .then(|| WINDOW.saturating_sub(age).as_secs().max(1))
    }

    /// Takes note of an invalid token.
    pub fn invalid(&self, sender: IpAddr, now: Moment) {
        if let Some(known) = self.senders().get_mut(self.place(sender)) {
            let current = known
                .invalid
                .filter(|(began, _)| now.since(*began) < WINDOW);
            let (began, count) = current.unwrap_or((now, 0));
            known.invalid = Some((began, count.saturating_add(1)));
        }
    }

    /// Takes note of a good token.
    pub fn good(&self, sender: IpAddr, now: Moment) {
        if let Some(known) = self.senders().get_mut(self.place(sender)) {
            known.good_at = Some(now);
        }
    }

    fn senders(&self) -> MutexGuard<'_, Box<[Sender]>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, sender: IpAddr) -> usize {
        let network = match sender {
            IpAddr::V4(_) => sender,
            // Whoever has one address of IPv6 has the whole network of 64 bits.
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                Ipv6Addr::from_bits(network).into()
            }
        };
        // Nothing is lost of the hash that the modulus would not drop.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "any bits of a hash will do"
        )]
        let hash = self.hasher.hash_one(network) as usize;
        hash % PLACES
    }
}

impl fmt::Debug for Forgeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forgeries")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORGER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9));

    fn at(seconds: u64) -> Moment {
        Moment {
            unix: Duration::from_secs(1_800_000_000 + seconds),
            monotonic: Duration::from_secs(seconds),
        }
    }

    /// Another sender, who does not share the forger's place.
    fn another(forgeries: &Forgeries) -> IpAddr {
        (0..=u8::MAX)
            .map(|last| IpAddr::from([192, 0, 2, last]))
            .find(|other| forgeries.place(*other) != forgeries.place(FORGER))
            .expect("not all in one place")
    }

    #[test]
    fn a_sender_of_too_many_forgeries_is_turned_away_for_a_while_and_nobody_else_is() {
        let forgeries = Forgeries::default();
        let other = another(&forgeries);
        for _ in 0..INVALID_MAX {
            assert_eq!(forgeries.turned_away(FORGER, at(0)), None);
            forgeries.invalid(FORGER, at(0));
        }
        assert_eq!(forgeries.turned_away(FORGER, at(0)), Some(10));
        assert_eq!(forgeries.turned_away(FORGER, at(9)), Some(1));
        assert_eq!(forgeries.turned_away(other, at(9)), None);
        assert_eq!(forgeries.turned_away(FORGER, at(10)), None);
        forgeries.invalid(FORGER, at(10));
        assert_eq!(forgeries.turned_away(FORGER, at(10)), None);
    }

    #[test]
    fn who_sends_a_good_token_now_and_then_is_never_turned_away() {
        let forgeries = Forgeries::default();
        forgeries.good(FORGER, at(0));
        let day = TRUSTED.as_secs();
        for second in [1, day - 1, day] {
            for _ in 0..2 * INVALID_MAX {
                forgeries.invalid(FORGER, at(second));
            }
            let turned_away = forgeries.turned_away(FORGER, at(second)).is_some();
            assert_eq!(turned_away, second == day, "{second}");
        }
    }

    #[test]
    fn all_addresses_of_one_network_of_ipv6_are_one_sender() {
        let forgeries = Forgeries::default();
        let place = |text: &str| forgeries.place(text.parse().expect(text));
        assert_eq!(place("2001:db8:1:2::1"), place("2001:db8:1:2:ffff::9"));
        let others = (3..99).map(|net| place(&format!("2001:db8:1:{net}::1")));
        assert!(
            others
                .into_iter()
                .any(|one| one != place("2001:db8:1:2::1"))
        );
    }
}
