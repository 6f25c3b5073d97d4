//! Roles that an administrator assigns and removes, in every way of Keycloak.

use iam_conformance::Account;
use reqwest::Method;
use serde_json::json;
use test_support::client::Session;
use test_support::gateway::TestGateway;
use test_support::suite::{BROWSE, READ, WRITE, session_of, unique_name};

use crate::fixture::{LiveFixture, PERMISSIONS_ALONE};

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn changed_role_takes_effect_when_the_freshness_ends() {
    let (fixture, user) = scene_with_user(&[READ]).await;
    let gateway = fixture.gateway(&[PERMISSIONS_ALONE]);
    let session = session_of(&gateway, &user).await;
    assert_eq!(granted(&gateway, &session).await, READ);
    let administrator = &fixture.administrator;
    administrator
        .map(Method::POST, &user.subject, &[WRITE])
        .await;
    assert_eq!(granted(&gateway, &session).await, READ);
    fixture.outlive_freshness();
    assert_eq!(granted(&gateway, &session).await, format!("{READ} {WRITE}"));
    administrator
        .map(Method::DELETE, &user.subject, &[READ])
        .await;
    assert_eq!(granted(&gateway, &session).await, format!("{READ} {WRITE}"));
    fixture.outlive_freshness();
    assert_eq!(granted(&gateway, &session).await, WRITE);
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn composite_role_grants_its_roles_and_not_its_own_name() {
    let (fixture, user) = scene_with_user(&[]).await;
    let gateway = fixture.gateway(&[PERMISSIONS_ALONE]);
    let session = session_of(&gateway, &user).await;
    let (api, bundle) = (
        &fixture.administrator.api,
        format!("bundle-{}", unique_name()),
    );
    let made = Some(json!({ "name": bundle }));
    api.done(Method::POST, &["roles"], made).await;
    let held = json!([fixture.administrator.role(READ).await]);
    let holds = ["roles", &bundle, "composites"];
    api.done(Method::POST, &holds, Some(held.clone())).await;
    let role = api.get(&["roles", &bundle]).await;
    let roles_of_user = ["users", user.subject.as_str(), "role-mappings", "realm"];
    let role = Some(json!([role]));
    api.done(Method::POST, &roles_of_user, role.clone()).await;
    fixture.outlive_freshness();
    assert_eq!(granted(&gateway, &session).await, READ);
    let requested = format!("{bundle} {READ}");
    let token = gateway.exchange(&session, &requested).await.token();
    assert_eq!(token.scope, READ);

    let added = json!([fixture.administrator.role(BROWSE).await]);
    api.done(Method::POST, &holds, Some(added)).await;
    fixture.outlive_freshness();
    assert_eq!(
        granted(&gateway, &session).await,
        format!("{READ} {BROWSE}")
    );
    api.done(Method::DELETE, &holds, Some(held)).await;
    fixture.outlive_freshness();
    assert_eq!(granted(&gateway, &session).await, BROWSE);
    api.done(Method::DELETE, &roles_of_user, role).await;
    fixture.outlive_freshness();
    assert_eq!(granted(&gateway, &session).await, "");
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn group_grants_its_roles_to_its_current_members() {
    let (fixture, user) = scene_with_user(&[BROWSE]).await;
    let gateway = fixture.gateway(&[PERMISSIONS_ALONE]);
    let session = session_of(&gateway, &user).await;
    let (api, name) = (
        &fixture.administrator.api,
        format!("group-{}", unique_name()),
    );
    let made = Some(json!({ "name": name }));
    let group = api.done(Method::POST, &["groups"], made).await;
    let group = group.id.expect("an id");
    let membership = ["users", user.subject.as_str(), "groups", &group];
    api.done(Method::PUT, &membership, None).await;
    let role = fixture.administrator.role(READ).await;
    let client = role["containerId"].as_str().expect("the client's id");
    let holds = ["groups", &group, "role-mappings", "clients", client];
    let role = Some(json!([role]));
    api.done(Method::POST, &holds, role.clone()).await;
    fixture.outlive_freshness();
    assert_eq!(
        granted(&gateway, &session).await,
        format!("{READ} {BROWSE}")
    );
    api.done(Method::DELETE, &membership, None).await;
    fixture.outlive_freshness();
    assert_eq!(granted(&gateway, &session).await, BROWSE);
    api.done(Method::PUT, &membership, None).await;
    api.done(Method::DELETE, &holds, role).await;
    fixture.outlive_freshness();
    assert_eq!(granted(&gateway, &session).await, BROWSE);
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn default_roles_of_keycloak_are_no_permissions() {
    let (fixture, user) = scene_with_user(&[READ]).await;
    let gateway = fixture.gateway(&[PERMISSIONS_ALONE]);
    let session = session_of(&gateway, &user).await;
    let requested = format!(
        "offline_access uma_authorization default-roles-{} view-profile manage-account {READ}",
        fixture.keycloak.realm
    );
    let token = gateway.exchange(&session, &requested).await.token();
    assert_eq!(token.scope, READ);
}

async fn scene_with_user(permissions: &[&str]) -> (LiveFixture, Account) {
    let fixture = LiveFixture::new().await;
    let user = fixture.user(permissions).await;
    (fixture, user)
}

async fn granted(gateway: &TestGateway, session: &Session) -> String {
    let requested = [READ, WRITE, BROWSE].join(" ");
    gateway.exchange(session, &requested).await.token().scope
}
