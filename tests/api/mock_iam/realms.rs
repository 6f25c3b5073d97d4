//! Namespaces are realms, whose settings can be wrong.

use std::sync::Arc;

use auth_gateway_dev::{Namespace, NamespaceName};
use iam_adapters::clock::SystemClock;
use iam_adapters::keycloak::KeycloakSettings;
use iam_adapters::{
    ClientContext, Credentials, IamError, Introspection, Misconfiguration, Permissions, Refusal,
};
use mock_iam::User;
use serde_json::{Value, json};
use test_support::client::http_client;

use super::{RunningMock, adapter, client_auth};

const EMAIL: &str = "alice@example.test";

fn running_mock() -> RunningMock {
    RunningMock::new(Arc::new(SystemClock::default()))
}

fn credentials() -> Credentials {
    Credentials::new(EMAIL.to_owned(), "alice-pass".into()).expect("fair ones")
}

fn create_alice(namespace: &Namespace) {
    let alice = User::new(EMAIL, "alice-pass".into(), Permissions::default());
    let directory = namespace.mock.directory();
    directory
        .create_user(alice.expect("a valid user"))
        .expect("new");
}

fn in_realm(running_mock: &RunningMock, realm: &str) -> KeycloakSettings {
    KeycloakSettings {
        realm: realm.to_owned(),
        ..running_mock.settings()
    }
}

#[tokio::test]
async fn a_namespace_is_a_realm_with_users_and_sessions_of_its_own() {
    let running_mock = running_mock();
    let name = NamespaceName::parse("checkout-42").expect("a name");
    let theirs = adapter(&in_realm(&running_mock, name.as_str()));
    let client = ClientContext::default();
    let none = theirs.authenticate(&credentials(), &client).await;
    let realm = Misconfiguration::Tenant;
    assert!(
        matches!(none, Err(IamError::Misconfigured { what, .. }) if what == realm),
        "{none:?}"
    );
    let namespace = running_mock.namespaces.get_or_create(&name).expect("room");
    create_alice(&namespace);
    let begun = theirs.authenticate(&credentials(), &client).await;
    let session = begun.expect("a login").session;
    let ours = running_mock.adapter();
    let refused = ours.authenticate(&credentials(), &client).await;
    let unknown = IamError::Refused(Refusal::InvalidCredentials);
    assert_eq!(refused.err(), Some(unknown));
    // A session of one realm is unknown in the other.
    assert_eq!(ours.introspect(&session).await, Ok(Introspection::Inactive));
    ours.end_session(&session).await.expect("nothing to end");
    let active = theirs.introspect(&session).await;
    assert!(
        matches!(active, Ok(Introspection::Active { .. })),
        "{active:?}"
    );
    // The name of the default namespace is not a realm.
    let unnamed = adapter(&in_realm(&running_mock, "default")).probe().await;
    assert_eq!(unnamed.map_err(|error| error.kind()), Err("misconfigured"));
    // The realm of the settings is the default namespace, by both names.
    let shop = NamespaceName::parse("shop").expect("a name");
    let by_name = running_mock.namespaces.get_or_create(&shop).expect("room");
    assert!(Arc::ptr_eq(&by_name, &running_mock.namespace()));
    assert_eq!(running_mock.namespaces.count(), 2);
    // A snapshot restores a session.
    let snapshot = snapshot(&running_mock, "checkout-42").await;
    theirs.end_session(&session).await.expect("a logout");
    assert_eq!(
        theirs.introspect(&session).await,
        Ok(Introspection::Inactive)
    );
    snapshot.restore().await;
    let active = theirs.introspect(&session).await;
    assert!(
        matches!(active, Ok(Introspection::Active { .. })),
        "{active:?}"
    );
    running_mock.namespaces.reset(&name).expect("room");
    assert_eq!(
        theirs.introspect(&session).await,
        Ok(Introspection::Inactive)
    );
    running_mock.namespaces.delete(&name).expect("it is there");
    let deleted = theirs.introspect(&session).await;
    assert_eq!(deleted.map_err(|error| error.kind()), Err("misconfigured"));
}

/// A snapshot of a namespace.
struct TakenSnapshot<'a> {
    url: String,
    namespace: &'a str,
}

async fn snapshot<'a>(running_mock: &RunningMock, namespace: &'a str) -> TakenSnapshot<'a> {
    let url = format!("{}/mock/v1/snapshots", running_mock.url);
    let taken: Value = post(&url, namespace).await.json().await.expect("JSON");
    let url = format!("{url}/{}", taken["id"]);
    TakenSnapshot { url, namespace }
}

impl TakenSnapshot<'_> {
    async fn restore(&self) {
        let restored = post(&format!("{}/restore", self.url), self.namespace).await;
        assert_eq!(restored.status(), 204);
    }
}

