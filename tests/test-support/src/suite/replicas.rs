//! Several gateways in front of one IAM.

use super::verifier::Verifier;
use super::{IamFixture, READ, session_of};
use crate::endpoints::JWKS;
use crate::keys::TestKeys;

pub async fn replicas_publish_the_same_keys(fixture: &IamFixture) {
    let keys = TestKeys::new();
    let (one, other) = (fixture.replica(&keys), fixture.replica(&keys));
    let expected = one.get(JWKS, &[]).await.text();
    assert_eq!(other.get(JWKS, &[]).await.text(), expected);
    let unrelated = fixture.gateway();
    assert_ne!(unrelated.get(JWKS, &[]).await.text(), expected);
}

pub async fn session_of_one_replica_is_valid_at_another(fixture: &IamFixture) {
    let keys = TestKeys::new();
    let (one, other) = (fixture.replica(&keys), fixture.replica(&keys));
    let user = fixture.user(&[READ]).await;
    for (here, there) in [(&one, &other), (&other, &one)] {
        let session = session_of(here, &user).await;
        let token = there.exchange(&session, READ).await.token();
        assert_eq!(token.scope, READ);
        let verifier = Verifier::discover(here).await;
        let claims = verifier.claims(&token.access_token);
        assert_eq!(claims["sub"], user.subject.as_str());
        assert_eq!(there.log_out(&session).await.status, 200);
    }
}

pub async fn replica_accepts_liveness_from_the_iam_only(fixture: &IamFixture) {
    let keys = TestKeys::new();
    let (one, other) = (fixture.replica(&keys), fixture.replica(&keys));
    let user = fixture.user(&[READ]).await;
    let session = session_of(&one, &user).await;
    fixture.administrator.end_sessions_of(&user).await;
    // It has not seen the session, so nothing is cached.
    let answer = other.exchange(&session, READ).await;
    answer.is_error(401, "invalid_grant");
}
