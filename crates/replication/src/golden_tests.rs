//! Reads what every released version has written, from the golden files in `tests/golden`, and compares
//! what this version writes with its own golden files. `docs/upgrades.md` has the rules.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use iam_adapters::resilient::Operation;
use iam_adapters::trace::Context;
use iam_adapters::{Clock, Credentials, Moment, Scope, Subject, UpstreamSession};
use jiff::Timestamp;
use josekit::jwk::JwkSet;
use josekit::jws::EdDSA;
use josekit::jwt;
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use test_support::ManualClock;
use test_support::scripted_iam::ScriptedIam;
use zeroize::Zeroizing;

use super::format;
use super::log::tests::address;
use super::login_entry::{self, NumberedEvent};
use super::redis::Redis;
use super::shared_cache::RedisCache;
use auth_gateway_core::Keys;
use auth_gateway_core::error::{GatewayError, Internal, InvalidSession};
use auth_gateway_core::event::{Replicated, Subscribers};
use auth_gateway_core::iams::{IamParts, IamPolicy};
use auth_gateway_core::identifiers::IdentifierKey;
use auth_gateway_core::introspection_cache::Freshness;
use auth_gateway_core::keys::{
    Algorithm, KeyPurpose, KeyStore, SigningKey, Times, generate, write_new,
};
use auth_gateway_core::login_limiter::{
    Bound, Limits, LoginChange, LoginEvent, LoginPublisher, SlowRate,
};
use auth_gateway_core::replica_state::{ReplicaState, Replicas};
use auth_gateway_core::request::{RequestContext, RequestId};
use auth_gateway_core::results::{DataSource, LookUp};
use auth_gateway_core::revocations::{Delivered, RevocationPublisher};
use auth_gateway_core::revocations::{Revocation, RevocationId, RevocationKey, RevocationKind};
use auth_gateway_core::revoked_sessions::RevokedSessions;
use auth_gateway_core::session;
use auth_gateway_core::session_id::SessionId;
use auth_gateway_core::shared_cache::{LookUpFuture, SharedCache, Stored};
use auth_gateway_core::{Exchanged, Gateway, Policy, Random, TokenPolicy, TokenType};

/// When every golden file was written.
const NOW: Moment = Moment {
    unix: Duration::from_secs(1_800_000_000),
    monotonic: Duration::ZERO,
};

const PREFIX: &str = "auth-gateway:auth.example.test";
const IAM: &str = "keycloak";
const ISSUER: &str = "https://sso.example.test/realms/shop";
const SUBJECT: &str = "7f1b6a52-9a44-4b9e-9d36-0f6f5c1f6a11";
const UPSTREAM_SESSION: &str = "test-only-upstream-session";
const EMAIL: &str = "alice@example.test";
const IDENTIFIER_KEY: &[u8] = b"test-only-key-of-identifiers-0123";
const SCOPE: &str = "urn:shop:catalog:item:read urn:shop:orders:order:read";
const SIGNING_DIR: &str = "test-only-keys/signing";
const SEALING_DIR: &str = "test-only-keys/sealing";

/// The same bytes each time. Each of them is used with another key or for another purpose.
#[derive(Debug)]
struct FixedRandom;

impl Random for FixedRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Internal> {
        bytes.fill(7);
        Ok(())
    }
}

/// Receives what a gateway shares with its replicas, and returns shared data.
#[derive(Debug, Default)]
struct Shared {
    revocations: Mutex<Vec<Revocation>>,
    logins: Mutex<Vec<LoginEvent>>,
    cached: Mutex<Vec<(RevocationId, Vec<u8>)>>,
}

impl RevocationPublisher for Shared {
    fn publish(&self, revocation: &Revocation, is_unpublished: bool) -> Delivered {
        if is_unpublished {
            self.revocations.lock().unwrap().push(*revocation);
        }
        Box::pin(std::future::ready(()))
    }

    fn is_pending(&self, _: &Revocation) -> bool {
        false
    }

    fn pending(&self) -> usize {
        0
    }
}

impl LoginPublisher for Shared {
    fn publish(&self, event: LoginEvent) -> bool {
        self.logins.lock().unwrap().push(event);
        false
    }
}

