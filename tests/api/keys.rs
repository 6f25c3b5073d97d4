//! Keys that change under running gateways without effect on clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use auth_gateway::startup::ServiceDependencies;
use auth_gateway_core::Keys;
use auth_gateway_core::keys::{self, Algorithm, KeyPurpose, Times};
use iam_adapters::Clock as _;
use iam_conformance::Account;
use jiff::Timestamp;
use tempfile::TempDir;
use test_support::ManualClock;
use test_support::client::Session;
use test_support::gateway::{TestGateway, prepare};
use test_support::suite::{IamFixture, READ, session_of};

mod alarm;
mod removal;
mod rotation;

const MAX_AGE: Duration = Duration::from_secs(120);
const TOKEN_LIFETIME: Duration = Duration::from_secs(300);
const SESSION_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// The folder in which keys are rotated.
#[derive(Debug, Clone, Copy)]
enum Folder {
    Signing,
    Sealing,
}

impl Folder {
    const BOTH: [Self; 2] = [Self::Signing, Self::Sealing];

    const fn name(self) -> &'static str {
        match self {
            Self::Signing => "signing",
            Self::Sealing => "sealing",
        }
    }

    const fn purpose(self) -> KeyPurpose {
        match self {
            Self::Signing => KeyPurpose::Signing(Algorithm::EdDsa),
            Self::Sealing => KeyPurpose::Sealing,
        }
    }

    const fn times(self) -> Times {
        Times {
            max_age: MAX_AGE,
            lifetime: match self {
                Self::Signing => TOKEN_LIFETIME,
                Self::Sealing => SESSION_LIFETIME,
            },
        }
    }
}

/// A gateway with key folders of its own.
struct Replica {
    app: TestGateway,
    keys: Arc<Keys>,
    place: PathBuf,
}

/// Replicas in front of one IAM, by one clock, and the operator's copy of their keys.
struct KeyRotationFixture {
    iam: IamFixture,
    user: Account,
    folder: TempDir,
    replicas: Vec<Replica>,
}

impl KeyRotationFixture {
    /// With one key of each purpose, in use for a long time.
    async fn new(replicas: usize) -> Self {
        let iam = IamFixture::in_memory();
        let user = iam.user(&[READ]).await;
        let mut fixture = Self {
            iam,
            user,
            folder: tempfile::tempdir().expect("a folder"),
            replicas: Vec::new(),
        };
        for folder in Folder::BOTH {
            fixture.make(folder, Timestamp::UNIX_EPOCH);
        }
        for number in 0..replicas {
            let place = fixture.folder.path().join(number.to_string());
            fixture.deliver_to(&place);
            let replica = fixture.start(place);
            fixture.replicas.push(replica);
        }
        fixture
    }

    /// Starts a gateway with the keys in its folders.
    fn start(&self, place: PathBuf) -> Replica {
        let folder = |folder: Folder| place.join(folder.name()).display().to_string();
        let clock = Arc::<ManualClock>::clone(&self.iam.clock);
        let overrides: &[(&str, &str)] = &[
            ("keys.signing_dir", &folder(Folder::Signing)),
            ("keys.sealing_dir", &folder(Folder::Sealing)),
            ("keys.jwks_max_age", "2m"),
            ("token.lifetime", "5m"),
            ("session.max_lifetime", "15m"),
        ];
        let (settings, prepared) = prepare(None, overrides, clock);
        let keys = Arc::clone(&prepared.keys);
        let iam = self.iam.administrator.adapter();
        let app = TestGateway::from_parts(
            settings,
            ServiceDependencies {
                iams: vec![Arc::new(ArcSwap::from_pointee(iam))],
                ..prepared
            },
        );
        Replica { app, keys, place }
    }

    fn master(&self, folder: Folder) -> PathBuf {
        self.folder.path().join("master").join(folder.name())
    }

    fn now(&self) -> Timestamp {
        let now = i64::try_from(self.iam.now()).expect("a time");
        Timestamp::from_second(now).expect("a time")
    }

    /// Generates a key in the operator's copy; returns its id.
    fn make(&self, folder: Folder, first_use: Timestamp) -> String {
        let key = keys::generate(folder.purpose(), first_use).expect("a key");
        keys::write_new(&self.master(folder), &key).expect("a key file");
        key.kid().to_owned()
    }

    /// Removes a key from the operator's copy.
    fn remove(&self, folder: Folder, kid: &str) {
        let path = self.master(folder).join(format!("{kid}.jwk"));
        keys::remove(&path).expect("removed");
    }

    /// Copies the operator's keys to a folder.
    fn deliver_to(&self, place: &Path) {
        for folder in Folder::BOTH {
            let (from, to) = (self.master(folder), place.join(folder.name()));
            fs::create_dir_all(&to).expect("a folder");
            let names = |folder: &Path| -> Vec<_> {
                let entries = fs::read_dir(folder).expect("a folder");
                entries
                    .map(|entry| entry.expect("an entry").file_name())
                    .collect()
            };
            let (wanted, present) = (names(&from), names(&to));
            for name in wanted.iter().filter(|name| !present.contains(name)) {
                let draft = to.join(".draft");
                fs::copy(from.join(name), &draft).expect("copied");
                fs::rename(&draft, to.join(name)).expect("renamed");
            }
            for name in present.iter().filter(|name| !wanted.contains(name)) {
                fs::remove_file(to.join(name)).expect("removed");
            }
        }
    }

    /// Copies the operator's keys to a replica, which reloads them.
    fn deliver(&self, replica: usize) {
        let replica = &self.replicas[replica];
        self.deliver_to(&replica.place);
        // The file watcher may have reloaded them already.
        replica.keys.reload(self.iam.clock.now()).for_each(drop);
    }

    fn deliver_to_all(&self) {
        for replica in 0..self.replicas.len() {
            self.deliver(replica);
        }
    }

    async fn log_in(&self, replica: usize) -> Session {
        session_of(&self.replicas[replica].app, &self.user).await
    }

    /// An access token of an exchange that has to succeed.
    async fn token(&self, replica: usize, session: &Session) -> String {
        let exchanged = self.replicas[replica].app.exchange(session, READ).await;
        exchanged.token().access_token
    }
}
