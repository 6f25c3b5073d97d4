//! An in-memory IAM, gateways in front of it by one clock with the same keys, and their Redis.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use auth_gateway_core::keys::{self, KeyPurpose};
use iam_adapters::resilient::Operation;
use iam_adapters::{Clock, Permission};
use jiff::Timestamp;
use mock_iam::faults::{Answer as FaultAnswer, Rule};
use mock_iam::{Directory, Identity, Mock, User, Users};
use secrecy::SecretString;
use test_support::ManualClock;
use test_support::client::Session;
use test_support::gateway::{TestGateway, manual_clock};
use test_support::keys::TestKeys;
use test_support::wait::{until, until_ok};

use test_support::redis_server::{PREFIX, Server};

pub(crate) const READ: &str = "urn:shop:orders:order:read";
pub(crate) const EMAIL: &str = "alice-of-the-tests@example.test";
pub(crate) const PASSWORD: &str = "alice-pass-of-the-tests";
/// Replicas with different ones are degraded.
pub(crate) const IDENTIFIER_KEY: (&str, &str) =
    ("keys.identifier_key", "key-of-the-identifiers-of-the-tests");

/// Longer than any test takes, because the caches also drop entries by the machine's clock. So an
/// end that another gateway has earlier came through Redis.
const FRESHNESS: Duration = Duration::from_secs(3_600);

/// For a gateway that serves before it has read the earlier revocations from Redis.
pub(crate) const AT_ONCE: [(&str, &str); 1] = [("redis.catch_up_deadline", "1ms")];

/// The rights that the documentation demands for the gateway's user of Redis.
pub(crate) const RIGHTS: [&str; 8] = [
    "+eval",
    "+xrange",
    "+xadd",
    "+xdel",
    "+time",
    "+pttl",
    "+getrange",
    "+set",
];

pub(crate) struct ReplicaFixture {
    pub(crate) redis: Server,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) subject: String,
    /// The adapters of the gateways.
    iams: Mutex<Vec<Arc<Mock>>>,
    pub(crate) keys: TestKeys,
}

/// A fixture with a new Redis; `None` if the machine has none.
pub(crate) fn fixture() -> Option<ReplicaFixture> {
    Server::start().map(ReplicaFixture::with_redis)
}

impl ReplicaFixture {
    pub(crate) fn with_redis(redis: Server) -> Self {
        Self::with_clock(redis, manual_clock())
    }

    pub(crate) fn with_clock(redis: Server, clock: Arc<ManualClock>) -> Self {
        let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let lifetime = Duration::from_secs(8 * 3600);
        let identity = Identity::default();
        let directory = Directory::new(identity, Users::default(), lifetime, time);
        let directory = Arc::new(directory);
        let permissions = [READ].map(|name| Permission::parse(name).expect("a name"));
        let permissions = permissions.into_iter().collect();
        let alice = User::new(EMAIL, PASSWORD.into(), permissions).expect("a valid user");
        let subject = alice.subject().as_str().to_owned();
        directory.create_user(alice).expect("a new user");
        Self {
            redis,
            clock,
            directory,
            subject,
            iams: Mutex::default(),
            keys: TestKeys::new(),
        }
    }

    /// Gateways with the Redis, all synchronized.
    pub(crate) async fn replicas<const N: usize>(&self) -> [TestGateway; N] {
        let replicas = std::array::from_fn(|_| self.gateway(&[]));
        for replica in &replicas {
            self.synchronized(replica).await;
        }
        replicas
    }

    /// A gateway with the Redis and more settings.
    pub(crate) fn gateway(&self, more: &[(&str, &str)]) -> TestGateway {
        self.gateway_by(&self.clock, more)
    }