async fn post(url: &str, namespace: &str) -> reqwest::Response {
    let request = http_client().post(url).header("mock-namespace", namespace);
    request.send().await.expect("an answer")
}

async fn set(running_mock: &RunningMock, change: Value) -> Value {
    let url = format!("{}/mock/v1/realm", running_mock.url);
    let answer = http_client().patch(url).json(&change).send().await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.status(), 200);
    answer.json().await.expect("JSON")
}

#[tokio::test]
async fn probe_reports_each_wrong_realm_setting() {
    let running_mock = running_mock();
    let direct_grants = json!({"direct_grants": false});
    for (change, back, what) in [
        (
            direct_grants,
            json!({"direct_grants": true}),
            Misconfiguration::PasswordLogin,
        ),
        (
            json!({"enabled": false}),
            json!({"enabled": true}),
            Misconfiguration::Tenant,
        ),
        (
            json!({"ssl_required": true}),
            json!({"ssl_required": false}),
            Misconfiguration::Tls,
        ),
    ] {
        let iam = running_mock.adapter();
        set(&running_mock, change).await;
        let outcome = iam.probe().await;
        assert!(
            matches!(outcome, Err(IamError::Misconfigured { what: seen, .. }) if seen == what),
            "{what:?}: {outcome:?}"
        );
        let shown = set(&running_mock, back).await;
        let whole = json!({
            "realm": "shop",
            "enabled": true,
            "direct_grants": true,
            "ssl_required": false,
            "other_clients": [],
            "lockout": null,
        });
        assert_eq!(shown, whole);
        assert_eq!(iam.probe().await, Ok(()));
    }
}

#[tokio::test]
async fn settings_of_the_realm_stay_when_a_snapshot_is_restored() {
    let running_mock = running_mock();
    let snapshot = snapshot(&running_mock, "default").await;
    let changed = json!({
        "enabled": false,
        "direct_grants": false,
        "ssl_required": true,
        "other_clients": [{"client_id": "other-gateway", "client_secret": "another secret"}],
        "lockout": {"failures": 3, "wait": "5m"},
    });
    let changed = set(&running_mock, changed).await;
    snapshot.restore().await;
    assert_eq!(set(&running_mock, json!({})).await, changed);
}

#[tokio::test]
async fn snapshot_locks_no_account_out_where_accounts_are_not() {
    let running_mock = running_mock();
    let lockout = json!({"lockout": {"failures": 1, "wait": "5m"}});
    set(&running_mock, lockout).await;
    let namespace = running_mock.namespace();
    create_alice(&namespace);
    let (iam, client) = (running_mock.adapter(), ClientContext::default());
    let wrong = Credentials::new(EMAIL.to_owned(), "wrong-pass".into()).expect("fair ones");
    let refused = iam.authenticate(&wrong, &client).await;
    refused.expect_err("a wrong password");
    let snapshot = snapshot(&running_mock, "default").await;
    set(&running_mock, json!({ "lockout": null })).await;
    snapshot.restore().await;
    let begun = iam.authenticate(&credentials(), &client).await;
    begun.expect("a login");
}

#[tokio::test]
async fn another_client_of_the_realm_cannot_introspect_a_session_of_the_gateway() {
    let running_mock = running_mock();
    let namespace = running_mock.namespace();
    create_alice(&namespace);
    let other = json!({"client_id": "other-gateway", "client_secret": "another secret"});
    let shown = set(&running_mock, json!({"other_clients": [other]})).await;
    assert_eq!(shown["other_clients"], json!(["other-gateway"]));
    let client = ClientContext::default();
    let ours = running_mock.adapter();
    let begun = ours.authenticate(&credentials(), &client).await;
    let session = begun.expect("a login").session;
    let theirs = adapter(&KeycloakSettings {
        client: client_auth("other-gateway", "another secret"),
        ..running_mock.settings()
    });
    theirs.probe().await.expect("a valid client");
    let foreign = Misconfiguration::ForeignClient;
    let outcome = theirs.introspect(&session).await;
    assert!(
        matches!(outcome, Err(IamError::Misconfigured { what, .. }) if what == foreign),
        "{outcome:?}"
    );
    let active = ours.introspect(&session).await;
    assert!(
        matches!(active, Ok(Introspection::Active { .. })),
        "{active:?}"
    );
}

#[tokio::test]
async fn calls_about_access_tokens_are_not_found_without_a_gateway() {
    let running_mock = running_mock();
    let namespace = running_mock.namespace();
    create_alice(&namespace);
    for (path, body) in [
        ("tokens", json!({})),
        ("tokens/inspect", json!({"token": "a.b.c"})),
        ("scopes/explain", json!({"user": EMAIL, "scope": "a"})),
    ] {
        let url = format!("{}/mock/v1/{path}", running_mock.url);
        let answer = http_client().post(url).json(&body).send().await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), 404, "{path}");
    }
}
