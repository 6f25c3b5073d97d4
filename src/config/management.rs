//! `[management]`: the management listener.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::errors::ConfigErrors;

/// The shortest token for production, in bytes: 16 random bytes have 22 characters in base64url.
const TOKEN_MIN: usize = 22;

/// The listener for health, metrics and the calls of operators.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default)]
pub struct ManagementSettings {
    /// The address; port 0: any free port.
    pub listen: SocketAddr,
    /// The bearer token of operators; `None`: calls that change something are refused.
    #[serde(serialize_with = "iam_adapters::secret_file::serialize_hidden")]
    pub token: Option<SecretString>,
    pub token_file: Option<PathBuf>,
}

impl Default for ManagementSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)),
            token: None,
            token_file: None,
        }
    }
}

impl ManagementSettings {
    pub(super) fn check(&self, production: bool, problems: &mut ConfigErrors) {
        let key = "management.token";
        let Some(token) = self.token.as_ref().map(ExposeSecret::expose_secret) else {
            return;
        };
        if !is_bearer_token(token) {
            problems.add(key, BEARER_TOKEN);
        } else if production && token.len() < TOKEN_MIN {
            problems.add(
                key,
                format!("shorter than {TOKEN_MIN} characters; in production take 16 random bytes or more"),
            );
        }
    }
}

/// The problem of a token that is not a [`is_bearer_token`].
pub(super) const BEARER_TOKEN: &str =
    "must be one or more of A-Z a-z 0-9 - . _ ~ + / and = (RFC 6750)";

/// RFC 6750 section 2.1: `b64token`.
pub(super) fn is_bearer_token(token: &str) -> bool {
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
    use crate::config::load_tests::load_text;

    #[test]
    fn token_has_only_characters_of_a_bearer_token_and_one_source() {
        let file = tempfile::NamedTempFile::new().unwrap();
        write(&file, "a-token_of.a~file+/==\n").unwrap();
        set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let empty = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let token = |token| ("MANAGEMENT__TOKEN", token);
        let file = |file| ("MANAGEMENT__TOKEN_FILE", file);
        for (variables, expected) in [
            (&[][..], Ok(None)),
            (&[token("t0ken")], Ok(Some("t0ken"))),
            (&[file(path)], Ok(Some("a-token_of.a~file+/=="))),
            (&[token("t0ken"), file(path)], Err("management: token and")),
            (&[token("")], Err("management.token: must not be empty")),
            (&[token("two words")], Err("management.token: must be one")),
            (&[token("t\u{f6}ken")], Err("management.token: must be one")),
            (&[file("/nowhere")], Err("management.token_file: /nowhere")),
            (
                &[file(empty.path().to_str().unwrap())],
                Err("management.token_file: must not be empty"),
            ),
        ] {
            match load_text("", variables) {
                Ok(settings) => {
                    let token = settings.management.token.as_ref();
                    assert_eq!(Ok(token.map(SecretString::expose_secret)), expected);
                    assert!(!format!("{settings:?}").contains("t0ken"));
                }
                Err(invalid) => {
                    let [problem] = &invalid.problems[..] else {
                        panic!("{invalid}")
                    };
                    assert!(problem.starts_with(expected.unwrap_err()), "{problem}");
                    assert!(!problem.contains("t0ken"), "{problem}");
                }
            }
        }
    }

    #[test]
    fn short_token_is_refused_in_production_alone() {
        for (length, production, fine) in [(21, false, true), (21, true, false), (22, true, true)] {
            let mut problems = ConfigErrors::default();
            let settings = ManagementSettings {
                token: Some("x".repeat(length).into()),
                ..ManagementSettings::default()
            };
            settings.check(production, &mut problems);
            let lines = format!("{problems:?}");
            assert_eq!(!lines.contains("management.token"), fine, "{lines}");
            assert!(!lines.contains("xxx"), "{lines}");
        }
    }
}