impl SharedCache for Shared {
    fn get(&self, name: RevocationId) -> LookUpFuture<'_> {
        let cached = self.cached.lock().unwrap();
        let entry = cached.iter().find(|(of, _)| *of == name);
        let stored = entry.map(|(_, entry)| Stored {
            entry: entry.clone(),
            remaining: Duration::from_secs(30),
        });
        Box::pin(std::future::ready(stored.ok_or(LookUp::Miss)))
    }

    fn put(&self, name: RevocationId, entry: Vec<u8>, _: Duration) {
        self.cached.lock().unwrap().push((name, entry));
    }
}

/// A gateway with the keys in a folder of golden files, and what it shares. Its IAM has one session.
struct Replica {
    gateway: Gateway,
    iam: Arc<ScriptedIam>,
    shared: Arc<Shared>,
}

impl Replica {
    fn new(version: &Path) -> Self {
        let iam = ScriptedIam {
            name: IAM,
            issuer: ISSUER,
            expires_in: Some(Duration::from_secs(8 * 3600)),
            session: Some(UpstreamSession {
                subject: Subject::new(SUBJECT).unwrap(),
                id: UPSTREAM_SESSION.to_owned(),
                secret: "test-only-refresh-token".into(),
            }),
            ..ScriptedIam::default()
        };
        iam.permit(SUBJECT, SCOPE);
        let iam = Arc::new(iam);
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(NOW.unix));
        let keys = Arc::new(keys(version));
        let shared = Arc::<Shared>::default();
        let replicas = Replicas {
            revocations: Some(Arc::<Shared>::clone(&shared)),
            logins: Some(Arc::<Shared>::clone(&shared)),
            cache: Some(Arc::<Shared>::clone(&shared)),
        };
        let policy = policy();
        let replica = ReplicaState::new(
            clock,
            Arc::new(FixedRandom),
            keys,
            Subscribers::new([]),
            policy.login_limits,
            replicas,
        );
        replica.timeline.measured(NOW, NOW.unix, NOW);
        replica.revocations.initial_sync_done(NOW);
        let iams = vec![IamParts {
            name: IAM.into(),
            adapter: Arc::<ScriptedIam>::clone(&iam),
            policy: iam_policy(),
        }];
        let gateway = Gateway::new(iams, policy, replica);
        Self {
            gateway,
            iam,
            shared,
        }
    }

    async fn log_in(&self, password: &str) -> Option<(SessionId, String)> {
        let credentials = Credentials::new(EMAIL.to_owned(), password.into()).unwrap();
        let address: IpAddr = "203.0.113.9".parse().unwrap();
        let request =
            RequestContext::new(RequestId::default(), Some(address.into()), Context::new());
        let session = self.gateway.log_in(&request, &credentials).await;
        let session = session.ok()?;
        let token = session.session_token.expose_secret().to_owned();
        Some((session.session_id, token))
    }

    async fn exchange(&self, id: &str, token: &str) -> Result<Exchanged, GatewayError> {
        let scope = Scope::parse(SCOPE).unwrap();
        let request = RequestContext::default();
        let exchange = self.gateway.exchange(&request, id, token, scope);
        let exchanged = exchange.await;
        // The shared data in the golden files makes them unnecessary.
        assert_eq!(self.iam.calls(Operation::Introspection), 0);
        exchanged
    }

    /// Makes an event of each kind, and returns the session of the successful login.
    async fn make_login_events(&self) -> (SessionId, String) {
        assert_eq!(self.log_in("wrong").await, None);
        assert_eq!(self.log_in("").await, None);
        let session = self.log_in("right").await.unwrap();
        assert_eq!(self.log_in("wrong").await, None);
        let limiter = &self.gateway.replica.login_limiter;
        let address: IpAddr = "203.0.113.9".parse().unwrap();
        limiter.clear_failures(EMAIL, Some(address.into()));
        session
    }

    /// Revokes the session in each way.
    async fn make_revocations(&self, id: SessionId, token: &str) {
        let revoker = &self.gateway.session_revoker;
        let iam = self.gateway.iams.iter().next().unwrap();
        let until = NOW.unix_seconds();
        let text = id.to_string();
        let request = RequestContext::default();
        let ended = self.gateway.log_out(&request, &text, token).await;
        ended.unwrap();
        revoker.end_upstream_session(iam, UPSTREAM_SESSION);
        revoker.end_sessions_of(iam, SUBJECT, until * 1_000 + 999);
        let of_iam = RevokedSessions::OfIam {
            iam: None,
            begun_until: Some(until),
        };
        revoker.revoke(&of_iam).unwrap().await;
    }
}