    /// A gateway with the Redis, more settings and another clock.
    pub(crate) fn gateway_by<C: Clock + 'static>(
        &self,
        clock: &Arc<C>,
        more: &[(&str, &str)],
    ) -> TestGateway {
        let url = self.redis.url();
        let redis = [("redis.url", url.as_str()), ("redis.prefix", PREFIX)];
        self.new_gateway(clock, &[&redis[..], more].concat())
    }

    /// A gateway without Redis.
    pub(crate) fn lone_gateway(&self, more: &[(&str, &str)]) -> TestGateway {
        self.new_gateway(&self.clock, more)
    }

    fn new_gateway<C: Clock + 'static>(
        &self,
        clock: &Arc<C>,
        more: &[(&str, &str)],
    ) -> TestGateway {
        let common = [
            ("session.freshness", "1h"),
            ("permissions.ttl", "1h"),
            ("keys.reload_interval", "1s"),
            IDENTIFIER_KEY,
        ];
        let iam = Arc::new(Mock::new(Arc::clone(&self.directory)));
        self.iams
            .lock()
            .expect("the IAMs")
            .push(Arc::<Mock>::clone(&iam));
        let settings = [&self.keys.settings()[..], &common, more].concat();
        let clock = Arc::<C>::clone(clock);
        TestGateway::with_adapter(iam, clock, &settings)
    }

    /// Waits until the gateway receives every revocation. It distrusts what it cached up to this
    /// moment, so the clock advances.
    pub(crate) async fn synchronized(&self, gateway: &TestGateway) {
        until("the gateway to be synchronized", async || {
            // The clock of the test may differ from that of Redis.
            let (_, codes) = gateway.ready().await.readiness();
            codes.is_empty() || codes == "clock_wrong"
        })
        .await;
        self.clock.advance(Duration::from_millis(1));
    }

    /// Adds a sealing key, which the gateways use from then on. Returns the file of the key before.
    pub(crate) async fn add_sealing_key(&self, gateways: &[TestGateway]) -> PathBuf {
        // Later than the gateways must publish it.
        const AHEAD: Duration = Duration::from_secs(3_600);
        let folder = self.keys.folder("sealing");
        let before = fs::read_dir(&folder).expect("a folder").next();
        let before = before.expect("a key").expect("a key").path();
        let key = keys::generate(KeyPurpose::Sealing, Timestamp::now() + AHEAD).expect("a key");
        keys::write_new(&folder, &key).expect("a key file");
        have_sealing_keys(gateways, 2).await;
        self.clock.advance(2 * AHEAD);
        before
    }

    /// From now on logouts at the IAM fail for the gateways started so far.
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
            iam.faults().add(rule).expect("a valid rule");
        }
    }

    /// A session that all of these gateways have cached as active.
    pub(crate) async fn known_session(&self, gateways: &[&TestGateway]) -> Session {
        let first = gateways.first().expect("a gateway");
        let session = log_in(first).await;
        for gateway in gateways {
            assert_eq!(gateway.exchange(&session, READ).await.token().scope, READ);
        }
        session
    }

    /// Advances the clock until all cached data is stale.
    pub(crate) fn outlive_freshness(&self) {
        self.clock.advance(FRESHNESS);
    }
}

/// Waits until each gateway has read this number of sealing keys.
pub(crate) async fn have_sealing_keys(gateways: &[TestGateway], count: u64) {
    for gateway in gateways {
        until(&format!("{count} sealing keys"), async || {
            gateway.metric("keys", "purpose=\"sealing\"").await == count
        })
        .await;
    }
}

pub(crate) async fn log_in(gateway: &TestGateway) -> Session {
    let password = SecretString::from(PASSWORD);
    gateway.log_in(EMAIL, &password).await.session()
}

pub(crate) async fn log_out(gateway: &TestGateway, session: &Session) {
    let answer = gateway.log_out(session).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Whether the gateway issues tokens for the session. Panics on any response but a token or the
/// refusal.
pub(crate) async fn serves(gateway: &TestGateway, session: &Session) -> bool {
    let answer = gateway.exchange(session, READ).await;
    if answer.status != 200 {
        answer.is_error(401, "invalid_grant");
    }
    answer.status == 200
}

/// Waits until the gateway reports that it cannot use Redis, and checks that it works all the same. Returns the report.
pub(crate) async fn works_without_redis(gateway: &TestGateway) -> String {
    let unusable = ("degraded".to_owned(), "revocations_unreachable".to_owned());
    let report = until_ok("Redis to be unusable", async || {
        let report = gateway.ready().await;
        let text = report.text();
        // A gateway that serves at once has this reason also before its first attempt to connect.
        if report.readiness() == unusable && !text.contains("Redis is not read yet") {
            Ok(text)
        } else {
            Err(text)
        }
    })
    .await;
    let session = log_in(gateway).await;
    assert!(serves(gateway, &session).await);
    log_out(gateway, &session).await;
    report
}

/// Waits until the gateway refuses the session. Its clock stands still meanwhile, so its cached data
/// stays fresh.
pub(crate) async fn refuses(gateway: &TestGateway, session: &Session) {
    until("the session to be refused", async || {
        !serves(gateway, session).await
    })
    .await;
}
