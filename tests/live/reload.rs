//! Secrets that change while a gateway runs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use reqwest::Method;
use secrecy::ExposeSecret as _;
use serde_json::json;
use test_support::suite::{READ, session_of};
use test_support::wait::until;

use crate::admin_api::AdminApi;
use crate::administrator::PermissionsFrom;
use crate::another_realm::{another_realm, gateway_client};
use crate::fixture::LiveFixture;
use crate::process::Process;

#[tokio::test]
#[ignore = "needs a real Keycloak: tests/run starts one"]
async fn rotated_client_secret_is_used_without_a_restart() {
    let keycloak = another_realm(&json!({})).await;
    let fixture = LiveFixture::with_keycloak(&keycloak, PermissionsFrom::Realm).await;
    let user = fixture.user(&[READ]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("client-secret");
    fs::write(&file, keycloak.client_secret.expose_secret()).expect("written");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("permissions");
    let settings = keycloak.settings();
    let kept = settings
        .into_iter()
        .filter(|(key, _)| !key.ends_with("client_secret"));
    let kept = kept.filter(|(key, _)| !key.ends_with("permissions_client"));
    let path = [(
        "iam.keycloak.client_secret_file",
        file.to_str().expect("text"),
    )];
    let settings: Vec<_> = kept.chain(path).collect();
    let mut process = Process::start_and_probe(&settings).await;
    session_of(&process.client, &user).await;

    let api = AdminApi::new(keycloak.clone());
    let client = gateway_client(&api, &keycloak).await;
    let secret = json!({ "clientId": keycloak.client_id, "secret": "rotated-client-secret-0123" });
    api.done(Method::PUT, &["clients", &client], Some(secret))
        .await;
    let answer = process.client.log_in(&user.email, &user.password).await;
    answer.is_error(500, "server_error");

    fs::write(&file, "rotated-client-secret-0123").expect("written");
    process
        .program
        .logged("the files that the settings name were read again");
    until("a login with the new secret", async || {
        let answer = process.client.log_in(&user.email, &user.password).await;
        answer.status == 200
    })
    .await;
}
