//! Promises about several gateways before one IAM.

use auth_gateway::gateway::keys::Algorithm;

use super::verifier::Verifier;
use super::{KeyFolder, READ, World, session_of};
use crate::endpoints::JWKS;

pub async fn replicas_publish_the_same_keys(world: &World) {
    let keys = KeyFolder::new(Algorithm::Es256);
    let (one, other) = (world.replica(&keys), world.replica(&keys));
    let told = one.get(JWKS, &[]).await.told();
    assert_eq!(other.get(JWKS, &[]).await.told(), told);
    let stranger = world.gateway();
    assert_ne!(stranger.get(JWKS, &[]).await.told(), told);
}

pub async fn a_session_of_one_replica_is_good_at_another(world: &World) {
    let keys = KeyFolder::new(Algorithm::Es256);
    let (one, other) = (world.replica(&keys), world.replica(&keys));
    let user = world.user(&[READ]).await;
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

pub async fn a_session_outlives_the_replica_that_made_it(world: &World) {
    let keys = KeyFolder::new(Algorithm::Es256);
    let user = world.user(&[READ]).await;
    let first = world.replica(&keys);
    let session = session_of(&first, &user).await;
    drop(first);
    let second = world.replica(&keys);
    assert_eq!(second.exchange(&session, READ).await.token().scope, READ);
}

pub async fn a_replica_takes_nobodys_word_but_the_iams(world: &World) {
    let keys = KeyFolder::new(Algorithm::Es256);
    let (one, other) = (world.replica(&keys), world.replica(&keys));
    let user = world.user(&[READ]).await;
    let session = session_of(&one, &user).await;
    world.administrator.end_sessions_of(&user).await;
    // It never saw the session, so no time has to pass.
    let answer = other.exchange(&session, READ).await;
    answer.is_error(401, "invalid_grant");
}

pub async fn a_logout_at_one_replica_is_felt_at_another_within_the_freshness(world: &World) {
    let keys = KeyFolder::new(Algorithm::Es256);
    let (one, other) = (world.replica(&keys), world.replica(&keys));
    let session = session_of(&one, &world.user(&[READ]).await).await;
    assert_eq!(other.exchange(&session, READ).await.status, 200);
    assert_eq!(one.log_out(&session).await.status, 200);
    world.advance(30);
    for gateway in [&one, &other] {
        let answer = gateway.exchange(&session, READ).await;
        answer.is_error(401, "invalid_grant");
        assert_eq!(gateway.log_out(&session).await.status, 200);
    }
}

pub async fn a_gateway_with_other_keys_accepts_nothing(world: &World) {
    let (one, other) = (world.gateway(), world.gateway());
    let session = session_of(&one, &world.user(&[READ]).await).await;
    let answer = other.exchange(&session, READ).await;
    answer.is_error(401, "invalid_grant");
    let answer = other.log_out(&session).await;
    answer.is_error(400, "invalid_request");
    assert_eq!(one.exchange(&session, READ).await.status, 200);
    let token = one.exchange(&session, READ).await.token();
    let verifier = Verifier::discover(&other).await;
    assert!(verifier.try_claims(&token.access_token).is_err());
}
