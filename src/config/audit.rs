//! `[audit]`: the audit log.

use std::path::PathBuf;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use super::problems::Problems;

/// The shortest key, in characters: 24 random bytes in base64.
const KEY_MIN: usize = 32;

/// The audit log.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct AuditSettings {
    /// Where the lines go.
    pub destination: AuditDestination,
    /// The file, for [`AuditDestination::File`].
    pub file: Option<PathBuf>,
    /// The key of the identifiers of accounts, sessions and clients.
    #[serde(serialize_with = "iam_adapters::secret_file::serialize_hidden")]
    pub key: Option<SecretString>,
    /// The file with the key; [`load`](super::load) replaces it by `key`.
    pub key_file: Option<PathBuf>,
    /// Whether logins and resets of login limits are refused while their lines cannot be written.
    pub fail_closed: bool,
    /// Whether lines have the addresses of clients in clear.
    pub client_addresses: bool,
    /// Whether lines have the e-mail addresses of logins in clear.
    pub email_addresses: bool,
}

/// Where the lines of the audit log go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(try_from = "String", rename_all = "snake_case")]
pub enum AuditDestination {
    /// There is no audit log.
    #[default]
    None,
    /// Standard output, between the lines of the ordinary log.
    Stdout,
    /// A file.
    File,
}

impl TryFrom<String> for AuditDestination {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        match name.as_str() {
            "none" => Ok(Self::None),
            "stdout" => Ok(Self::Stdout),
            "file" => Ok(Self::File),
            _ => Err("expected `none`, `stdout` or `file`"),
        }
    }
}

impl AuditSettings {
    pub(super) fn check(&self, problems: &mut Problems) {
        let is_file = self.destination == AuditDestination::File;
        if is_file && self.file.is_none() {
            problems.add("audit.file", "required by audit.destination = \"file\"");
        }
        if !is_file && self.file.is_some() {
            problems.add("audit.file", "requires audit.destination = \"file\"");
        }
        let is_off = self.destination == AuditDestination::None;
        if is_off && self.fail_closed {
            problems.add("audit.fail_closed", "requires audit.destination");
        }
        match &self.key {
            None if !is_off => problems.add(
                "audit.key_file",
                "required by audit.destination; make the file, which all replicas share, with: \
                 auth-gateway audit generate-key --output FILE",
            ),
            Some(key) if key.expose_secret().len() < KEY_MIN => {
                problems.add("audit.key", format!("shorter than {KEY_MIN} characters"));
            }
            None | Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load_tests::problems;

    #[test]
    fn destination_needs_its_file_and_a_key() {
        let key = ("AUDIT__KEY", "0123456789abcdef0123456789abcdef");
        let short = ("AUDIT__KEY", "0123456789abcdef0123456789abcde");
        let destination = |name| ("AUDIT__DESTINATION", name);
        let file = ("AUDIT__FILE", "/nowhere/audit.log");
        let fail_closed = ("AUDIT__FAIL_CLOSED", "true");
        for (variables, expected) in [
            (&[][..], &[][..]),
            (&[key], &[]),
            (&[destination("stdout"), key, fail_closed], &[]),
            (&[destination("file"), file, key], &[]),
            (
                &[destination("stdout")],
                &["audit.key_file: required by audit.destination; make the file"],
            ),
            (
                &[destination("stdout"), short],
                &["audit.key: shorter than 32"],
            ),
            (&[destination("file"), key], &["audit.file: required by"]),
            (
                &[destination("stdout"), file, key],
                &["audit.file: requires"],
            ),
            (
                &[fail_closed],
                &["audit.fail_closed: requires audit.destination"],
            ),
            (
                &[destination("syslog"), key],
                &["audit.destination: expected `none`"],
            ),
        ] {
            let found = problems("", variables);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{found}");
                assert!(!found.contains("0123456789"), "{found}");
            }
        }
    }
}
