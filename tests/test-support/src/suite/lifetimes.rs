//! Lifetimes of tokens and sessions.

use jiff::Timestamp;

use super::{IamFixture, session_of};

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

fn expiry(time: &str) -> i64 {
    time.parse::<Timestamp>().expect("RFC 3339").as_second()
}
