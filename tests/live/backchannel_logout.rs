//! Logout tokens of a real Keycloak.

use futures_util::future::join_all;
use iam_conformance::{Account, Fixture as _};
use secrecy::ExposeSecret as _;
use serde_json::json;
use test_support::client::Session;
use test_support::endpoints::BACKCHANNEL_LOGOUT;
use test_support::gateway::TestGateway;
use test_support::keys::TestKeys;
use test_support::suite::session_of;

use crate::administrator::PermissionsFrom;
use crate::another_realm::{another_realm, send_logout_tokens};
use crate::fixture::{LONG_DEADLINES, LiveFixture};
use crate::metrics::{iam_calls, logout_tokens};
use crate::version::Version;

/// Cached data stays fresh for longer than a test takes, so an end that takes effect came by a
/// logout token.
const FRESHNESS: [(&str, &str); 2] = [("session.freshness", "1h"), ("permissions.ttl", "1h")];

/// A gateway that waits for itself would serve no request with one worker and one permit.
const ONE_OF_EACH: [(&str, &str); 3] = [
    ("http.workers", "1"),
    ("upstream.login_concurrency", "1"),
    ("upstream.logout_concurrency", "1"),
];

struct BackchannelFixture {
    live: LiveFixture,
    keys: TestKeys,
    gateway: TestGateway,
}

impl BackchannelFixture {
    /// A new realm that sends its logout tokens to the gateway.
    async fn new() -> Self {
        let keycloak = another_realm(&json!({})).await;
        let live = LiveFixture::with_keycloak(&keycloak, PermissionsFrom::Realm).await;
        let keys = TestKeys::new();
        let settings = [
            &keycloak.settings()[..],
            &keys.settings(),
            &LONG_DEADLINES,
            &FRESHNESS,
            &ONE_OF_EACH,
        ]
        .concat();
        // By the machine's clock, as Keycloak's tokens are dated.
        let gateway = TestGateway::start(&settings);
        let receiver = format!("http://{}{BACKCHANNEL_LOGOUT}", gateway.addresses().public);
        send_logout_tokens(&live.administrator.api, &keycloak, &receiver).await;
        Self {
            live,
            keys,
            gateway,
        }
    }

    async fn user(&self) -> Account {
        self.live.user(&[]).await
    }

    /// The number of logout tokens that the gateway has accepted.
    async fn received(&self) -> usize {
        let management = self.gateway.addresses().management;
        let received = logout_tokens(management, "session_ended").await;
        usize::try_from(received).expect("a small number")
    }

    /// Exchanges each of these sessions; returns how many the gateway refuses as ended.
    async fn refused(&self, sessions: &[Session]) -> usize {
        let mut refused = 0;
        for session in sessions {
            let answer = self.gateway.exchange(session, "").await;
            if answer.status != 200 {
                answer.is_error(401, "invalid_grant");
                refused += 1;
            }
        }
        refused
    }

    async fn introspections(&self) -> u64 {
        iam_calls(self.gateway.addresses().management, "introspection").await
    }
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn session_deleted_by_an_administrator_ends_at_once_and_other_sessions_stay() {
    let fixture = BackchannelFixture::new().await;
    let user = fixture.user().await;
    let deleted = session_of(&fixture.gateway, &user).await;
    let kept = session_of(&fixture.gateway, &user).await;
    for session in [&deleted, &kept] {
        assert_eq!(fixture.gateway.exchange(session, "").await.status, 200);
    }
    let upstream = fixture.keys.unsealed(&deleted);
    fixture
        .live
        .administrator
        .end_session(&user, &upstream)
        .await;
    let ended = Version::of_environment().logout_tokens.for_sessions(1);
    assert_eq!(fixture.refused(&[deleted]).await, ended);
    assert_eq!(fixture.gateway.exchange(&kept, "").await.status, 200);
    assert_eq!(fixture.received().await, ended);
    assert_eq!(
        fixture.introspections().await,
        0,
        "no introspection is needed"
    );
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn logout_of_all_sessions_by_an_administrator_ends_them_at_once() {
    let fixture = BackchannelFixture::new().await;
    let (user, neighbour) = (fixture.user().await, fixture.user().await);
    let mut sessions = Vec::new();
    for _ in 0..5 {
        sessions.push(session_of(&fixture.gateway, &user).await);
    }
    let neighbours = session_of(&fixture.gateway, &neighbour).await;
    fixture.live.administrator.end_sessions_of(&user).await;
    let logout_tokens = Version::of_environment().logout_tokens;
    let ended = logout_tokens.for_logout_of_user(sessions.len());
    assert_eq!(fixture.refused(&sessions).await, ended);
    assert_eq!(fixture.gateway.exchange(&neighbours, "").await.status, 200);
    assert_eq!(fixture.received().await, ended);
    let again = session_of(&fixture.gateway, &user).await;
    assert_eq!(fixture.gateway.exchange(&again, "").await.status, 200);
    assert_eq!(
        fixture.introspections().await,
        0,
        "no introspection is needed"
    );
}

/// Keycloak sends the logout token during the gateway's logout call, and waits for the response.
#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn logout_completes_while_keycloak_sends_its_logout_token() {
    let fixture = BackchannelFixture::new().await;
    let user = fixture.user().await;
    let session = session_of(&fixture.gateway, &user).await;
    assert_eq!(fixture.gateway.log_out(&session).await.status, 200);
    let logout_tokens = Version::of_environment().logout_tokens;
    assert_eq!(
        fixture.received().await,
        logout_tokens.for_sessions(1),
        "before the logout was answered"
    );
    let answer = fixture.gateway.exchange(&session, "").await;
    answer.is_error(401, "invalid_grant");
    assert_eq!(fixture.gateway.log_out(&session).await.status, 200);

    // One more than these would be refused.
    let mut concurrent = Vec::new();
    for _ in 0..8 {
        concurrent.push(session_of(&fixture.gateway, &user).await);
    }
    let answers = join_all(concurrent.iter().map(|one| fixture.gateway.log_out(one))).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert_eq!(fixture.received().await, logout_tokens.for_sessions(9));
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn other_tokens_signed_by_keycloak_are_no_logout_tokens() {
    let fixture = BackchannelFixture::new().await;
    let user = fixture.user().await;
    let session = session_of(&fixture.gateway, &user).await;
    let upstream = fixture.keys.unsealed(&session);
    let keycloak = &fixture.live.administrator.keycloak;
    let access = keycloak.access_token(&user.email, &user.password).await;
    for token in [&access, &upstream.secret] {
        let answer = fixture
            .gateway
            .send_logout_token(token.expose_secret())
            .await;
        answer.is_error(400, "invalid_request");
    }
    assert_eq!(fixture.gateway.exchange(&session, "").await.status, 200);
    assert_eq!(fixture.received().await, 0);
}
