//! The settings of `auth-gateway init` and of the documentation, unchanged except for addresses, files and what
//! they leave to the operator.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use iam_conformance::Account;
use test_support::keys::TestKeys;

use crate::misconfigured::check;

/// Fails unless a test account can use the server with this configuration file. `addresses` are settings; `secrets`
/// are the contents of the files that these settings name.
pub(crate) fn works(
    user: &Account,
    text: &str,
    addresses: &[(&str, &str)],
    secrets: &[(&str, &str)],
) {
    let folder = tempfile::tempdir().expect("a folder");
    let written = |name: &str, content: &str| {
        let file = folder.path().join(name);
        fs::write(&file, content).expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("a mode");
        file.to_str().expect("text").to_owned()
    };
    let config = written("auth-gateway.toml", text);
    let identifier = (
        "keys.identifier_key_file",
        "a key of 32 characters and more!!",
    );
    let secrets = [secrets, &[identifier]].concat();
    let files = secrets
        .iter()
        .map(|(key, secret)| (*key, written(key, secret)));
    let files: Vec<_> = files.collect();
    let files: Vec<_> = files.iter().map(|(key, file)| (*key, &**file)).collect();
    let common = [
        ("environment", "development"),
        ("http.public_url", "http://gateway.test"),
    ];
    let keys = TestKeys::new();
    let settings = [&common[..], addresses, &files, &keys.settings()].concat();
    let (code, output) = check(&["--config", &config], &settings, Some(user));
    assert_eq!(code, Some(0), "{output}");
    for step in ["responds, as", "login", "exchange", "logout"] {
        assert!(output.contains(step), "{step}: {output}");
    }
}

/// The first block of settings in a page that contains this text.
pub(crate) fn block<'p>(page: &'p str, text: &str) -> &'p str {
    let mut blocks = page.split("```toml\n").skip(1);
    let block = blocks.find(|block| block.contains(text));
    let block = block.and_then(|block| block.split("```").next());
    block.expect("a section of the settings")
}