fn policy() -> Policy {
    Policy {
        cache_bytes: 1024 * 1024,
        login_limits: Limits {
            account: Bound {
                most: 10,
                window: Duration::from_secs(5 * 60),
            },
            account_slow: SlowRate {
                after: 50,
                interval: Duration::from_secs(15 * 60),
            },
            account_sessions: Bound {
                most: 20,
                window: Duration::from_secs(60),
            },
            address: Bound {
                most: 100,
                window: Duration::from_secs(15 * 60),
            },
        },
        token: TokenPolicy {
            issuer: "https://auth.example.test".to_owned(),
            audience: vec!["https://api.example.test".to_owned()],
            client_id: "auth-gateway".to_owned(),
            lifetime: Duration::from_secs(3_600),
            audiences: Vec::new(),
            token_type: TokenType::AtJwt,
        },
        default_scope: String::new(),
        refuse_empty_scope: false,
    }
}

fn iam_policy() -> IamPolicy {
    IamPolicy {
        domains: Vec::new(),
        is_default: true,
        allows_logins: true,
        subject_prefix: String::new(),
        allowed_scopes: None,
        freshness: Freshness {
            liveness: Duration::from_secs(30),
            permissions: Duration::from_secs(60),
            stale_if_error: Duration::ZERO,
        },
        session_max_lifetime: Duration::from_secs(24 * 3_600),
        logins_per_second: None,
        claims: iam_adapters::ClaimSources::NONE,
    }
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// The folders of all versions.
fn versions() -> Vec<PathBuf> {
    let entries = fs::read_dir(golden()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut versions: Vec<_> = paths.filter(|path| path.is_dir()).collect();
    versions.sort();
    assert!(!versions.is_empty());
    versions
}

fn this_version() -> PathBuf {
    golden().join(env!("CARGO_PKG_VERSION"))
}

fn json(version: &Path, name: &str) -> Value {
    serde_json::from_slice(&fs::read(version.join(name)).unwrap()).unwrap()
}

/// The keys of a version. Git keeps no permissions, so they are read from a copy that other users cannot read.
fn keys(version: &Path) -> Keys {
    let copy = |dir| {
        let folder = TempDir::new().unwrap();
        for entry in fs::read_dir(version.join(dir)).unwrap() {
            let path = entry.unwrap().path();
            let to = folder.path().join(path.file_name().unwrap());
            fs::copy(path, &to).unwrap();
            fs::set_permissions(to, fs::Permissions::from_mode(0o600)).unwrap();
        }
        folder
    };
    let (signing, sealing) = (copy(SIGNING_DIR), copy(SEALING_DIR));
    let times = Times {
        lifetime: policy().token.lifetime,
        ..Times::default()
    };
    Keys::new(
        KeyStore::open(signing.path().to_owned(), NOW, times).unwrap(),
        KeyStore::open(sealing.path().to_owned(), NOW, times).unwrap(),
        Arc::new(IdentifierKey::new(IDENTIFIER_KEY)),
    )
}

fn bytes(entry: &Value) -> Vec<u8> {
    STANDARD.decode(entry["bytes"].as_str().unwrap()).unwrap()
}

fn entry(key: &str, bytes: &[u8], content: &Value) -> Value {
    json!({"key": key, "bytes": STANDARD.encode(bytes), "content": content})
}

fn revocation_content(revocation: &Revocation) -> Value {
    json!({
        "kind": revocation.kind as u8,
        "begun_until": revocation.begun_until,
        "forget_at": revocation.forget_at,
    })
}

fn login_content(event: &LoginEvent) -> Value {
    let (change, content) = match event.change {
        LoginChange::Failed {
            of,
            networks,
            in_a_row,
        } => (
            "failed",
            json!({"of": of, "networks": networks, "in_a_row": in_a_row}),
        ),
        LoginChange::Succeeded { of } => ("succeeded", json!({"of": of})),
        LoginChange::KnownNetwork { pair } => ("known", json!({"pair": pair})),
        LoginChange::Reset { account, pair } => {
            ("reset", json!({"account": account, "pair": pair}))
        }
    };
    json!({"at": event.at, "forget_at": event.forget_at, change: content})
}

fn sealed_session(keys: &Keys, token: &str) -> Value {
    let mut buffer = Zeroizing::default();
    let session = session::open(&keys.sealing.key_set(), token, &mut buffer).unwrap();
    serde_json::to_value(&session).unwrap()
}

fn part(jwt: &str, number: usize) -> Value {
    let part = jwt.split('.').nth(number).unwrap();
    let decoded = URL_SAFE_NO_PAD.decode(part).unwrap();
    serde_json::from_slice(&decoded).unwrap()
}

fn redis() -> Redis {
    Redis::new(address("localhost", PREFIX)).unwrap()
}

fn stream_of(redis: &Redis, of: Replicated) -> String {
    // The length of the entries does not matter.
    redis.stream::<0>(of).key
}

/// What this version writes with the keys of a folder.
async fn written(version: &Path) -> BTreeMap<&'static str, Value> {
    let replica = Replica::new(version);
    let keys = &replica.gateway.replica.keys;
    let (id, token) = replica.make_login_events().await;
    let exchanged = replica.exchange(&id.to_string(), &token).await.unwrap();
    replica.make_revocations(id, &token).await;

    let redis = redis();
    let sealing = keys.sealing.key_set();
    let sealing = sealing.current(NOW);
    let revocations = replica.shared.revocations.lock().unwrap();
    let revocations = revocations.iter().map(|revocation| {
        let entry_bytes = format::write(revocation, RevocationKey::of(sealing).entries());
        let content = revocation_content(revocation);
        let stream = stream_of(&redis, Replicated::Revocations);
        entry(&stream, &entry_bytes, &content)
    });
    let stream_mac_key = replica.gateway.replica.keys.identifiers.entries();
    let events = replica.shared.logins.lock().unwrap();
    let logins = (1..).zip(&*events).map(|(number, event)| {
        let numbered = NumberedEvent {
            replica: 7,
            number,
            event: *event,
        };
        let entry_bytes = login_entry::write(&numbered, stream_mac_key);
        entry(
            &stream_of(&redis, event.change.log()),
            &entry_bytes,
            &login_content(event),
        )
    });
    let cached = replica.shared.cached.lock().unwrap();
    let [(name, cached)] = &cached[..] else {
        panic!("{} entries", cached.len());
    };
    let cache = RedisCache::new(PREFIX, Arc::new(ManualClock::at(NOW.unix)));
    let session = json!({
        "session_id": id.to_string(),
        "session_token": token,
        "content": sealed_session(keys, &token),
    });
    let redis = json!({
        "member": format::FIELD,
        "revocations": revocations.collect::<Vec<_>>(),
        "logins": logins.collect::<Vec<_>>(),
        "session": entry(&cache.key(*name), cached, &json!({"scope": SCOPE})),
    });
    let token = exchanged.token.expose();
    let access_token = json!({
        "access_token": token,
        "expires_in": exchanged.token.expires_in,
        "header": part(token, 0),
        "claims": part(token, 1),
        "jwks": keys.published(NOW),
    });
    BTreeMap::from([
        ("session.json", session),
        ("redis.json", redis),
        ("access-token.json", access_token),
    ])
}

#[test]
fn keys_of_every_version_are_read() {
    for version in versions() {
        let keys = keys(&version);
        let signing = keys.signing.key_set();
        let algorithms: Vec<_> = signing.iter().map(SigningKey::algorithm).collect();
        let expected = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];
        assert_eq!(algorithms, expected, "{version:?}");
        assert_eq!(keys.sealing.key_set().count(), 1);
        let published = keys.published(NOW);
        assert_eq!(published, json(&version, "access-token.json")["jwks"]);
    }
}

