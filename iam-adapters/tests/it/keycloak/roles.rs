//! Roles and permissions.

use std::sync::Arc;

use iam_adapters::{IamAdapter, Introspection, Permissions};
use serde_json::json;
use test_support::log::capture_lines;
use test_support::scripted_upstream::keycloak::{INTROSPECTION, active};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};

use super::{adapter_with, permissions, session};

async fn permitted(keycloak: &Arc<dyn IamAdapter>) -> Permissions {
    match keycloak.introspect(&session()).await {
        Ok(Introspection::Active { permissions, .. }) => permissions,
        other => panic!("not active: {other:?}"),
    }
}

#[tokio::test]
async fn without_a_permissions_client_permissions_are_the_realm_roles_except_built_in_ones() {
    let upstream = ScriptedUpstream::keycloak().await;
    let mut answer = active();
    answer["realm_access"]["roles"] = json!([
        "default-roles-shop",
        "offline_access",
        "uma_authorization",
        "buyer",
        "default-roles-other",
    ]);
    upstream.on(INTROSPECTION, Answer::json(200, answer));
    let keycloak = adapter_with(&upstream.url(), &json!({"permissions_client": null}));
    assert_eq!(
        permitted(&keycloak).await,
        permissions(&["buyer", "default-roles-other"])
    );
}

#[tokio::test]
async fn roles_of_other_clients_are_no_permissions() {
    let upstream = ScriptedUpstream::keycloak().await;
    let keycloak = adapter_with(&upstream.url(), &json!({"permissions_client": "unknown"}));
    assert_eq!(permitted(&keycloak).await, Permissions::default());
}

#[tokio::test]
async fn session_of_a_user_without_roles_is_active_without_permissions() {
    let upstream = ScriptedUpstream::keycloak().await;
    let mut answer = active();
    let members = answer.as_object_mut().unwrap();
    members.remove("realm_access");
    members.remove("resource_access");
    upstream.on(INTROSPECTION, Answer::json(200, answer));
    for client in [json!(null), json!("shop-api")] {
        let keycloak = adapter_with(&upstream.url(), &json!({"permissions_client": client}));
        assert_eq!(permitted(&keycloak).await, Permissions::default());
    }
}

#[tokio::test]
async fn role_that_is_no_scope_name_is_dropped() {
    let upstream = ScriptedUpstream::keycloak().await;
    let mut answer = active();
    answer["resource_access"]["shop-api"]["roles"] = json!([
        "read",
        "two words",
        "qu\"ote",
        "",
        "ü",
        "line\nbreak",
        "read"
    ]);
    upstream.on(INTROSPECTION, Answer::json(200, answer));
    let keycloak = adapter_with(&upstream.url(), &json!({}));
    assert_eq!(permitted(&keycloak).await, permissions(&["read"]));
}

#[tokio::test]
async fn dropped_role_is_logged_once_escaped_and_truncated() {
    let upstream = ScriptedUpstream::keycloak().await;
    let mut answer = active();
    let overlong = "ü".repeat(1000);
    answer["resource_access"]["shop-api"]["roles"] = json!(["line\n\u{1b}[31m", overlong]);
    upstream.on(INTROSPECTION, Answer::json(200, answer));
    let keycloak = adapter_with(&upstream.url(), &json!({}));
    let (log, _guard) = capture_lines();
    for _ in 0..3 {
        permitted(&keycloak).await;
    }
    let log = log.text();
    let names = log
        .lines()
        .filter_map(|line| line.split("permission=").nth(1));
    let truncated = format!("\"{}\"", "ü".repeat(64));
    let logged: Vec<_> = names.collect();
    assert_eq!(logged, [r#""line\n\u{1b}[31m""#, &truncated], "{log}");
}
