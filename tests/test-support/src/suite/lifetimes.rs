//! Lifetimes of tokens and sessions.

use jiff::Timestamp;
use serde_json::json;

use super::verifier::Verifier;
use super::{IamFixture, READ, session_of};

pub async fn token_lifetime_follows_the_setting(fixture: &IamFixture) {
    let user = fixture.user(&[]).await;
    for (overrides, lifetime) in [(&[][..], 3600), (&[("token.lifetime", "5m")], 300)] {
        let longer = [overrides, &[("session.max_lifetime", "2h")]].concat();
        let gateway = fixture.gateway_with(&longer);
        let session = session_of(&gateway, &user).await;
        let left = u64::try_from(expiry(&session.expires_at)).expect("after 1970") - fixture.now();
        let token = gateway.exchange(&session, "").await.token();
        // The IAM's session may be shorter than the token's lifetime.
        assert_eq!(token.expires_in, left.min(lifetime));
    }
}

pub async fn token_does_not_outlive_its_session(fixture: &IamFixture) {
    let gateway = fixture.gateway_with(&[("session.max_lifetime", "60s")]);
    let verifier = Verifier::discover(&gateway).await;
    let session = session_of(&gateway, &fixture.user(&[]).await).await;
    for left in [60, 45, 1] {
        let token = gateway.exchange(&session, "").await.token();
        assert_eq!(token.expires_in, left);
        let claims = verifier.claims(&token.access_token);
        assert_eq!(claims["exp"], json!(expiry(&session.expires_at)));
        fixture.advance(if left == 60 { 15 } else { 44 });
    }
}

pub async fn session_expires_at_its_stated_second(fixture: &IamFixture) {
    let gateway = fixture.gateway_with(&[("session.max_lifetime", "60s")]);
    let session = session_of(&gateway, &fixture.user(&[READ]).await).await;
    fixture.advance(59);
    let last = gateway.exchange(&session, READ).await.token();
    assert_eq!(last.expires_in, 1);
    fixture.advance(1);
    let answer = gateway.exchange(&session, READ).await;
    answer.is_error(401, "invalid_grant");
    // Logout of an expired session succeeds.
    assert_eq!(gateway.log_out(&session).await.status, 200);
}

fn expiry(time: &str) -> i64 {
    time.parse::<Timestamp>().expect("RFC 3339").as_second()
}