#[tokio::test]
async fn session_and_shared_data_of_every_version_give_a_token_without_a_call_to_the_iam() {
    for version in versions() {
        let replica = Replica::new(&version);
        let session = json(&version, "session.json");
        let [id, token] =
            ["session_id", "session_token"].map(|member| session[member].as_str().unwrap());
        let content = sealed_session(&replica.gateway.replica.keys, token);
        assert_eq!(content, session["content"], "{version:?}");
        let redis = json(&version, "redis.json");
        let sealing = replica.gateway.replica.keys.sealing.key_set();
        let session_id = SessionId::parse(id).unwrap();
        let name = RevocationKey::of(sealing.current(NOW)).session(session_id);
        replica
            .shared
            .put(name, bytes(&redis["session"]), Duration::MAX);
        let exchanged = replica.exchange(id, token).await.unwrap();
        assert_eq!(exchanged.source, DataSource::Shared, "{version:?}");
        assert_eq!(exchanged.scope, redis["session"]["content"]["scope"]);
    }
}

#[tokio::test]
async fn revocations_of_every_version_end_its_session() {
    for version in versions() {
        let entries = json(&version, "redis.json")["revocations"].clone();
        let session = json(&version, "session.json");
        let [id, token] =
            ["session_id", "session_token"].map(|member| session[member].as_str().unwrap());
        let mut kinds = Vec::new();
        for entry in entries.as_array().unwrap() {
            let replica = Replica::new(&version);
            let keys = replica.gateway.replica.keys.sealing.key_set();
            let read = format::read(&bytes(entry).try_into().unwrap(), &keys).unwrap();
            assert_eq!(revocation_content(&read), entry["content"], "{version:?}");
            kinds.push(read.kind);
            replica.gateway.replica.revocations.apply_remote(&read, NOW);
            let refused = replica.exchange(id, token).await;
            assert!(
                matches!(
                    refused,
                    Err(GatewayError::InvalidSession(
                        InvalidSession::Revoked | InvalidSession::Ended
                    ))
                ),
                "{version:?} {read:?}: {refused:?}"
            );
        }
        assert_eq!(kinds, RevocationKind::ALL, "{version:?}");
    }
}

