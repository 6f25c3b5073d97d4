//! `[keys]`: the keys that sign access tokens and seal session tokens, and the key of identifiers.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use iam_adapters::files;
use secrecy::{ExposeSecret as _, SecretString};

use super::errors::ConfigErrors;
use super::known::join;
use super::section::section;

/// A new key is not used for this long after it was made.
const JWKS_MAX_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A new key is not used for a minute more than `jwks_max_age`. Within that minute every replica must
/// have read its file.
const RELOAD_INTERVAL_MAX: Duration = Duration::from_secs(30);

/// The shortest key of identifiers, in characters: 24 random bytes in base64.
const IDENTIFIER_KEY_MIN: usize = 32;

section! {
    /// The keys that all replicas share.
    pub struct KeySettings {
        /// The directory of the signing keys; `None`: a key generated at start.
        pub signing_dir: Option<PathBuf> = None;
        /// The directory of the sealing keys; `None`: a key generated at start.
        pub sealing_dir: Option<PathBuf> = None;
        /// The key of the identifiers of accounts, sessions and networks; `None`: a key generated at start.
        #[serde(serialize_with = "iam_adapters::secret_file::serialize_hidden")]
        pub identifier_key: Option<SecretString> = None;
        pub identifier_key_file: Option<PathBuf> = None;
        /// How long verifiers may cache the published keys; whole seconds.
        #[serde(with = "humantime_serde")]
        pub jwks_max_age: Duration = Duration::from_secs(300),
            in Duration::from_secs(1)..=JWKS_MAX_AGE_MAX;
        /// The pause between two readings of the directories, and of the files that the settings name.
        #[serde(with = "humantime_serde")]
        pub reload_interval: Duration = Duration::from_secs(5),
            in Duration::from_secs(1)..=RELOAD_INTERVAL_MAX;
    }
}

impl KeySettings {
    fn directories(&self) -> [(&'static str, Option<&Path>); 2] {
        [
            ("keys.signing_dir", self.signing_dir.as_deref()),
            ("keys.sealing_dir", self.sealing_dir.as_deref()),
        ]
    }

    /// The settings of directories that are not set. Such keys exist only in this process.
    pub fn made_at_start(&self) -> impl Iterator<Item = &'static str> {
        let unset = self.directories().into_iter();
        unset.filter_map(|(key, directory)| directory.is_none().then_some(key))
    }

    pub(super) fn check(&self, problems: &mut ConfigErrors) {
        for (key, directory) in self.directories() {
            if let Some(path) = directory
                && let Err(error) = fs::read_dir(path)
            {
                // The same text as when the keys are loaded later, so that it is reported once.
                let reason = files::reason(&error);
                problems.add(key, format!("{}: {reason}", path.display()));
            }
        }
        if self.signing_dir.is_some() && self.signing_dir == self.sealing_dir {
            problems.add(
                "keys.sealing_dir",
                "must be another directory than keys.signing_dir",
            );
        }
        let identifier_key = self
            .identifier_key
            .as_ref()
            .map(SecretString::expose_secret);
        if identifier_key.is_some_and(|key| key.len() < IDENTIFIER_KEY_MIN) {
            problems.add(
                "keys.identifier_key",
                format!("shorter than {IDENTIFIER_KEY_MIN} characters"),
            );
        }
        self.check_ranges(|name| join("keys", name), problems);
        if self.jwks_max_age.subsec_nanos() != 0 {
            problems.add("keys.jwks_max_age", "must be whole seconds, as max-age is");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load_tests::problems;

    #[test]
    fn identifier_key_is_long_and_required_in_production_with_redis_or_an_audit_log() {
        let missing = "keys.identifier_key_file: is missing";
        let short = "keys.identifier_key: shorter than 32";
        let key = ("KEYS__IDENTIFIER_KEY", "0123456789abcdef0123456789abcdef");
        let short_key = ("KEYS__IDENTIFIER_KEY", "0123456789abcdef0123456789abcde");
        let production = ("ENVIRONMENT", "production");
        let audit = ("AUDIT__DESTINATION", "stdout");
        let redis = ("REDIS__URL", "rediss://redis.test");
        for (variables, expected) in [
            (&[audit, redis][..], None),
            (&[production], None),
            (&[production, audit], Some(missing)),
            (&[production, redis], Some(missing)),
            (&[production, audit, redis, key], None),
            (&[short_key], Some(short)),
            (&[production, audit, short_key], Some(short)),
        ] {
            let found = problems("", variables);
            let mut found = found.iter().filter(|line| line.contains("identifier_key"));
            let problem = found.next();
            assert_eq!(problem.is_some(), expected.is_some(), "{problem:?}");
            if let (Some(problem), Some(expected)) = (problem, expected) {
                assert!(problem.starts_with(expected), "{problem}");
                assert!(!problem.contains("0123456789"), "{problem}");
            }
            assert_eq!(found.next(), None);
        }
    }

    #[test]
    fn reload_interval_is_bounded() {
        for (interval, fine) in [
            ("1s", true),
            ("30s", true),
            ("999ms", false),
            ("31s", false),
        ] {
            let found = problems(&format!("[keys]\nreload_interval = \"{interval}\""), &[]);
            let expected = format!("keys.reload_interval: {interval} is not within 1s and 30s");
            assert_eq!(found.is_empty(), fine, "{found:?}");
            assert!(fine || found[0].starts_with(&expected), "{found:?}");
        }
    }
}
