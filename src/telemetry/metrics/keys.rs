//! The metrics of the keys. They are set from the keys at each scrape.

use std::sync::atomic::Ordering;

use iam_adapters::Moment;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::{Labels, register, register_with_unit};
use auth_gateway_core::gateway_keys::{IDENTIFIERS, Keys};
use auth_gateway_core::keys::{Key, KeyStore, SealingKey, SigningKey, age_seconds};

pub(super) struct KeyMetrics {
    ages: Family<[(&'static str, String); 2], Gauge>,
    counts: Family<Labels<1>, Gauge>,
    unreadable: Family<Labels<1>, Gauge>,
    differ: Family<Labels<1>, Gauge>,
    reloads: Family<Labels<2>, Counter>,
}

impl KeyMetrics {
    pub(super) fn registered_in(registry: &mut Registry) -> Self {
        let help = "Time since the first use of the key in use, whose id is kid";
        let ages = register_with_unit(registry, "key_age", help, Unit::Seconds);
        let help = "Loaded keys";
        let counts = register(registry, "keys", help);
        let help = "1 while a key folder is not usable";
        let unreadable = register(registry, "keys_unreadable", help);
        let help = "1 while a replica uses a key that this one or another does not have";
        let differ = register(registry, "keys_differ", help);
        let help = "Changes of key folders";
        let reloads = register(registry, "key_reloads", help);
        Self {
            ages,
            counts,
            unreadable,
            differ,
            reloads,
        }
    }

    pub(super) fn take(&self, keys: &Keys, now: Moment) {
        // A key that is no longer in use has no series, so their number stays bounded.
        self.ages.clear();
        self.take_from(&keys.signing, now);
        self.take_from(&keys.sealing, now);
        for purpose in [SigningKey::PURPOSE, SealingKey::PURPOSE, IDENTIFIERS] {
            let differ = i64::from(keys.differ(purpose));
            let labels = [("purpose", purpose)];
            self.differ.get_or_create_owned(&labels).set(differ);
        }
    }

    fn take_from<K: Key>(&self, keys: &KeyStore<K>, now: Moment) {
        let purpose = ("purpose", K::PURPOSE);
        let key_set = keys.key_set();
        let current = key_set.current(now);
        let labels = [
            ("purpose", K::PURPOSE.to_owned()),
            ("kid", current.kid().to_owned()),
        ];
        let age = age_seconds(current, now);
        self.ages.get_or_create_owned(&labels).set(age);
        let count = i64::try_from(key_set.count()).unwrap_or(i64::MAX);
        self.counts.get_or_create_owned(&[purpose]).set(count);
        let unreadable = i64::from(keys.has_unreadable_folder());
        self.unreadable
            .get_or_create_owned(&[purpose])
            .set(unreadable);
        for (outcome, times) in [("taken", keys.taken()), ("refused", keys.refused())] {
            let labels = [purpose, ("outcome", outcome)];
            let counter = self.reloads.get_or_create_owned(&labels);
            counter.inner().store(times, Ordering::Relaxed);
        }
    }
}
