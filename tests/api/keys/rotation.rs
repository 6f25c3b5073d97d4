//! Repeated rotation under load, as `keys rotate` does it.

use std::fs;
use std::time::Duration;

use auth_gateway_core::keys::{self, FileTimes};
use test_support::client::Session;
use test_support::endpoints::JWKS;
use test_support::gateway::TestGateway;
use test_support::suite::verifier::Verifier;

use super::{Folder, KeyRotationFixture, TOKEN_LIFETIME};

const STEP: u64 = 60;

/// A simulated hour, in which each kind of key is rotated every five minutes.
const STEPS: u64 = 60;
const EVERY: Duration = Duration::from_secs(300);

/// A verifier of access tokens that fetches the keys as rarely as it may.
pub(super) struct Caching {
    pub(super) keys: Verifier,
    pub(super) until: u64,
}

impl Caching {
    pub(super) async fn fetch(gateway: &TestGateway, now: u64) -> Self {
        let answer = gateway.get(JWKS, &[]).await;
        let max_age = answer
            .header("cache-control")
            .strip_prefix("public, max-age=");
        let max_age: u64 = max_age.expect("a max-age").parse().expect("seconds");
        Self {
            keys: Verifier::discover(gateway).await,
            until: now + max_age,
        }
    }
}

/// Does what `keys rotate` does, by the clock of the test.
fn rotate(fixture: &KeyRotationFixture, folder: Folder) -> bool {
    let mut files = keys::read_dir(&fixture.master(folder)).expect("a folder");
    files.sort_by_key(|(_, key)| key.first_use());
    let file_times = files.iter().map(|(_, key)| FileTimes {
        first_use: key.first_use(),
        // Not that of the machine.
        written: key.first_use(),
    });
    let file_times: Vec<_> = file_times.collect();
    let plan = keys::plan(&file_times, folder.times(), EVERY, fixture.now());
    for retired in plan.retired {
        fs::remove_file(&files[retired].0).expect("removed");
    }
    if let Some(first_use) = plan.next {
        fixture.make(folder, first_use);
    }
    plan.next.is_some()
}

#[tokio::test]
async fn repeated_rotation_invalidates_no_session_and_no_token() {
    let fixture = KeyRotationFixture::new(2).await;
    let mut verifiers = Vec::new();
    for _ in 0..3 {
        verifiers.push(Caching::fetch(&fixture.replicas[0].app, fixture.iam.now()).await);
    }
    let mut sessions: Vec<(u64, Session)> = Vec::new();
    let mut tokens: Vec<(u64, String)> = Vec::new();
    let (mut rotations, mut verified) = (0, 0);
    for step in 0..STEPS {
        for folder in Folder::BOTH {
            rotations += u64::from(rotate(&fixture, folder));
        }
        // One replica receives the file at once, the other half a minute later.
        fixture.deliver(0);
        for half in 0..2 {
            fixture.deliver(half);
            let now = fixture.iam.now();
            let at = usize::try_from(step + half as u64).expect("small") % 2;
            sessions.push((now + 15 * 60, fixture.log_in(at).await));
            sessions.retain(|(expires_at, _)| *expires_at > now);
            for replica in 0..2 {
                for (_, session) in [sessions.first(), sessions.last()].into_iter().flatten() {
                    tokens.push((now, fixture.token(replica, session).await));
                }
            }
            for (number, verifier) in verifiers.iter_mut().enumerate() {
                if verifier.until <= now {
                    let replica = &fixture.replicas[(at + number) % 2];
                    *verifier = Caching::fetch(&replica.app, now).await;
                }
                // At once and at the last moment, the two extremes.
                let oldest = now - TOKEN_LIFETIME.as_secs() + STEP / 2;
                for (_, token) in tokens.iter().filter(|(at, _)| *at == now || *at == oldest) {
                    let claims = verifier.keys.try_claims(token);
                    assert!(claims.is_ok(), "step {step}, verifier {number}: {claims:?}");
                    verified += 1;
                }
            }
            tokens.retain(|(at, _)| *at + TOKEN_LIFETIME.as_secs() > now);
            fixture.iam.advance(STEP / 2);
        }
    }
    assert!(
        rotations >= 2 * (STEPS * STEP / EVERY.as_secs() - 1),
        "{rotations}"
    );
    assert!(verified > 1_000, "{verified}");
    for folder in Folder::BOTH {
        let left = fs::read_dir(fixture.master(folder))
            .expect("a folder")
            .count();
        assert!((2..=8).contains(&left), "{left} {} keys", folder.name());
    }
}

#[tokio::test]
async fn etag_of_the_key_set_changes_with_the_keys() {
    let fixture = KeyRotationFixture::new(1).await;
    let gateway = &fixture.replicas[0].app;
    let before = gateway.get(JWKS, &[]).await;
    fixture.make(Folder::Signing, fixture.now() + Duration::from_secs(3600));
    fixture.deliver_to_all();
    let known = [("if-none-match", before.header("etag"))];
    let after = gateway.get(JWKS, &known).await;
    assert_eq!(after.status, 200);
    assert_ne!(after.header("etag"), before.header("etag"));
    assert_eq!(after.json()["keys"].as_array().map(Vec::len), Some(2));
    let known = [("if-none-match", after.header("etag"))];
    assert_eq!(gateway.get(JWKS, &known).await.status, 304);
}
