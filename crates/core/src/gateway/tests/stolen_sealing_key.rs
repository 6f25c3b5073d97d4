//! An attacker with a sealing key who can also read and write the shared store gets no access token.

use iam_adapters::UserData;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use jiff::Timestamp;

use super::shared_cache::{MemoryCache, replicas};
use super::test_gateway::{LIVENESS, Session, TestGateway, policy};
use crate::error::InvalidSession;
use crate::introspection_cache::Fingerprint;
use crate::introspection_cache::shared::seal;
use crate::introspection_cache::shared::{
    CacheSealingKey, ENTRY_BYTES_MAX, EntryContent, SALT_LEN,
};
use crate::keys::{DerivationKey, Key as _};
use crate::results::{DataSource, LookUp};
use crate::revocations::RevocationKey;
use crate::sealed_session::{FORMAT, SealedSession};
use crate::session;
use crate::session_id::SessionId;
use crate::shared_cache::SharedCache as _;
use zeroize::Zeroizing;

/// What the attacker has: the sealing key and the store.
struct Attacker<'a> {
    victim: &'a TestGateway,
    cache: Arc<MemoryCache>,
}

impl Attacker<'_> {
    /// A session of Alice that does not exist at the IAM.
    fn forge_session(&self) -> Session {
        let id = SessionId::generate(&SystemRandom::new())
            .unwrap()
            .to_string();
        let now = self.victim.inner.replica.clock.now();
        let session = SealedSession {
            v: FORMAT,
            sid: id.clone().into(),
            iam: "scripted".into(),
            iss: "https://iam.test/realm".into(),
            sub: "alice".into(),
            usid: "upstream-1".into(),
            secret: "forged".into(),
            iat: now.unix_seconds() * 1_000,
            exp: now.unix_seconds() + 3_600,
        };
        let keys = self.victim.inner.replica.keys.sealing.key_set();
        let (token, _) = session::seal(&keys, &session, now, &SystemRandom::new()).unwrap();
        Session {
            id,
            token,
            verified_at: now.unix_seconds(),
            expires_at: session.exp,
        }
    }

    /// Stores an entry for a new forged session, and tries to get a token for it.
    async fn try_with(&self, what: &str, entry: impl FnOnce(&Session) -> Vec<u8>) {
        let session = self.forge_session();
        let keys = self.victim.inner.replica.keys.sealing.key_set();
        let [key] = keys.iter().collect::<Vec<_>>()[..] else {
            panic!("one sealing key");
        };
        let session_id = SessionId::parse(&session.id).unwrap();
        let name = RevocationKey::of(key).session(session_id);
        self.cache.put(name, entry(&session), LIVENESS);
        let looked_up = self.cache.results().len();
        assert_eq!(looked_up, 0, "{what}");
        let refused = self.victim.granted(&session).await;
        assert_eq!(refused, Err(InvalidSession::Ended.into()), "{what}");
        assert_eq!(self.cache.last_name(), name, "{what}");
        let [result] = self.cache.results()[..] else {
            panic!("{what}: not one look-up");
        };
        assert!(
            matches!(result, LookUp::Invalid | LookUp::Miss),
            "{what}: {result:?}"
        );
    }
}

