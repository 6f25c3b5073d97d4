//! A stolen key that is removed, and when it becomes useless.

use test_support::client::Response;
use test_support::endpoints::JWKS;

use super::rotation::Caching;
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
    /// A verifier that fetches the keys now.
    async fn verifier(&self) -> Caching {
        Caching::fetch(&self.replicas[0].app, self.iam.now()).await
    }

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

    let next = fixture.make(Folder::Signing, fixture.now());
    fixture.deliver_to_all();
    assert_eq!(fixture.published().await, [kid.clone(), next.clone()]);
    assert_eq!(
        fixture.signed_with().await,
        kid,
        "verifiers have not seen the next"
    );

    let verifier = fixture.verifier().await;
    fixture.remove(Folder::Signing, &kid);
    fixture.deliver_to_all();
    assert_eq!(fixture.published().await, [&*next]);
    assert_eq!(fixture.signed_with().await, next, "nothing else is left");
    verifier.keys.claims(&stolen);
    assert_eq!(verifier.until, fixture.iam.now() + MAX_AGE.as_secs());

    fixture.iam.advance(MAX_AGE.as_secs());
    let verifier = fixture.verifier().await;
    assert!(verifier.keys.try_claims(&stolen).is_err());
    verifier.keys.claims(&fixture.token(0, &session).await);
}
