//! A stolen key that is removed, and when it becomes useless.

use test_support::client::Response;
use test_support::endpoints::JWKS;
use test_support::suite::READ;
use test_support::suite::verifier::Verifier;

use super::{Fleet, Folder, MAX_AGE};

fn published(keys: &Response) -> Vec<String> {
    let keys = keys.json()["keys"].as_array().expect("keys").clone();
    let kid = |key: &serde_json::Value| key["kid"].as_str().expect("a kid").to_owned();
    keys.iter().map(kid).collect()
}

fn kid_of(token: &str) -> String {
    let header = josekit::jwt::decode_header(token).expect("a header");
    header
        .claim("kid")
        .and_then(|kid| kid.as_str())
        .expect("a kid")
        .to_owned()
}

impl Fleet {
    async fn published(&self) -> Vec<String> {
        published(&self.replicas[0].app.get(JWKS, &[]).await)
    }

    async fn signed_with(&self) -> String {
        let session = self.log_in(0).await;
        kid_of(&self.token(0, &session).await)
    }
}

#[tokio::test]
async fn removed_signing_key_is_unpublished_at_once_and_expires_at_verifiers_after_the_max_age() {
    let fleet = Fleet::new(1).await;
    let session = fleet.log_in(0).await;
    let stolen = fleet.token(0, &session).await;
    let kid = kid_of(&stolen);
    Verifier::discover(&fleet.replicas[0].app)
        .await
        .claims(&stolen);

    let next = fleet.make(Folder::Signing, fleet.now());
    fleet.deliver_to_all();
    assert_eq!(fleet.published().await, [kid.clone(), next.clone()]);
    assert_eq!(
        fleet.signed_with().await,
        kid,
        "verifiers have not seen the next"
    );

    fleet.remove(Folder::Signing, &kid);
    fleet.deliver_to_all();
    assert_eq!(fleet.published().await, [&*next]);
    assert_eq!(fleet.signed_with().await, next, "nothing else is left");
    fleet.iam.advance(MAX_AGE.as_secs());
    let verifier = Verifier::discover(&fleet.replicas[0].app).await;
    assert!(verifier.try_claims(&stolen).is_err());
    verifier.claims(&fleet.token(0, &session).await);
}

#[tokio::test]
async fn waiting_key_replaces_a_removed_key_at_once() {
    let fleet = Fleet::new(1).await;
    let kid = fleet.signed_with().await;
    let waiting = fleet.make(Folder::Signing, fleet.now() + 10 * MAX_AGE);
    fleet.deliver_to_all();
    assert_eq!(fleet.signed_with().await, kid);
    fleet.remove(Folder::Signing, &kid);
    fleet.deliver_to_all();
    assert_eq!(fleet.signed_with().await, waiting);
}

#[tokio::test]
async fn removing_a_sealing_key_ends_its_sessions_only() {
    let fleet = Fleet::new(2).await;
    let old = fleet.log_in(0).await;
    let kid = fleet.replicas[0].keys.sealing.key_set();
    let kid = auth_gateway::gateway::keys::Key::kid(kid.iter().next().expect("a key")).to_owned();
    fleet.make(Folder::Sealing, fleet.now() + 2 * MAX_AGE);
    fleet.deliver_to_all();
    fleet.iam.advance(2 * MAX_AGE.as_secs());
    let new = fleet.log_in(0).await;
    for session in [&old, &new] {
        fleet.token(1, session).await;
    }
    fleet.remove(Folder::Sealing, &kid);
    fleet.deliver_to_all();
    for replica in 0..2 {
        let refused = fleet.replicas[replica].app.exchange(&old, READ).await;
        refused.is_error(401, "invalid_grant");
        fleet.token(replica, &new).await;
    }
}
