//! Identifiers of accounts, sessions and networks: keyed hashes. They are the same in the log, in the audit log and in
//! the login limits, at every replica and after every restart, as long as the key is.

use std::fmt;
use std::net::IpAddr;

use aws_lc_rs::hmac;
use ipnet::IpNet;
use zeroize::Zeroizing;

use super::account::canonical;
use super::error::Internal;
use super::stream_mac_key::StreamMacKey;
use crate::random::Random;

/// What precedes a value in its hash, so that equal values of two kinds have different identifiers.
const ACCOUNT: &str = "auth-gateway audit account 1:";
const SESSION: &str = "auth-gateway audit session 1:";
const NETWORK: &str = "auth-gateway audit client 1:";

/// The label of the key that authenticates entries.
const ENTRIES: &[u8] = b"auth-gateway entries of login limits 1";

const GENERATED_LEN: usize = 32;

/// An identifier. Displayed as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identifier(u128);

impl Identifier {
    /// Its first half, under which login limits count. It is never 0.
    #[must_use]
    pub fn index(self) -> u64 {
        u64::try_from(self.0 >> u64::BITS)
            .unwrap_or_default()
            .max(1)
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Computes identifiers, and authenticates the entries that contain them.
#[derive(derive_more::Debug)]
#[debug("IdentifierKey([REDACTED])")]
pub struct IdentifierKey {
    key: hmac::Key,
    entries: StreamMacKey,
}

impl IdentifierKey {
    /// With this secret, which all replicas share.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let entries = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, ENTRIES).as_ref());
        Self {
            entries: StreamMacKey::new(entries),
            key,
        }
    }

    /// A new key, for this process alone.
    ///
    /// # Errors
    ///
    /// [`Internal::Random`] if the system has no random numbers.
    pub fn generate(random: &dyn Random) -> Result<Self, Internal> {
        let mut secret = Zeroizing::new([0; GENERATED_LEN]);
        random.fill(&mut *secret)?;
        Ok(Self::new(&*secret))
    }

    /// Names the key. Keys cannot be computed from it.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{:08x}", u32::from_be_bytes(self.entries.id()))
    }

    /// Authenticates the entries of login events.
    #[must_use]
    pub const fn entries(&self) -> &StreamMacKey {
        &self.entries
    }

    /// The account of an e-mail address: the same for all spellings of the address.
    #[must_use]
    pub fn account(&self, email: &str) -> Identifier {
        self.hash(ACCOUNT, &[&canonical(email)])
    }

    /// A session. Its id is one of its two credentials, so logs have a hash of it.
    #[must_use]
    pub fn session(&self, id: &str) -> Identifier {
        self.hash(SESSION, &[id.as_bytes()])
    }

    /// A network.
    #[must_use]
    pub fn network(&self, network: IpNet) -> Identifier {
        self.hash(NETWORK, &[&network_octets(network)])
    }

    /// The first half of the HMAC-SHA256 of a label, which ends with a colon, and a value. The label determines how many
    /// bytes each part of the value has, if there are several.
    pub(super) fn hash(&self, label: &str, parts: &[&[u8]]) -> Identifier {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(label.as_bytes());
        for part in parts {
            context.update(part);
        }
        let tag = context.sign();
        let half = tag.as_ref().first_chunk().copied().unwrap_or_default();
        Identifier(u128::from_be_bytes(half))
    }
}

/// The length of the prefix and the first address of a network, in IPv6 form.
pub(super) fn network_octets(network: IpNet) -> [u8; 17] {
    let address = match network.addr() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let mut octets = [network.prefix_len(); 17];
    let pairs = octets.iter_mut().skip(1).zip(address.octets());
    pairs.for_each(|(to, from)| *to = from);
    octets
}

#[cfg(test)]
mod tests {
    use iam_adapters::ClientAddress;

    use super::*;

    #[derive(Debug)]
    struct FixedRandom(Option<u8>);

    impl Random for FixedRandom {
        fn fill(&self, bytes: &mut [u8]) -> Result<(), Internal> {
            bytes.fill(self.0.ok_or(Internal::Random)?);
            Ok(())
        }
    }

    #[test]
    fn generated_key_has_the_random_numbers_of_the_given_source_and_needs_them() {
        let key = IdentifierKey::generate(&FixedRandom(Some(7))).unwrap();
        let same = IdentifierKey::new(&[7; GENERATED_LEN]);
        assert_eq!(key.account("alice"), same.account("alice"));
        let missing = IdentifierKey::generate(&FixedRandom(None));
        assert_eq!(missing.err(), Some(Internal::Random));
    }

    #[test]
    fn identifier_and_key_of_entries_depend_on_the_key_and_on_the_label() {
        let [one, other] = [1, 2].map(|byte| IdentifierKey::new(&[byte; 32]));
        let hash = |key: &IdentifierKey, label| key.hash(label, &[b"alice"]);
        assert_eq!(hash(&one, ACCOUNT), hash(&one, ACCOUNT));
        assert_ne!(hash(&one, ACCOUNT), hash(&other, ACCOUNT));
        assert_ne!(hash(&one, ACCOUNT), hash(&one, NETWORK));
        let (one, other) = (one.entries(), other.entries());
        assert_ne!(one.id(), other.id());
        assert_ne!(one.tag(b"entry"), other.tag(b"entry"));
    }

    #[test]
    fn identifier_is_the_same_for_each_spelling_and_for_each_address_of_a_network() {
        let key = IdentifierKey::new(&[1; 32]);
        let alice = key.account("alice@example.test");
        for spelling in ["ALICE@example.test", " álice@EXAMPLE.test"] {
            assert_eq!(key.account(spelling), alice, "{spelling}");
        }
        assert_ne!(key.account("bob@example.test"), alice);
        let network = |address: &str| {
            let address = ClientAddress::from(address.parse::<IpAddr>().unwrap());
            key.network(address.network())
        };
        assert_eq!(network("2001:db8:1:2::3"), network("2001:db8:1:2::4"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
        let session = "b5TFtQhzVWRmHlY4g7NGLA";
        assert!(!key.session(session).to_string().contains(session));
    }

    /// Identifiers of networks in logs and at other replicas depend on them.
    #[test]
    fn octets_of_a_network_are_its_prefix_length_and_its_first_address_in_ipv6_form() {
        let address = |text: &str| ClientAddress::from(text.parse::<IpAddr>().unwrap());
        let v4: [u8; 17] = [32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];
        assert_eq!(network_octets(address("192.0.2.1").network()), v4);
        let v6 = |prefix: u8, fourth: u8| {
            let start = [prefix, 0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, fourth];
            [&start[..], &[0; 8]].concat()
        };
        let v6_address = address("2001:db8:1:2::3");
        assert_eq!(network_octets(v6_address.network()).as_slice(), v6(64, 2));
        let site = v6_address.site().map(network_octets).unwrap();
        assert_eq!(site.as_slice(), v6(48, 0));
    }

    #[test]
    fn index_in_the_limits_is_the_beginning_of_the_identifier_in_the_logs() {
        let account = IdentifierKey::new(&[1; 32]).account("alice@example.test");
        assert!(
            account
                .to_string()
                .starts_with(&format!("{:016x}", account.index()))
        );
    }
}
