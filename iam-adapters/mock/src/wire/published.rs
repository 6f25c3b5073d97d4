//! The public documents of a realm: its discovery document and its key set.

use actix_web::HttpResponse;
use iam_adapters::resilient::Operation;
use serde_json::{Value, json};

use super::request::RealmRequest;
use super::response::{OAuthError, RealmResponse};

/// `GET …/.well-known/openid-configuration` (OpenID Connect Discovery 1.0).
pub(super) async fn discovery(request: RealmRequest) -> HttpResponse {
    publish(&request, Operation::Probe, || {
        Some(configuration(&request.issuer))
    })
    .await
}

/// `GET …/protocol/openid-connect/certs` (RFC 7517 section 5).
pub(super) async fn keys(request: RealmRequest) -> HttpResponse {
    publish(&request, Operation::Keys, || {
        request.realm.server.keys.key_set()
    })
    .await
}

async fn publish(
    request: &RealmRequest,
    operation: Operation,
    document: impl Fn() -> Option<Value>,
) -> HttpResponse {
    let handler = async || {
        let document = request
            .check_tls()
            .and_then(|()| document().ok_or(OAuthError::failed()));
        document.map_or_else(RealmResponse::from, RealmResponse::json)
    };
    request
        .respond(request.begin_call(operation), handler)
        .await
}

/// The members of Keycloak's document that the mock supports.
fn configuration(issuer: &str) -> Value {
    let at = |path: &str| format!("{issuer}/protocol/openid-connect/{path}");
    json!({
        "issuer": issuer,
        "token_endpoint": at("token"),
        "introspection_endpoint": at("token/introspect"),
        "end_session_endpoint": at("logout"),
        "jwks_uri": at("certs"),
        "grant_types_supported": ["password", "refresh_token"],
        "response_types_supported": [],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "introspection_endpoint_auth_methods_supported":
            ["client_secret_basic", "client_secret_post"],
        "backchannel_logout_supported": true,
        "backchannel_logout_session_supported": true,
    })
}
