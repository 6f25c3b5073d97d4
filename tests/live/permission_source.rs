//! Permissions from another source than the IAM, which receives the groups of a user of Keycloak.

use iam_adapters::Subject;
use reqwest::Method;
use serde_json::json;
use test_support::suite::{BROWSE, READ, session_of};

use crate::administrator::PermissionsFrom;
use crate::another_realm::{another_realm, gateway_client};
use crate::fixture::{LiveFixture, PERMISSIONS_ALONE};

mod policy_server;

/// A new realm with the claim `groups` in introspections.
async fn realm_with_groups() -> LiveFixture {
    let keycloak = another_realm(&json!({})).await;
    let live = LiveFixture::with_keycloak(&keycloak, PermissionsFrom::Realm).await;
    let api = &live.administrator.api;
    let client = gateway_client(api, &keycloak).await;
    let mapper = json!({
        "name": "groups",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-group-membership-mapper",
        "config": {
            "claim.name": "groups",
            "full.path": "true",
            "introspection.token.claim": "true",
        },
    });
    let path = ["clients", &client, "protocol-mappers", "models"];
    api.done(Method::POST, &path, Some(mapper)).await;
    live
}

/// A new group; returns its id.
async fn group(live: &LiveFixture, name: &str) -> String {
    let body = Some(json!({ "name": name }));
    let api = &live.administrator.api;
    let made = api.done(Method::POST, &["groups"], body).await;
    made.id.expect("an id")
}

/// Makes a user a member of a group, or removes the user from it.
async fn change_member(live: &LiveFixture, method: Method, user: &Subject, group: &str) {
    let membership = ["users", user.as_str(), "groups", group];
    let api = &live.administrator.api;
    api.done(method, &membership, None).await;
}

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn table_of_groups_gives_its_scopes_to_the_current_members() {
    let live = realm_with_groups().await;
    let table = json!([
        {"group": "/readers", "scopes": [READ]},
        {"group": "/others", "scopes": [BROWSE]},
    ]);
    let file = json!({"permissions": {"source": "groups", "groups": table}});
    let gateway = live.gateway_with_file(&file, &[PERMISSIONS_ALONE]);
    let user = live.user(&[]).await;
    let readers = group(&live, "readers").await;
    let session = session_of(&gateway, &user).await;
    let requested = format!("{READ} {BROWSE}");
    let granted = async || gateway.exchange(&session, &requested).await.token().scope;
    assert_eq!(granted().await, "");
    change_member(&live, Method::PUT, &user.subject, &readers).await;
    live.outlive_freshness();
    assert_eq!(granted().await, READ);
    change_member(&live, Method::DELETE, &user.subject, &readers).await;
    live.outlive_freshness();
    assert_eq!(granted().await, "");
}
