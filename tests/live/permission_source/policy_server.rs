//! Open Policy Agent decides on the permissions of users of Keycloak.

use iam_conformance::Account;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder};
use serde::Deserialize;
use serde_json::{Value, json};
use test_support::client::{Session, http_client};
use test_support::gateway::TestGateway;
use test_support::suite::{BROWSE, READ, WRITE, session_of};

use super::{change_member, group, realm_with_groups};
use crate::fixture::{LiveFixture, PERMISSIONS_ALONE};
use crate::launched::Launched;

const POLICY: &str = include_str!("../opa/policy.rego");

/// An Open Policy Agent with the policy of the tests.
struct OpenPolicyAgent {
    facts: Facts,
    process: Launched,
}

#[derive(Deserialize)]
struct Facts {
    decision: String,
    data: String,
    policy: String,
}

impl OpenPolicyAgent {
    async fn start() -> Self {
        let (process, facts) = Launched::start("OPA_LAUNCHER", Vec::new()).await;
        Self { facts, process }
    }

    /// Replaces the data of the policy.
    async fn set_data(&self, data: Value) {
        let request = http_client().put(&self.facts.data);
        succeed(request.json(&data)).await;
    }

    async fn set_policy(&self) {
        let request = http_client().put(&self.facts.policy);
        succeed(request.header(CONTENT_TYPE, "text/plain").body(POLICY)).await;
    }

    async fn remove_policy(&self) {
        succeed(http_client().delete(&self.facts.policy)).await;
    }
}

async fn succeed(request: RequestBuilder) {
    let response = request.send().await.expect("an answer");
    let status = response.status();
    assert!(status.is_success(), "{status}");
}

/// A gateway in front of a Keycloak and an Open Policy Agent, and a user with a session.
struct PolicyFixture {
    live: LiveFixture,
    agent: OpenPolicyAgent,
    gateway: TestGateway,
    user: Account,
    session: Session,
}

impl PolicyFixture {
    async fn new() -> Self {
        let live = realm_with_groups().await;
        let agent = OpenPolicyAgent::start().await;
        let gateway = live.gateway(&[
            PERMISSIONS_ALONE,
            ("permissions.source", "http"),
            ("permissions.url", &agent.facts.decision),
            // As long as `permissions.ttl` allows, for a busy machine.
            ("permissions.deadline", "30s"),
        ]);
        let user = live.user(&[]).await;
        agent
            .set_data(json!({ "subjects": { user.subject.as_str(): [READ] } }))
            .await;
        let session = session_of(&gateway, &user).await;
        Self {
            live,
            agent,
            gateway,
            user,
            session,
        }
    }

    async fn granted(&self) -> String {
        let requested = [READ, WRITE, BROWSE].join(" ");
        let exchanged = self.gateway.exchange(&self.session, &requested).await;
        exchanged.token().scope
    }

    /// Exchanges of this and of a new session fail with this error, and the login succeeds.
    async fn only_logins_succeed(&self, error: &str) {
        self.live.outlive_freshness();
        let new = session_of(&self.gateway, &self.user).await;
        for session in [&self.session, &new] {
            let exchanged = self.gateway.exchange(session, READ).await;
            exchanged.is_error(500, error);
        }
        let ready = self.gateway.ready().await.json();
        assert_eq!(ready["reasons"][0]["code"], "permission_source", "{ready}");
    }
}

#[tokio::test]
#[ignore = "needs a real Keycloak and an Open Policy Agent: tests/run starts them"]
async fn scopes_are_the_decision_of_the_policy_server_and_change_within_the_ttl() {
    let fixture = PolicyFixture::new().await;
    let subject = fixture.user.subject.as_str();
    assert_eq!(fixture.granted().await, READ);
    let changed = json!({ "subjects": { subject: [WRITE] } });
    fixture.agent.set_data(changed).await;
    assert_eq!(fixture.granted().await, READ);
    fixture.live.outlive_freshness();
    assert_eq!(fixture.granted().await, WRITE);
    fixture.agent.set_data(json!({})).await;
    fixture.live.outlive_freshness();
    assert_eq!(fixture.granted().await, "");
}

#[tokio::test]
#[ignore = "needs a real Keycloak and an Open Policy Agent: tests/run starts them"]
async fn policy_server_receives_the_name_of_the_iam_and_the_current_groups() {
    let fixture = PolicyFixture::new().await;
    let data = json!({ "iams": { "keycloak": [READ] }, "groups": { "/writers": [WRITE] } });
    fixture.agent.set_data(data).await;
    let writers = group(&fixture.live, "writers").await;
    let subject = &fixture.user.subject;
    for (method, granted) in [
        (Method::PUT, format!("{READ} {WRITE}")),
        (Method::DELETE, READ.to_owned()),
    ] {
        change_member(&fixture.live, method, subject, &writers).await;
        fixture.live.outlive_freshness();
        assert_eq!(fixture.granted().await, granted);
    }
}

#[tokio::test]
#[ignore = "needs a real Keycloak and an Open Policy Agent: tests/run starts them"]
async fn undefined_decision_and_stopped_policy_server_are_faults() {
    let mut fixture = PolicyFixture::new().await;
    assert_eq!(fixture.granted().await, READ);
    fixture.agent.remove_policy().await;
    fixture.only_logins_succeed("server_error").await;
    fixture.agent.set_policy().await;
    // The fault is held for a second.
    fixture.live.outlive_freshness();
    assert_eq!(fixture.granted().await, READ);
    fixture.agent.process.kill();
    fixture.only_logins_succeed("temporarily_unavailable").await;
}
