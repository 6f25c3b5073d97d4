//! `[audit]`: the audit log.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::errors::ConfigErrors;

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct AuditSettings {
    /// Where the lines go.
    #[serde(deserialize_with = "iam_adapters::choice::deserialize")]
    pub destination: AuditDestination,
    pub file: Option<PathBuf>,
    /// Whether logins and resets of login limits are refused while their lines cannot be written.
    pub fail_closed: bool,
    /// Whether lines have the addresses of clients in clear.
    pub client_addresses: bool,
    /// Whether lines have the e-mail addresses of logins in clear.
    pub email_addresses: bool,
}

/// Where the lines of the audit log go.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, EnumString, IntoStaticStr, Serialize, VariantNames,
)]
#[serde(into = "&'static str")]
#[strum(serialize_all = "lowercase")]
pub enum AuditDestination {
    #[default]
    None,
    /// Standard output, between the lines of the ordinary log.
    Stdout,
    File,
}

impl AuditSettings {
    pub(super) fn check(&self, problems: &mut ConfigErrors) {
        let is_file = self.destination == AuditDestination::File;
        if is_file && self.file.is_none() {
            problems.add("audit.file", "required by audit.destination = \"file\"");
        }
        if !is_file && self.file.is_some() {
            problems.add("audit.file", "requires audit.destination = \"file\"");
        }
        if self.destination == AuditDestination::None && self.fail_closed {
            problems.add("audit.fail_closed", "requires audit.destination");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load_tests::problems;

    #[test]
    fn destination_needs_its_file() {
        let destination = |name| ("AUDIT__DESTINATION", name);
        let file = ("AUDIT__FILE", "/nowhere/audit.log");
        let fail_closed = ("AUDIT__FAIL_CLOSED", "true");
        for (variables, expected) in [
            (&[][..], &[][..]),
            (&[destination("stdout"), fail_closed], &[]),
            (&[destination("file"), file], &[]),
            (&[destination("file")], &["audit.file: required by"]),
            (&[destination("stdout"), file], &["audit.file: requires"]),
            (
                &[fail_closed],
                &["audit.fail_closed: requires audit.destination"],
            ),
            (
                &[destination("syslog")],
                &["audit.destination: expected `none`"],
            ),
        ] {
            let found = problems("", variables);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{found}");
            }
        }
    }
}
