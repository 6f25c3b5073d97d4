//! Compares the keys of replicas. Each states the ids of the keys that it uses, and of those that it lacks
//! although another one uses them: sessions and tokens of such a key are refused where it is missing. A key that
//! no replica uses yet is no difference: its file reaches one replica after another.
//!
//! Replicas with different keys have no key in common, so the statements are not authenticated: they may
//! cause a warning, and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use iam_adapters::Moment;

use super::{IDENTIFIERS, Key as _, KeyWarning, Keys, PurposeKids, SealingKey, SigningKey};
use crate::keys::is_kid;

impl Keys {
    /// How many of the [names](Keys::names) are those of keys in use.
    pub const USED: usize = 3;

    /// The names of the keys in use, then those of all keys: the purpose and the id of each.
    #[must_use]
    pub fn names(&self, now: Moment) -> Vec<String> {
        let purposes: [_; Self::USED] = self.kids(now);
        let used = purposes.iter().map(|of| (of.purpose, &of.used));
        let stored = purposes.iter().flat_map(|of| {
            let stored = of.stored.iter();
            stored.map(move |kid| (of.purpose, kid))
        });
        let names = used.chain(stored);
        names.map(|(of, kid)| format!("{of} {kid}")).collect()
    }

    /// Replaces the [warnings](Keys::warnings) about differences by those that follow from what all replicas
    /// state, for example `used sealing KID`. Returns the number of statements that no replica makes.
    pub fn compare<'s>(&self, statements: impl Iterator<Item = &'s str>, now: Moment) -> usize {
        let (mut valid, mut invalid) = (Vec::new(), 0);
        for statement in statements {
            let words: Vec<_> = statement.split(' ').collect();
            match *words {
                [
                    state @ ("used" | "missing"),
                    purpose @ (SigningKey::PURPOSE | SealingKey::PURPOSE | IDENTIFIERS),
                    kid,
                ] if is_kid(kid) => valid.push((state, purpose, kid)),
                _ => invalid += 1,
            }
        }
        let purposes = self.kids(now);
        let differences = purposes.iter().flat_map(|own| compare(&valid, own));
        self.differences.store(Arc::new(differences.collect()));
        invalid
    }

    /// Whether keys of this purpose differ from those of other replicas, as far as is known.
    #[must_use]
    pub fn differ(&self, of: &str) -> bool {
        let differences = self.differences.load();
        differences
            .iter()
            .any(|warning| matches!(warning, KeyWarning::Missing { purpose, .. } if *purpose == of))
    }
}

/// The warnings about the keys of one purpose.
fn compare(statements: &[(&str, &str, &str)], own: &PurposeKids) -> Vec<KeyWarning> {
    let kids = |wanted| {
        let of_purpose = statements.iter().filter(|of| of.1 == own.purpose);
        let kids = of_purpose.filter_map(move |(state, _, kid)| (*state == wanted).then_some(*kid));
        kids.collect::<BTreeSet<_>>()
    };
    let (mut here, mut elsewhere) = (kids("used"), kids("missing"));
    here.retain(|kid| *kid != own.used && own.stored.iter().all(|stored| stored != kid));
    elsewhere.retain(|kid| *kid == own.used);
    let differences = [(true, here), (false, elsewhere)].into_iter();
    let differences = differences.filter(|(_, kids)| !kids.is_empty());
    let warnings = differences.map(|(is_here, kids)| KeyWarning::Missing {
        purpose: own.purpose,
        is_here,
        kids: kids.into_iter().map(str::to_owned).collect(),
    });
    warnings.collect()
}
