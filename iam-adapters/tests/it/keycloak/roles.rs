//! Roles and permissions.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use iam_adapters::{IamAdapter, Introspection, Permissions};
use serde_json::json;
use test_support::scripted_upstream::keycloak::{INTROSPECTION, active};
use test_support::scripted_upstream::{Answer, ScriptedUpstream};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

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

/// Records the role names that are logged.
#[derive(Debug, Default, Clone)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "permission" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn dropped_role_is_logged_once_escaped_and_truncated() {
    let upstream = ScriptedUpstream::keycloak().await;
    let mut answer = active();
    let overlong = "ü".repeat(1000);
    answer["resource_access"]["shop-api"]["roles"] = json!(["line\n\u{1b}[31m", overlong]);
    upstream.on(INTROSPECTION, Answer::json(200, answer));
    let keycloak = adapter_with(&upstream.url(), &json!({}));
    let log = Log::default();
    let _guard = test_support::log::capture(log.clone());
    for _ in 0..3 {
        permitted(&keycloak).await;
    }
    let logged = log.0.lock().unwrap().clone();
    let truncated = format!("\"{}\"", "ü".repeat(64));
    assert_eq!(logged, ["\"line\\n\\u{1b}[31m\"".to_owned(), truncated]);
}
