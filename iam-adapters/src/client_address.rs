//! The address of a client, and the networks that count as one client.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv6Net};

/// The address of a client. An IPv4 address in IPv6 form (RFC 4291 section 2.5.5.2) is the IPv4
/// address.
#[derive(Debug, derive_more::Display, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientAddress(IpAddr);

impl ClientAddress {
    /// The address.
    #[must_use]
    pub const fn ip(self) -> IpAddr {
        self.0
    }

    /// The network of one household or server: an IPv4 address, or an IPv6 /64.
    #[must_use]
    pub fn network(self) -> IpNet {
        match self.0 {
            IpAddr::V4(_) => self.0.into(),
            IpAddr::V6(address) => around(address, 64),
        }
    }

    /// The IPv6 /48 around the address; `None` for IPv4.
    #[must_use]
    pub fn site(self) -> Option<IpNet> {
        match self.0 {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => Some(around(address, 48)),
        }
    }
}

/// The network with a prefix of this length around an address.
fn around(address: Ipv6Addr, prefix: u8) -> IpNet {
    Ipv6Net::new_assert(address, prefix).trunc().into()
}

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        Self(address.to_canonical())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(address: &str) -> (IpNet, Option<IpNet>) {
        let address = ClientAddress::from(address.parse::<IpAddr>().unwrap());
        (address.network(), address.site())
    }

    #[test]
    fn ipv4_address_is_its_own_network_in_both_forms() {
        assert_eq!(networks("192.0.2.1"), networks("::ffff:192.0.2.1"));
        assert_ne!(networks("192.0.2.1").0, networks("192.0.2.2").0);
        assert_eq!(networks("192.0.2.1").1, None);
    }

    #[test]
    fn ipv6_address_belongs_to_its_64_and_to_the_48_around_it() {
        let (own, site) = networks("2001:db8:1:2::3");
        assert_eq!(networks("2001:db8:1:2:ffff:ffff:ffff:ffff"), (own, site));
        assert_ne!(networks("2001:db8:1:3::3").0, own);
        assert_eq!(networks("2001:db8:1:ffff::3").1, site);
        assert_ne!(networks("2001:db8:2:2::3").1, site);
        // A /48 and its first /64 are counted apart.
        let (first, site) = networks("2001:db8:1::3");
        assert_ne!(Some(first), site);
    }
}
