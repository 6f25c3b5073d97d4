//! One process of the gateway, from its parts.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use auth_gateway_core::event::Subscribers;
use auth_gateway_core::iams::{IamParts, IamPolicy};
use auth_gateway_core::identifiers::IdentifierKey;
use auth_gateway_core::introspection_cache::Freshness;
use auth_gateway_core::keys::{KeySet, SealingKey};
use auth_gateway_core::login_limiter::{Bound, Limits, SlowRate};
use auth_gateway_core::replica_state::ReplicaState;
use auth_gateway_core::{Gateway, Keys, Policy, TokenPolicy, TokenType};
use auth_gateway_replication::{Address, Outboxes, Redis, ReplicationStream};
use iam_adapters::resilient::{CallLimit, CallLimits};
use iam_adapters::{ClaimSources, Clock, IamAdapter, Moment, ResilientAdapter};
use jiff::Timestamp;
use tokio::task::JoinHandle;

use crate::clock::{ReplicaClock, START, SeededRandom};
use crate::iam::SimulatedIam;
use crate::network::{self, Process};
use crate::plan::Setting;
use crate::simulation::World;

/// The beginning of each key in Redis.
const PREFIX: &str = "simulated";

/// The key of the stream of revocations.
pub(crate) const REVOCATIONS: &str = "simulated:revocations";

/// The deadline of each call to the IAM.
pub(crate) const IAM_DEADLINE: Duration = Duration::from_secs(1);

/// A running process, and what the oracle knows of it.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) process: Process,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) clock: Arc<ReplicaClock>,
    pub(crate) started: Duration,
    /// When it first had the time of Redis.
    pub(crate) measured_at: Option<Duration>,
    /// The sessions whose revocation was in the stream at the start, and still is.
    pub(crate) started_with: BTreeSet<usize>,
    tasks: Vec<JoinHandle<()>>,
}

/// The keys that all replicas share. Only the one for signing differs between two runs.
static KEYS: LazyLock<Arc<Keys>> = LazyLock::new(|| {
    let start = Moment {
        unix: START,
        monotonic: Duration::ZERO,
    };
    let secret: Vec<u8> = (0..32).collect();
    let sealing = SealingKey::new(&secret, "simulated", Timestamp::UNIX_EPOCH).expect("a key");
    let mut keys = Keys::ephemeral(start).expect("keys");
    keys.sealing = KeySet::new(vec![sealing]).expect("a key").into();
    keys.identifiers = Arc::new(IdentifierKey::new(&[7; 32]));
    Arc::new(keys)
});

/// The keys that all replicas share.
pub(crate) fn keys() -> &'static Arc<Keys> {
    &KEYS
}

impl Replica {
    /// Starts a process. Its random numbers come from the seed.
    pub(crate) fn start(world: &Arc<World>, process: Process, ahead: i64, seed: u64) -> Self {
        let setting = &world.setting;
        let clock = ReplicaClock::new(world.time, ahead, setting.fast[process.at]);
        let clock = Arc::new(clock);
        let time: Arc<dyn Clock> = Arc::<ReplicaClock>::clone(&clock);
        let random = SeededRandom::new(seed);
        let connecting = Arc::clone(world);
        let redis = Redis::over(address(), move |client, config| {
            network::connect(&connecting, process, client, config)
        });
        let redis = redis.expect("an address");
        let outboxes = Outboxes::new(&redis, &time, &*random, setting.shares);
        let policy = policy();
        let subscribers = Subscribers::new([]);
        let state = ReplicaState::new(
            Arc::clone(&time),
            random,
            Arc::clone(keys()),
            subscribers.clone(),
            policy.login_limits,
            outboxes.replicas(),
        );
        let name: Arc<str> = "simulated".into();
        let observer = subscribers.of_iam(Arc::clone(&name));
        let iam: Arc<dyn IamAdapter> = Arc::new(SimulatedIam::new(world, process));
        let iam = Arc::new(ArcSwap::from_pointee(iam));
        let adapter = ResilientAdapter::new(&name, iam, call_limits(), &time, &observer);
        let iam = IamParts {
            name,
            adapter: Arc::new(adapter),
            policy: iam_policy(setting),
        };
        let gateway = Arc::new(Gateway::new(vec![iam], policy, state));
        let replica = Arc::clone(&gateway.replica);
        let stream = ReplicationStream::new(redis, outboxes, replica, setting.catch_up_deadline);
        let finishing = Arc::clone(&gateway).finish_logouts();
        Self {
            process,
            gateway,
            clock,
            started: world.time.now(),
            measured_at: None,
            started_with: BTreeSet::new(),
            tasks: vec![tokio::spawn(stream.run()), tokio::spawn(finishing)],
        }
    }

    /// Runs a request of a client, which ends with the process.
    pub(crate) fn spawn(&mut self, request: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(tokio::spawn(request));
    }

    /// Kills the process.
    pub(crate) fn kill(&self) {
        for task in &self.tasks {
            task.abort();
        }
    }

    /// Whole seconds since 1970, by its wall clock.
    pub(crate) fn unix_seconds(&self) -> u64 {
        self.clock.now().unix_seconds()
    }
}

fn address() -> Address {
    Address {
        host: "redis.test".to_owned(),
        port: 6379,
        tls: false,
        database: 0,
        username: None,
        password: None,
        authorities: None,
        sentinels: None,
        prefix: PREFIX.to_owned(),
    }
}

fn call_limits() -> CallLimits {
    let limit = CallLimit {
        deadline: IAM_DEADLINE,
        concurrency: 64,
    };
    CallLimits {
        login: limit,
        introspection: limit,
        logout: limit,
        keys: limit,
        probe: limit,
    }
}

fn policy() -> Policy {
    let unlimited = Bound {
        most: 0,
        window: Duration::from_secs(60),
    };
    Policy {
        cache_bytes: 1024 * 1024,
        // Login limits have their own tests.
        login_limits: Limits {
            account: unlimited,
            account_slow: SlowRate {
                after: 50,
                interval: Duration::from_secs(900),
            },
            account_sessions: unlimited,
            address: unlimited,
        },
        token: TokenPolicy {
            issuer: "https://auth.test".to_owned(),
            audience: vec!["https://api.test".to_owned()],
            client_id: "auth-gateway".to_owned(),
            lifetime: Duration::from_secs(3_600),
            audiences: Vec::new(),
            token_type: TokenType::AtJwt,
        },
        default_scope: String::new(),
        refuse_empty_scope: false,
    }
}

fn iam_policy(setting: &Setting) -> IamPolicy {
    IamPolicy {
        domains: Vec::new(),
        is_default: true,
        allows_logins: true,
        subject_prefix: String::new(),
        allowed_scopes: None,
        freshness: Freshness {
            liveness: setting.freshness,
            permissions: setting.freshness * 2,
            stale_if_error: setting.stale_if_error,
        },
        session_max_lifetime: setting.lifetime,
        logins_per_second: None::<NonZeroU32>,
        claims: ClaimSources::NONE,
    }
}
