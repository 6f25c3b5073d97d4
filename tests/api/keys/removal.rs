//! A stolen key that is removed, and when it becomes useless.

use test_support::client::Response;
use test_support::endpoints::JWKS;
use test_support::suite::READ;
use test_support::suite::verifier::Verifier;

use super::{Folder, KeyRotationFixture, MAX_AGE};

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

impl KeyRotationFixture {
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
    let fixture = KeyRotationFixture::new(1).await;
    let session = fixture.log_in(0).await;
    let stolen = fixture.token(0, &session).await;
    let kid = kid_of(&stolen);
    Verifier::discover(&fixture.replicas[0].app)
        .await
        .claims(&stolen);

    let next = fixture.make(Folder::Signing, fixture.now());
    fixture.deliver_to_all();
    assert_eq!(fixture.published().await, [kid.clone(), next.clone()]);
    assert_eq!(
        fixture.signed_with().await,
        kid,
        "verifiers have not seen the next"
    );

    fixture.remove(Folder::Signing, &kid);
    fixture.deliver_to_all();
    assert_eq!(fixture.published().await, [&*next]);
    assert_eq!(fixture.signed_with().await, next, "nothing else is left");
    fixture.iam.advance(MAX_AGE.as_secs());
    let verifier = Verifier::discover(&fixture.replicas[0].app).await;
    assert!(verifier.try_claims(&stolen).is_err());
    verifier.claims(&fixture.token(0, &session).await);
}

#[tokio::test]
async fn waiting_key_replaces_a_removed_key_at_once() {
    let fixture = KeyRotationFixture::new(1).await;
    let kid = fixture.signed_with().await;
    let waiting = fixture.make(Folder::Signing, fixture.now() + 10 * MAX_AGE);
    fixture.deliver_to_all();
    assert_eq!(fixture.signed_with().await, kid);
    fixture.remove(Folder::Signing, &kid);
    fixture.deliver_to_all();
    assert_eq!(fixture.signed_with().await, waiting);
}

#[tokio::test]
async fn removing_a_sealing_key_ends_its_sessions_only() {
    let fixture = KeyRotationFixture::new(2).await;
    let old = fixture.log_in(0).await;
    let kid = fixture.replicas[0].keys.sealing.key_set();
    let kid = auth_gateway_core::keys::Key::kid(kid.iter().next().expect("a key")).to_owned();
    fixture.make(Folder::Sealing, fixture.now() + 2 * MAX_AGE);
    fixture.deliver_to_all();
    fixture.iam.advance(2 * MAX_AGE.as_secs());
    let new = fixture.log_in(0).await;
    for session in [&old, &new] {
        fixture.token(1, session).await;
    }
    fixture.remove(Folder::Sealing, &kid);
    fixture.deliver_to_all();
    for replica in 0..2 {
        let refused = fixture.replicas[replica].app.exchange(&old, READ).await;
        refused.is_error(401, "invalid_grant");
        fixture.token(replica, &new).await;
    }
}
