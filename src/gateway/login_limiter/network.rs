//! What counts as one address.

use std::net::IpAddr;

/// As much of an address as one household or server has for itself: all of an IPv4 address, the
/// first half of an IPv6 one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Network {
    V4(u32),
    /// A /64.
    V6(u64),
    /// A /48.
    Around(u64),
}

impl Network {
    /// The address' own. An IPv4 address in IPv6 form is the IPv4 address.
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6(first_half(address.to_bits())),
        }
    }

    /// The one around it, where there is one.
    pub(super) fn around(address: IpAddr) -> Option<Self> {
        match address.to_canonical() {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => Some(Self::Around(first_half(address.to_bits()) >> 16)),
        }
    }
}

fn first_half(bits: u128) -> u64 {
    u64::try_from(bits >> 64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(address: &str) -> (Network, Option<Network>) {
        let address = address.parse().unwrap();
        (Network::of(address), Network::around(address))
    }

    #[test]
    fn an_ipv4_address_is_counted_alone_and_in_both_its_forms() {
        assert_eq!(networks("192.0.2.1"), networks("::ffff:192.0.2.1"));
        assert_ne!(networks("192.0.2.1").0, networks("192.0.2.2").0);
        assert_eq!(networks("192.0.2.1").1, None);
    }

    #[test]
    fn an_ipv6_address_is_counted_by_its_64_and_the_48_around_it() {
        let (own, around) = networks("2001:db8:1:2::3");
        assert_eq!(networks("2001:db8:1:2:ffff:ffff:ffff:ffff"), (own, around));
        assert_ne!(networks("2001:db8:1:3::3").0, own);
        assert_eq!(networks("2001:db8:1:ffff::3").1, around);
        assert_ne!(networks("2001:db8:2:2::3").1, around);
        assert_ne!(Some(own), around);
    }
}
