//! New realms in the shared Keycloak, each for one test.

use reqwest::Method;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use test_support::json::with;
use test_support::suite::unique_name;

use crate::admin_api::AdminApi;
use crate::keycloak::Keycloak;

/// A new realm, with a client of the same name and secret as in the shared one.
pub(crate) async fn another_realm(more: &Value) -> Keycloak {
    let shared = Keycloak::shared();
    let name = format!("Outlet {}", unique_name());
    let realm = json!({
        "realm": name,
        "enabled": true,
        // The clients of these tests use plain http from any address.
        "sslRequired": "none",
        "clients": [{
            "clientId": shared.client_id,
            "secret": shared.client_secret.expose_secret(),
            "publicClient": false,
            "standardFlowEnabled": false,
            "directAccessGrantsEnabled": true,
        }],
    });
    let realm = Some(with(realm, more));
    let server = AdminApi::new(shared.clone());
    let made = server.call_server(Method::POST, &[], realm).await;
    assert_eq!(made.status, 201, "{}", made.body);
    Keycloak {
        realm: name,
        ..shared
    }
}

/// The id of the gateway's client in this realm.
pub(crate) async fn gateway_client(api: &AdminApi, keycloak: &Keycloak) -> String {
    let clients = api.get(&["clients"]).await;
    let mut clients = clients.as_array().expect("clients").iter();
    let ours = clients.find(|client| client["clientId"] == *keycloak.client_id);
    let id = ours.expect("our client")["id"].as_str();
    id.expect("an id").to_owned()
}

/// From now on the realm sends a logout token to this address for every session of the gateway's
/// client that ends.
pub(crate) async fn send_logout_tokens(api: &AdminApi, keycloak: &Keycloak, url: &str) {
    let id = gateway_client(api, keycloak).await;
    let attributes = json!({
        "clientId": keycloak.client_id,
        "frontchannelLogout": false,
        "attributes": {
            "backchannel.logout.url": url,
            "backchannel.logout.session.required": "true",
        },
    });
    api.done(Method::PUT, &["clients", &id], Some(attributes))
        .await;
}
