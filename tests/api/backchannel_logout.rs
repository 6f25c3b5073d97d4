//! Logout tokens of the IAM: which are accepted, and what they end.

mod calling_back;
mod flood;

use iam_conformance::Account;
use test_support::client::Session;
use test_support::endpoints::BACKCHANNEL_LOGOUT;
use test_support::gateway::TestGateway;
use test_support::suite::{IamFixture, READ, session_of};

/// Cached data stays fresh for longer than any of these tests takes.
const FRESHNESS: [(&str, &str); 2] = [("session.freshness", "1h"), ("permissions.ttl", "1h")];

const FORM: &str = "application/x-www-form-urlencoded";

/// A user, and the gateway at which the user logs in.
struct LogoutFixture {
    iam: IamFixture,
    gateway: TestGateway,
    user: Account,
}

impl LogoutFixture {
    async fn new() -> Self {
        Self::with(&[]).await
    }

    async fn with(more: &[(&str, &str)]) -> Self {
        let iam = IamFixture::in_memory();
        let gateway = iam.gateway_with(&[&FRESHNESS[..], more].concat());
        let user = iam.user(&[READ]).await;
        Self { iam, gateway, user }
    }

    async fn log_in(&self) -> Session {
        session_of(&self.gateway, &self.user).await
    }

    /// A logout token for all sessions of the user.
    async fn token(&self) -> String {
        let tokens = self.iam.administrator.end_sessions_of(&self.user).await;
        tokens.into_iter().next().expect("a logout token")
    }

    async fn is_over(&self, session: &Session) {
        let answer = self.gateway.exchange(session, READ).await;
        answer.is_error(401, "invalid_grant");
    }

    async fn is_active(&self, session: &Session) {
        assert_eq!(self.gateway.exchange(session, READ).await.status, 200);
    }
}

#[tokio::test]
async fn logout_token_for_a_user_ends_all_earlier_sessions_of_the_user() {
    let fixture = LogoutFixture::new().await;
    let neighbour = fixture.iam.user(&[READ]).await;
    let neighbours = session_of(&fixture.gateway, &neighbour).await;
    let mut sessions = Vec::new();
    for _ in 0..2 {
        sessions.push(fixture.log_in().await);
    }
    let token = fixture.token().await;
    // The gateway has not received the token, and its data is fresh.
    fixture.is_active(&sessions[0]).await;
    let answer = fixture.gateway.send_logout_token(&token).await;
    assert_eq!((answer.status, &*answer.body), (200, &b""[..]));
    assert_eq!(answer.header("cache-control"), "no-store");
    for session in &sessions {
        fixture.is_over(session).await;
        assert_eq!(fixture.gateway.log_out(session).await.status, 200);
    }
    fixture.is_active(&neighbours).await;
    fixture.iam.advance(1);
    let again = fixture.log_in().await;
    fixture.is_active(&again).await;
}

#[tokio::test]
async fn only_a_form_with_exactly_one_logout_token_is_accepted() {
    let fixture = LogoutFixture::new().await;
    let session = fixture.log_in().await;
    let token = fixture.token().await;
    let good = format!("logout_token={token}");
    let form = ("content-type", FORM);
    let json = ("content-type", "application/json");
    let gzip = ("content-encoding", "gzip");
    let query = format!("{BACKCHANNEL_LOGOUT}?{good}");
    let long = format!("logout_token={}", "A".repeat(16 * 1024));
    for (path, headers, body, status) in [
        (BACKCHANNEL_LOGOUT, &[form][..], "", 400),
        (BACKCHANNEL_LOGOUT, &[form], &*format!("{good}&{good}"), 400),
        (
            BACKCHANNEL_LOGOUT,
            &[form],
            &format!("{good}&logout_token="),
            400,
        ),
        (BACKCHANNEL_LOGOUT, &[form], &good.to_uppercase(), 400),
        (&query, &[form], &good, 400),
        (BACKCHANNEL_LOGOUT, &[json], &good, 415),
        (BACKCHANNEL_LOGOUT, &[form, json], &good, 415),
        (BACKCHANNEL_LOGOUT, &[form, gzip], &good, 415),
        (BACKCHANNEL_LOGOUT, &[form], &long, 413),
    ] {
        let answer = fixture.gateway.post(path, headers, body).await;
        answer.is_error(status, "invalid_request");
    }
    let answer = fixture.gateway.get(BACKCHANNEL_LOGOUT, &[]).await;
    answer.is_error(405, "invalid_request");
    assert_eq!(answer.header("allow"), "POST");
    fixture.is_active(&session).await;
    let utf8 = [(
        "content-type",
        "application/x-www-form-urlencoded; charset=UTF-8",
    )];
    let beside = format!("more=1&{good}&more=2");
    let answer = fixture
        .gateway
        .post(BACKCHANNEL_LOGOUT, &utf8, beside)
        .await;
    assert_eq!(answer.status, 200);
    fixture.is_over(&session).await;
}