/// The same logins have the same hashes, so a replica of this version counts those of the other.
#[tokio::test]
async fn login_events_of_every_version_are_those_that_this_version_makes() {
    for version in versions() {
        let replica = Replica::new(&version);
        replica.make_login_events().await;
        let key = replica.gateway.replica.keys.identifiers.entries();
        let entries = json(&version, "redis.json")["logins"].clone();
        let read: Vec<_> = entries
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| {
                let entry_bytes = bytes(entry).try_into().unwrap();
                let numbered = login_entry::read(&entry_bytes, key).unwrap();
                assert_eq!(login_content(&numbered.event), entry["content"]);
                assert!(
                    replica
                        .gateway
                        .replica
                        .login_limiter
                        .apply_remote(&numbered.event)
                );
                numbered.event
            })
            .collect();
        assert_eq!(read, *replica.shared.logins.lock().unwrap(), "{version:?}");
    }
}

#[test]
fn access_token_of_every_version_is_verified_with_the_keys_that_this_version_publishes() {
    for version in versions() {
        let golden = json(&version, "access-token.json");
        let token = golden["access_token"].as_str().unwrap();
        let jwks = keys(&version).published(NOW);
        let jwks = JwkSet::from_bytes(jwks.to_string()).unwrap();
        let header = part(token, 0);
        let key = jwks.get(header["kid"].as_str().unwrap())[0];
        let verifier = EdDSA.verifier_from_jwk(key).unwrap();
        let (claims, _) = jwt::decode_with_verifier(token, &verifier).unwrap();
        let claims: &Map<_, _> = claims.claims_set();
        assert_eq!(Value::Object(claims.clone()), golden["claims"]);
        assert_eq!(header, golden["header"]);
    }
}

#[tokio::test]
async fn this_version_writes_its_golden_files() {
    let version = this_version();
    for (name, content) in written(&version).await {
        assert_eq!(
            content,
            json(&version, name),
            "{name}: see docs/upgrades.md"
        );
    }
}

/// Writes the golden files of a new version. Fails if the version has some. `docs/upgrades.md` has the command.
#[tokio::test]
#[ignore = "writes the golden files of a new version"]
async fn write_golden_files() {
    let before = versions().pop().unwrap();
    let version = this_version();
    fs::create_dir(&version).expect("a version without golden files");
    let used_for = |minutes: i64| Timestamp::from_second(1_800_000_000 - minutes * 60).unwrap();
    for (dir, purpose, age) in [
        (SIGNING_DIR, KeyPurpose::Signing(Algorithm::Rs256), 3),
        (SIGNING_DIR, KeyPurpose::Signing(Algorithm::Es256), 2),
        (SIGNING_DIR, KeyPurpose::Signing(Algorithm::EdDsa), 1),
        (SEALING_DIR, KeyPurpose::Sealing, 1),
    ] {
        let key = generate(purpose, used_for(age)).unwrap();
        write_new(&version.join(dir), &key).unwrap();
    }
    fs::copy(before.join("settings.toml"), version.join("settings.toml")).unwrap();
    for (name, content) in written(&version).await {
        fs::write(version.join(name), format!("{content:#}\n")).unwrap();
    }
}
