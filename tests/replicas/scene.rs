//! What the tests play in: a mock IAM, gateways before it by one clock with the same keys, and a
//! Redis between them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use auth_gateway::gateway::keys::{self, Algorithm, KeyPurpose};
use iam_adapters::clock::ManualClock;
use iam_adapters::guarded::Operation;
use iam_adapters::{Clock, Permission};
use jiff::Timestamp;
use mock_iam::faults::{Answer as FaultAnswer, Rule};
use mock_iam::{Directory, Identity, Mock, User, Users};
use secrecy::SecretString;
use tempfile::TempDir;
use test_support::app::TestApp;
use test_support::client::Session;
use test_support::wait::until;

use crate::figures::complains;
use crate::server::Server;

pub(crate) const READ: &str = "urn:shop:orders:order:read";
pub(crate) const EMAIL: &str = "alice-of-the-tests@example.test";
pub(crate) const PASSWORD: &str = "alice-pass-of-the-tests";

/// The bound for what Redis does not carry. Longer than any test takes, since the caches forget by
/// the machine's clock: what is felt before is felt by way of Redis.
const FRESHNESS: Duration = Duration::from_secs(3_600);

/// For a gateway that is to serve although it has not read from Redis what ended before.
pub(crate) const AT_ONCE: [(&str, &str); 1] = [("revocations.redis.catch_up_deadline", "1ms")];

pub(crate) struct Scene {
    pub(crate) redis: Server,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) subject: String,
    /// The ways of the gateways to the IAM.
    iams: Mutex<Vec<Arc<Mock>>>,
    keys: TempDir,
}

impl Scene {
    /// With a Redis of its own; none where the machine has none.
    pub(crate) fn new() -> Option<Self> {
        Some(Self::around(Server::start()?))
    }

    pub(crate) fn around(redis: Server) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let clock = Arc::new(ManualClock::at(now.expect("a time after 1970")));
        let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let lifetime = Duration::from_secs(8 * 3600);
        let identity = Identity::default();
        let directory = Directory::new(identity, Users::default(), lifetime, time);
        let directory = Arc::new(directory);
        let permissions = [READ].map(|name| Permission::parse(name).expect("a name"));
        let permissions = permissions.into_iter().collect();
        let alice = User::new(EMAIL, PASSWORD.into(), permissions).expect("a fair user");
        let subject = alice.subject().as_str().to_owned();
        directory.create_user(alice).expect("a new user");
        let keys = tempfile::tempdir().expect("a folder");
        for (name, purpose) in [
            ("signing", KeyPurpose::Signing(Algorithm::Es256)),
            ("sealing", KeyPurpose::Sealing),
        ] {
            let key = keys::generate(purpose, Timestamp::now()).expect("a key");
            keys::write_new(&keys.path().join(name), &key).expect("a key file");
        }
        Self {
            redis,
            clock,
            directory,
            subject,
            iams: Mutex::default(),
            keys,
        }
    }

    /// Gateways around the Redis, all in step.
    pub(crate) async fn replicas<const N: usize>(&self) -> [TestApp; N] {
        let replicas = std::array::from_fn(|_| self.gateway(&[]));
        for replica in &replicas {
            self.in_step(replica).await;
        }
        replicas
    }

    /// A gateway around the Redis with more settings.
    pub(crate) fn gateway(&self, more: &[(&str, &str)]) -> TestApp {
        let url = self.redis.url();
        self.lone_gateway(&[&[("revocations.redis.url", url.as_str())], more].concat())
    }

    /// A gateway with these settings alone.
    pub(crate) fn lone_gateway(&self, more: &[(&str, &str)]) -> TestApp {
        let folder = |name| {
            self.keys
                .path()
                .join(name)
                .to_str()
                .expect("text")
                .to_owned()
        };
        let (signing, sealing) = (folder("signing"), folder("sealing"));
        let keys = [
            ("keys.signing_dir", signing.as_str()),
            ("keys.sealing_dir", sealing.as_str()),
            ("session.freshness", "1h"),
            ("permissions.ttl", "1h"),
        ];
        let iam = Arc::new(Mock::new(Arc::clone(&self.directory)));
        self.iams
            .lock()
            .expect("the IAMs")
            .push(Arc::<Mock>::clone(&iam));
        let clock = Arc::<ManualClock>::clone(&self.clock);
        TestApp::in_front_of(iam, clock, &[&keys, more].concat())
    }

    /// Waits until the gateway hears of every revocation. From then on time has passed, so that
    /// what it knows from now on is what it trusts.
    pub(crate) async fn in_step(&self, gateway: &TestApp) {
        complains(gateway, &[]).await;
        self.clock.advance(Duration::from_millis(1));
    }

    /// From now on the IAM fails whenever a gateway that there is tells it of a logout.
    pub(crate) fn break_logouts(&self) {
        for iam in &*self.iams.lock().expect("the IAMs") {
            let rule = Rule {
                operation: Operation::Logout,
                user: None,
                times: None,
                share: None,
                delay: None,
                answer: Some(FaultAnswer::ServerError),
            };
            iam.faults().add(rule).expect("a fair rule");
        }
    }

    /// A session that all of these know to be alive.
    pub(crate) async fn known_session(&self, gateways: &[&TestApp]) -> Session {
        let first = gateways.first().expect("a gateway");
        let session = log_in(first).await;
        for gateway in gateways {
            assert_eq!(gateway.exchange(&session, READ).await.token().scope, READ);
        }
        session
    }

    /// Lets so much time pass that nothing known before counts any more.
    pub(crate) fn outlive_freshness(&self) {
        self.clock.advance(FRESHNESS);
    }
}

pub(crate) async fn log_in(gateway: &TestApp) -> Session {
    let password = SecretString::from(PASSWORD);
    gateway.log_in(EMAIL, &password).await.session()
}

pub(crate) async fn log_out(gateway: &TestApp, session: &Session) {
    let answer = gateway.log_out(session).await;
    assert_eq!(answer.status, 200, "{}", answer.told());
}

/// Whether the gateway still gives tokens; anything but a token and the one refusal is a failure.
pub(crate) async fn serves(gateway: &TestApp, session: &Session) -> bool {
    let answer = gateway.exchange(session, READ).await;
    if answer.status != 200 {
        answer.is_error(401, "invalid_grant");
    }
    answer.status == 200
}

/// Waits until the gateway feels that the session ended. No time passes on its clock meanwhile, so
/// the knowledge that it has does not age.
pub(crate) async fn feels_the_end(gateway: &TestApp, session: &Session) {
    until("the end is felt", async || !serves(gateway, session).await).await;
}
