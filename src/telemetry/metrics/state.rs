//! The gauges that are set at each scrape.

use std::sync::atomic::Ordering;

use iam_adapters::Moment;

use super::{Families, Metrics, owned};
use auth_gateway_core::Gateway;
use auth_gateway_core::gateway_keys::IDENTIFIERS;
use auth_gateway_core::keys::{Key, KeyStore, SealingKey, SigningKey, age_seconds};

impl Metrics {
    /// Sets the gauges that describe a gateway, and whether a file that the settings name is not usable
    /// as it is now.
    pub fn describe(&self, gateway: &Gateway, are_files_unreadable: bool) {
        let families = &self.families;
        families
            .files_unreadable
            .set(i64::from(are_files_unreadable));
        let keys = &gateway.replica.keys;
        // A key that is no longer in use has no series, so their number stays bounded.
        families.key_age.clear();
        families.describe_keys(&keys.signing, gateway.replica.clock.now());
        families.describe_keys(&keys.sealing, gateway.replica.clock.now());
        for purpose in [SigningKey::PURPOSE, SealingKey::PURPOSE, IDENTIFIERS] {
            let differ = families.keys_differ.get_or_create(&[("purpose", purpose)]);
            differ.set(i64::from(keys.differ(purpose)));
        }
        for cache in gateway.iams.cache_usage() {
            let labels = [("cache", cache.name)];
            for (family, value) in [
                (&families.cache_entries, cache.entries),
                (&families.cache, cache.bytes),
                (&families.cache_max, cache.max_bytes),
            ] {
                family.get_or_create(&labels).set(number(value));
            }
        }
        let revocations = &gateway.replica.revocations;
        let pending = gateway.session_revoker.pending();
        families.revocations.set(number(revocations.count()));
        families.revocations_max.set(number(revocations.capacity()));
        families.revocations_pending.set(number(pending));
        for iam in gateway.iams.iter() {
            let unfinished = iam.upstream_logouts.unfinished_count();
            let labels = owned([("iam", iam.name())]);
            let gauge = families.unfinished_logouts.get_or_create(&labels);
            gauge.set(number(unfinished));
        }
    }
}

impl Families {
    fn describe_keys<K: Key>(&self, keys: &KeyStore<K>, now: Moment) {
        let purpose = ("purpose", K::PURPOSE);
        let key_set = keys.key_set();
        let current = key_set.current(now);
        let labels = owned([purpose, ("kid", current.kid())]);
        let age = age_seconds(current, now);
        self.key_age.get_or_create(&labels).set(age);
        let count = number(key_set.count());
        self.keys.get_or_create(&[purpose]).set(count);
        let unreadable = i64::from(keys.problem().is_some());
        self.keys_unreadable
            .get_or_create(&[purpose])
            .set(unreadable);
        for (outcome, times) in [("taken", keys.taken()), ("refused", keys.refused())] {
            let labels = [purpose, ("outcome", outcome)];
            let counter = self.key_reloads.get_or_create(&labels);
            counter.inner().store(times, Ordering::Relaxed);
        }
    }
}

fn number(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
