//! Refuses a gateway with the mock that other machines can reach with credentials that everyone knows.

use std::net::SocketAddr;

use auth_gateway::config::{InvalidSettings, Settings};
use auth_gateway::startup::{PassedSockets, listen_addresses};
use mock_iam::MockSettings;

use crate::of_kind;

/// Checks settings that are valid for the gateway itself, with these sockets.
///
/// # Errors
///
/// [`InvalidSettings`] with every problem.
pub(crate) fn check(settings: &Settings, sockets: &PassedSockets) -> Result<(), InvalidSettings> {
    let Some((section, mock)) = of_kind::<MockSettings>(settings) else {
        return Ok(());
    };
    let mut problems = Vec::new();
    let fixed = format!("iam.{section}.fixed_signing_key");
    if mock.fixed_signing_key && settings.keys.signing_dir.is_some() {
        problems.push(format!(
            "{fixed}: cannot be true if keys.signing_dir is set"
        ));
    }
    let missing = settings.keys.made_at_start().map(str::to_owned);
    let accounts = format!("iam.{section}.users_file (or another IAM)");
    let accounts = mock.users_file.is_none().then_some(accounts);
    let missing: Vec<_> = missing.chain(accounts).collect();
    let mut missing = missing.join(", ");
    if mock.fixed_signing_key && !missing.is_empty() {
        missing = format!("{missing}, and remove {fixed}, which is public");
    }
    // The control API on the management listener changes users without authentication.
    for (key, listen) in listen_addresses(settings, sockets) {
        if is_reached(listen) && !missing.is_empty() {
            problems.push(format!(
                "{key}: {listen} can be reached from other machines; for that also set {missing}"
            ));
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(InvalidSettings { problems })
    }
}

fn is_reached(listen: SocketAddr) -> bool {
    !listen.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use tempfile::TempDir;

    const FIXED: (&str, &str) = ("IAM__MOCK__FIXED_SIGNING_KEY", "true");

    fn problems(variables: &[(&str, &str)]) -> Vec<String> {
        let variables = variables.iter();
        let environment: BTreeMap<_, _> = variables
            .map(|(key, value)| (format!("AUTH_GATEWAY__{key}"), (*value).to_owned()))
            .collect();
        let settings = crate::settings(None, &environment);
        settings
            .err()
            .map_or_else(Vec::new, |invalid| invalid.problems)
    }

    struct Files(TempDir);

    impl Files {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            for name in ["signing", "sealing"] {
                fs::create_dir(folder.path().join(name)).expect("made");
            }
            let users = "[[users]]\nemail = 'carol@example.test'\npassword = 'carol-pass'\n";
            fs::write(folder.path().join("users.toml"), users).expect("written");
            Self(folder)
        }

        fn path(&self, name: &str) -> String {
            self.0.path().join(name).display().to_string()
        }
    }

    #[test]
    fn public_credentials_are_refused_on_addresses_other_than_loopback() {
        let files = Files::new();
        let [signing, sealing] = ["signing", "sealing"].map(|name| files.path(name));
        let users = files.path("users.toml");
        let users = [("IAM__MOCK__USERS_FILE", users.as_str())];
        let keys = [
            ("KEYS__SIGNING_DIR", signing.as_str()),
            ("KEYS__SEALING_DIR", sealing.as_str()),
        ];
        for (variables, listener, missing) in [
            (
                vec![],
                "MANAGEMENT",
                "keys.signing_dir, keys.sealing_dir, iam.mock.users_file",
            ),
            (
                users.to_vec(),
                "MANAGEMENT",
                "keys.signing_dir, keys.sealing_dir",
            ),
            (keys.to_vec(), "MANAGEMENT", "iam.mock.users_file"),
            (keys.to_vec(), "HTTP", "iam.mock.users_file"),
            ([&users[..], &keys].concat(), "MANAGEMENT", ""),
            ([&users[..], &keys].concat(), "HTTP", ""),
        ] {
            let listen = format!("{listener}__LISTEN");
            for (address, is_reached) in [
                ("0.0.0.0:8088", true),
                ("192.0.2.1:0", true),
                ("[::ffff:192.0.2.1]:0", true),
                ("127.8.8.8:1", false),
                ("[::ffff:127.0.0.1]:0", false),
            ] {
                let found = problems(&[&variables[..], &[(&listen, address)]].concat());
                if is_reached && !missing.is_empty() {
                    let [problem] = &found[..] else {
                        panic!("{address}: {found:?}")
                    };
                    let key = listener.to_lowercase();
                    let start =
                        format!("{key}.listen: {address} can be reached from other machines;");
                    assert!(problem.starts_with(&start), "{problem}");
                    assert!(problem.contains(missing), "{missing}: {problem}");
                } else {
                    assert_eq!(found, [""; 0], "{address}");
                }
            }
        }
    }

    #[test]
    fn published_signing_key_is_for_loopback_only_and_excludes_other_keys() {
        let files = Files::new();
        assert_eq!(problems(&[FIXED]), [""; 0]);
        let reached = problems(&[FIXED, ("MANAGEMENT__LISTEN", "0.0.0.0:9090")]);
        assert_eq!(reached.len(), 1, "{reached:?}");
        assert!(
            reached[0].contains("remove iam.mock.fixed_signing_key"),
            "{reached:?}"
        );
        let both = problems(&[FIXED, ("KEYS__SIGNING_DIR", &files.path("signing"))]);
        assert_eq!(both.len(), 1, "{both:?}");
        assert!(
            both[0].starts_with("iam.mock.fixed_signing_key: cannot be true if keys.signing_dir"),
            "{both:?}"
        );
    }
}
