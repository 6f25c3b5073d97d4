//! `[management]`: the listener for those who run the gateway.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use iam_adapters::secret_file;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::host_name::HostName;
use super::problems::Problems;

/// The shortest token for production, in bytes: 16 random bytes have 22 characters in base64url.
const TOKEN_MIN: usize = 22;

/// The listener for health, metrics, the calls of operators and, where the mock runs, its controls.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ManagementSettings {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// The names, besides `localhost` and IP addresses, by which the mock may be addressed.
    #[serde(deserialize_with = "super::listed::deserialize")]
    pub allowed_hosts: Vec<HostName>,
    /// The bearer token of operators; this or `token_file`, or none: then calls that change
    /// something are refused.
    pub token: Option<SecretString>,
    /// The file in which it stands alone.
    pub token_file: Option<PathBuf>,
}

impl Default for ManagementSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)),
            allowed_hosts: Vec::new(),
            token: None,
            token_file: None,
        }
    }
}

impl ManagementSettings {
    /// The bearer token of operators, from wherever it is set.
    ///
    /// # Errors
    ///
    /// The setting that is wrong, and why: both are set, the file cannot be read, or no request
    /// could carry the token.
    pub fn operator_token(&self) -> Result<Option<SecretString>, (&'static str, String)> {
        let (key, token) = match (&self.token, &self.token_file) {
            (None, None) => return Ok(None),
            (Some(token), None) => ("management.token", token.clone()),
            (None, Some(file)) => {
                let key = "management.token_file";
                let read = secret_file::read(file);
                (key, read.map_err(|error| (key, error.to_string()))?)
            }
            (Some(_), Some(_)) => {
                let both = "token and token_file exclude each other";
                return Err(("management", both.to_owned()));
            }
        };
        if !is_bearer_token(token.expose_secret()) {
            let characters = "must be one or more of A-Z a-z 0-9 - . _ ~ + / and = (RFC 6750)";
            return Err((key, characters.to_owned()));
        }
        Ok(Some(token))
    }

    pub(super) fn check(&self, production: bool, problems: &mut Problems) {
        match self.operator_token() {
            Err((key, problem)) => problems.add(key, problem),
            Ok(Some(token)) if production && token.expose_secret().len() < TOKEN_MIN => {
                problems.add(
                    "management.token",
                    format!("shorter than {TOKEN_MIN} characters; in production take 16 random bytes or more"),
                );
            }
            Ok(_) => {}
        }
    }
}

/// RFC 6750 section 2.1: `b64token`.
fn is_bearer_token(token: &str) -> bool {
    !token.is_empty()
        && token
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn with(token: Option<&str>, token_file: Option<PathBuf>) -> ManagementSettings {
        ManagementSettings {
            token: token.map(SecretString::from),
            token_file,
            ..ManagementSettings::default()
        }
    }

    #[test]
    fn token_is_one_that_a_bearer_can_send_from_one_place() {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(&file, "a-token_of.a~file+/==\n").unwrap();
        set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let path = file.path().to_owned();
        for (settings, expected) in [
            (with(None, None), Ok(None)),
            (with(Some("t0ken"), None), Ok(Some("t0ken"))),
            (
                with(None, Some(path.clone())),
                Ok(Some("a-token_of.a~file+/==")),
            ),
            (with(Some("t0ken"), Some(path)), Err("management")),
            (with(Some(""), None), Err("management.token")),
            (with(Some("two words"), None), Err("management.token")),
            (with(Some("t\u{f6}ken"), None), Err("management.token")),
            (
                with(None, Some("/nowhere".into())),
                Err("management.token_file"),
            ),
        ] {
            let token = settings.operator_token();
            let token = token.as_ref().map_err(|(key, _)| *key);
            let shown = token.map(|token| token.as_ref().map(SecretString::expose_secret));
            assert_eq!(shown, expected);
            assert!(!format!("{settings:?}").contains("t0ken"));
        }
    }

    #[test]
    fn short_token_is_refused_in_production_alone() {
        for (length, production, fine) in [(21, false, true), (21, true, false), (22, true, true)] {
            let mut problems = Problems::default();
            let settings = with(Some(&"x".repeat(length)), None);
            settings.check(production, &mut problems);
            let lines = format!("{problems:?}");
            assert_eq!(!lines.contains("management.token"), fine, "{lines}");
            assert!(!lines.contains("xxx"), "{lines}");
        }
    }
}
