//! All keys of one gateway.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::rand::SystemRandom;
use iam_adapters::Moment;
use jiff::Timestamp;
use serde_json::{Value, json};
use thiserror::Error;

use super::identifiers::IdentifierKey;
use super::keys::{
    Algorithm, Key, KeyError, KeyPurpose, KeySet, KeyStore, Reloaded, SealingKey, SigningKey,
    age_seconds, generate, is_kid, timestamp,
};

/// What the key of identifiers is for, where keys are named.
pub const IDENTIFIERS: &str = "identifier";

/// The age from which a sealing key is overdue for rotation. With random nonces a key may seal 2^32
/// sessions on all replicas together (NIST SP 800-38D section 8.3): 49 days with 1,000 logins a
/// second. A rotation every 30 days that runs once a day lets it become 31 days old. One more day is
/// for a run that failed.
const SEALING_KEY_AGE_MAX: Duration = Duration::from_secs(32 * 24 * 3600);

/// All keys of one gateway. Each purpose has its own store, so a problem with one folder does not
/// affect the other.
#[derive(Debug)]
pub struct Keys {
    /// The keys that sign access tokens.
    pub signing: KeyStore<SigningKey>,
    /// The keys that seal session tokens.
    pub sealing: KeyStore<SealingKey>,
    /// The key of identifiers.
    pub identifiers: Arc<IdentifierKey>,
    differences: ArcSwap<Vec<KeyWarning>>,
}

impl Keys {
    /// These keys.
    #[must_use]
    pub fn new(
        signing: KeyStore<SigningKey>,
        sealing: KeyStore<SealingKey>,
        identifiers: Arc<IdentifierKey>,
    ) -> Self {
        Self {
            signing,
            sealing,
            identifiers,
            differences: ArcSwap::default(),
        }
    }

    /// Keys that exist only in this process. For development only: after a restart, all tokens are
    /// invalid.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the system has no random numbers.
    pub fn ephemeral(now: Moment) -> Result<Self, KeyError> {
        let first_use = timestamp(now);
        let signing = generate(KeyPurpose::Signing(Algorithm::Es256), first_use)?;
        let sealing = generate(KeyPurpose::Sealing, first_use)?;
        let identifiers = IdentifierKey::generate(&SystemRandom::new())
            .map_err(|_| KeyError::Invalid("no random numbers"))?;
        Ok(Self::new(
            KeySet::new(vec![SigningKey::from_file(&signing)?])?.into(),
            KeySet::new(vec![SealingKey::from_file(&sealing)?])?.into(),
            Arc::new(identifiers),
        ))
    }

    /// The public JWK Set of the signing keys (RFC 7517 section 5). A key that is no longer used is in
    /// it until its last access token has expired.
    #[must_use]
    pub fn published(&self, now: Moment) -> Value {
        let (key_set, times) = (self.signing.key_set(), self.signing.times());
        let honoured = key_set.honoured(now, self.signing.overlap(times.lifetime));
        let keys: Vec<_> = honoured.map(SigningKey::public_jwk).collect();
        json!({ "keys": keys })
    }

    /// The ids of the keys of each purpose.
    #[must_use]
    pub fn kids(&self, now: Moment) -> [PurposeKids; 3] {
        fn of<K: Key>(keys: &KeyStore<K>, now: Moment) -> PurposeKids {
            let key_set = keys.key_set();
            let used = key_set.relied_on(now, keys.times());
            PurposeKids {
                purpose: K::PURPOSE,
                used: used.map(|key| key.kid().to_owned()).collect(),
                stored: key_set.iter().map(|key| key.kid().to_owned()).collect(),
            }
        }
        let identifiers = vec![self.identifiers.id()];
        let identifiers = PurposeKids {
            purpose: IDENTIFIERS,
            used: identifiers.clone(),
            stored: identifiers,
        };
        [of(&self.signing, now), of(&self.sealing, now), identifiers]
    }

    /// Reads the folders again. Returns the new key sets that differ from before, by purpose.
    pub fn reload(&self, now: Moment) -> impl Iterator<Item = (&'static str, Reloaded)> {
        let signing = self.signing.reload(now);
        let sealing = self.sealing.reload(now);
        let signing = signing.map(|reloaded| (SigningKey::PURPOSE, reloaded));
        let sealing = sealing.map(|reloaded| (SealingKey::PURPOSE, reloaded));
        signing.into_iter().chain(sealing)
    }