/// The same session with another content, sealed by the attacker.
fn resealed(
    victim: &TestGateway,
    session: &Session,
    change: impl FnOnce(&mut SealedSession<'_>),
) -> Session {
    let keys = victim.inner.replica.keys.sealing.key_set();
    let mut buffer = Zeroizing::default();
    let mut content = session::open(&keys, &session.token, &mut buffer).unwrap();
    change(&mut content);
    let now = victim.inner.replica.clock.now();
    let (token, _) = session::seal(&keys, &content, now, &SystemRandom::new()).unwrap();
    Session {
        id: session.id.clone(),
        token,
        ..*session
    }
}

/// An entry as a replica makes it, with another key.
fn sealed_with(secret: &[u8], kid: &str, of: &Fingerprint, requested_at: Duration) -> Vec<u8> {
    let permissions = ["read"].map(|name| iam_adapters::Permission::parse(name).unwrap());
    let user = UserData {
        permissions: permissions.into_iter().collect(),
        ..UserData::default()
    };
    let content = EntryContent::encode(requested_at, LIVENESS, &user);
    let key = CacheSealingKey::derive(&DerivationKey::new(secret, kid, Timestamp::UNIX_EPOCH));
    seal(&key, kid, [7; SALT_LEN], of, content).unwrap()
}

#[tokio::test]
async fn attacker_with_a_sealing_key_and_the_store_gets_no_token() {
    let (here, there, cache) = replicas(policy());
    here.iam.end("forged");
    let attacker = Attacker {
        victim: &there,
        cache: Arc::clone(&cache),
    };
    let alice = here.log_in("alice").await;
    let (true_name, true_entry) = cache.only();
    assert_eq!(
        there.exchange(&alice, "read").await.unwrap().source,
        DataSource::Shared,
        "the control"
    );
    cache.results();

    attacker
        .try_with("an entry of another session", |_| true_entry.clone())
        .await;
    let sealing_secret: Vec<u8> = (0..32).collect();
    let signing = there.inner.replica.keys.signing.key_set();
    let signing_kid = signing.iter().next().unwrap().kid().to_owned();
    drop(signing);
    let now = there.inner.replica.clock.now().unix;
    for kid in [&*signing_kid, "shared", "", "unknown"] {
        for secret in [&*sealing_secret, b"", b"another secret"] {
            for at in [
                now,
                now + Duration::from_secs(1),
                now + LIVENESS,
                Duration::MAX,
            ] {
                attacker
                    .try_with("a key of the attacker", |session| {
                        sealed_with(secret, kid, &attacker.victim.fingerprint(session), at)
                    })
                    .await;
            }
        }
    }
    for length in (0..true_entry.len()).step_by(7) {
        let cut = true_entry[..length].to_vec();
        attacker.try_with("a part of an entry", |_| cut).await;
    }
    for at in 0..true_entry.len() {
        let mut changed = true_entry.clone();
        changed[at] ^= 1;
        attacker.try_with("a changed entry", |_| changed).await;
    }
    for length in [
        1,
        100,
        ENTRY_BYTES_MAX,
        ENTRY_BYTES_MAX + 1,
        10 * ENTRY_BYTES_MAX,
    ] {
        for byte in [0, 1, u8::MAX] {
            attacker.try_with("any bytes", |_| vec![byte; length]).await;
        }
    }

    // The session of another user, who still has access, under the name of a forged one.
    let bob = here.log_in("bob").await;
    cache.entries.lock().unwrap().remove(&true_name);
    there.granted(&bob).await.unwrap();
    cache.results();
    let entry_of_bob = cache.entries.lock().unwrap()[&cache.last_name()].0.clone();
    attacker
        .try_with("an entry of another user", |_| entry_of_bob)
        .await;
}

/// With the id of a session that is active and cached.
#[tokio::test]
async fn attacker_with_a_sealing_key_uses_no_cached_data_for_another_content() {
    type Change = fn(&mut SealedSession<'_>);
    let (gateway, alice) = TestGateway::with_session().await;
    gateway.iam.end("forged");
    let same = resealed(&gateway, &alice, |_| ());
    assert_ne!(same.token, alice.token);
    let exchanged = gateway.exchange(&same, "read").await.unwrap();
    assert_eq!(exchanged.source, DataSource::Hit, "the control");
    let changes: [(&str, Change); 4] = [
        ("the subject", |session| session.sub = "bob".into()),
        ("the session of the IAM", |session| {
            session.usid = "another".into();
        }),
        ("the expiry", |session| session.exp += 1),
        // The last one: its refusal ends the session here.
        ("the credential", |session| session.secret = "forged".into()),
    ];
    for (what, change) in changes {
        let before = gateway.introspections();
        let _ = gateway
            .exchange(&resealed(&gateway, &alice, change), "read")
            .await;
        assert_eq!(gateway.introspections(), before + 1, "{what}");
    }
}

/// Each bit of an entry, and each part of it, for its own session.
#[tokio::test]
async fn changed_entry_of_a_live_session_is_not_used() {
    let (here, _, cache) = replicas(policy());
    let session = here.log_in("alice").await;
    let (name, entry) = cache.only();
    let reader = || {
        let keys = Arc::clone(&here.keys);
        cache.join(&super::shared_cache::replica_of(&here, keys, policy()))
    };
    let attempts = (0..entry.len() * 8).map(|bit| {
        let mut changed = entry.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        changed
    });
    let cuts = (0..entry.len()).map(|length| entry[..length].to_vec());
    let longer = [entry.iter().copied().chain([0]).collect()];
    let there = reader();
    for changed in attempts.chain(cuts).chain(longer) {
        cache.renew(name, changed);
        let source = there.exchange(&session, "read").await.unwrap().source;
        assert_eq!(source, DataSource::Miss);
        let [LookUp::Invalid | LookUp::Miss] = cache.results()[..] else {
            panic!("the entry was used");
        };
        // The next attempt must look it up again.
        there.clock.advance(Duration::from_millis(1));
        there.initial_sync_done();
        there.clock.advance(Duration::from_millis(1));
    }
    let there = reader();
    cache.renew(name, entry);
    let source = there.exchange(&session, "read").await.unwrap().source;
    assert_eq!(source, DataSource::Shared, "the control");
}

/// Two sessions of one user: one has ended at the IAM, the other is active.
#[tokio::test]
async fn entry_of_another_session_of_the_same_user_is_not_used() {
    let (here, there, cache) = replicas(policy());
    let ended = here.log_in("alice").await;
    let (name_of_ended, _) = cache.only();
    cache.entries.lock().unwrap().clear();
    here.iam.end("secret-1");
    let active = here.log_in("alice").await;
    let (_, entry_of_active) = cache.only();
    cache.renew(name_of_ended, entry_of_active);
    there.granted(&ended).await.unwrap_err();
    assert_eq!(cache.results(), [LookUp::Invalid]);
    there.granted(&active).await.unwrap();
    assert_eq!(cache.results(), [LookUp::Hit], "the control");
}
