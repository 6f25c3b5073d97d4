//! Signing and sealing keys in folders, as an operator keeps them.

use std::path::PathBuf;
use std::time::Duration;

use auth_gateway_core::keys::{self, Algorithm, KeyPurpose, KeyStore, SealingKey, Times};
use auth_gateway_core::session;
use iam_adapters::{Clock as _, UpstreamSession};
use jiff::Timestamp;
use mock_iam::ManualClock;
use tempfile::TempDir;
use zeroize::Zeroizing;

use crate::client::Session;

/// The key folders of an operator. They are deleted when this is dropped.
pub struct TestKeys {
    folder: TempDir,
    signing: String,
    sealing: String,
}

impl Default for TestKeys {
    fn default() -> Self {
        Self::new()
    }
}

impl TestKeys {
    /// A new ES256 key and a new sealing key, in use from the start.
    pub fn new() -> Self {
        Self::with_algorithm(Algorithm::Es256)
    }

    /// The same with a signing key of another algorithm.
    pub fn with_algorithm(algorithm: Algorithm) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let generate = |name: &str, purpose| {
            let path = folder.path().join(name);
            let key = keys::generate(purpose, Timestamp::now()).expect("a key");
            keys::write_new(&path, &key).expect("a key file");
            path.to_str().expect("a path of text").to_owned()
        };
        Self {
            signing: generate("signing", KeyPurpose::Signing(algorithm)),
            sealing: generate("sealing", KeyPurpose::Sealing),
            folder,
        }
    }

    /// The settings of a gateway that uses them.
    pub fn settings(&self) -> [(&str, &str); 2] {
        [
            ("keys.signing_dir", &self.signing),
            ("keys.sealing_dir", &self.sealing),
        ]
    }

    /// The folder of the keys for this purpose, `signing` or `sealing`.
    pub fn folder(&self, purpose: &str) -> PathBuf {
        self.folder.path().join(purpose)
    }

    /// The sealing keys.
    pub fn sealing(&self) -> KeyStore<SealingKey> {
        let any_time = ManualClock::at(Duration::ZERO).now();
        let sealing = KeyStore::open((&self.sealing).into(), any_time, Times::default());
        sealing.expect("sealing keys")
    }

    /// The IAM's session in a session token.
    pub fn unsealed(&self, session: &Session) -> UpstreamSession {
        let mut buffer = Zeroizing::default();
        let key_set = self.sealing().key_set();
        let opened = session::open(&key_set, &session.session_token, &mut buffer);
        opened
            .expect("a token sealed with these keys")
            .upstream()
            .expect("a subject")
    }
}