    /// Problems that need the operator. Contains no key material.
    #[must_use]
    pub fn warnings(&self, now: Moment) -> Vec<KeyWarning> {
        let unreadable = [
            (SigningKey::PURPOSE, self.signing.problem()),
            (SealingKey::PURPOSE, self.sealing.problem()),
        ]
        .into_iter()
        .filter_map(|(purpose, problem)| {
            let problem = problem?;
            Some(KeyWarning::Unreadable { purpose, problem })
        });
        let key_set = self.sealing.key_set();
        let sealing = key_set.current(now);
        let old = age_seconds(sealing, now) > SEALING_KEY_AGE_MAX.as_secs().cast_signed();
        let old = old.then(|| KeyWarning::SealingKeyOld {
            kid: sealing.kid().to_owned(),
            first_use: sealing.first_use(),
        });
        let differences = self.differences.load();
        let differences = differences.iter().cloned();
        unreadable.chain(old).chain(differences).collect()
    }

    /// The names of the keys that are [used](PurposeKids::used), and of all: the purpose and the id of each.
    #[must_use]
    pub fn names(&self, now: Moment) -> [Vec<String>; 2] {
        let purposes = self.kids(now);
        let names = |kids: fn(&PurposeKids) -> &[String]| {
            let names = purposes.iter().flat_map(|of| {
                let kids = kids(of).iter();
                kids.map(|kid| format!("{} {kid}", of.purpose))
            });
            names.collect()
        };
        [names(|of| &of.used), names(|of| &of.stored)]
    }

    /// Compares the keys of replicas. Each states the ids of the keys that it uses, and of those that it lacks
    /// although another one uses them: sessions and tokens of such a key are refused where it is missing. A key
    /// that no replica uses yet is no difference: its file reaches one replica after another. Nor is one whose
    /// tokens have expired: it is removed at one replica after another. Replicas with different keys have no key
    /// in common, so the statements are not authenticated: they may cause a warning, make an operator's
    /// revocation [pending](crate::session_revoker::Propagation::Pending), and nothing else.
    ///
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
    here.retain(|kid| own.stored.iter().all(|stored| stored != kid));
    elsewhere.retain(|kid| own.used.iter().any(|used| used == kid));
    let differences = [(true, here), (false, elsewhere)].into_iter();
    let differences = differences.filter(|(_, kids)| !kids.is_empty());
    let warnings = differences.map(|(is_here, kids)| KeyWarning::Missing {
        purpose: own.purpose,
        is_here,
        kids: kids.into_iter().map(str::to_owned).collect(),
    });
    warnings.collect()
}

/// The ids of the keys of one purpose.
#[derive(Debug)]
pub struct PurposeKids {
    /// What the keys are for.
    pub purpose: &'static str,
    /// The key in use, after those before it whose tokens may still be valid.
    pub used: Vec<String>,
    /// All keys, in the order of first use.
    pub stored: Vec<String>,
}

/// A problem with the keys that needs the operator and stops no operation. Contains no key material.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyWarning {
    /// A folder has changed and cannot be used.
    #[error(
        "the {purpose} keys read before stay in use, because they cannot be read again: {problem}"
    )]
    Unreadable {
        /// What the keys are for.
        purpose: &'static str,
        /// What is wrong with the folder.
        problem: Arc<String>,
    },
    /// The sealing key in use should have been rotated.
    #[error("the sealing key {kid} has been in use since {first_use:.0}: rotate it every 30 days")]
    SealingKeyOld {
        /// Its id.
        kid: String,
        /// Its first use.
        first_use: Timestamp,
    },
    /// A replica uses keys that another one does not have.
    #[error(
        "the keys of the replicas differ: keys.{} of {} lacks {purpose} keys that {} uses: {}",
        if *purpose == IDENTIFIERS { "identifier_key".to_owned() } else { format!("{purpose}_dir") },
        if *is_here { "this replica" } else { "another replica" },
        if *is_here { "another replica" } else { "this replica" },
        kids.join(", ")
    )]
    Missing {
        /// What the keys are for.
        purpose: &'static str,
        /// Whether this replica does not have them; otherwise another one.
        is_here: bool,
        /// Their ids.
        kids: Vec<String>,
    },
}

#[cfg(test)]
mod tests;
