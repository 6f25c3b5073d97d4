//! The public documents of a realm: its discovery document and its key set.

use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use iam_adapters::resilient::Operation;
use serde_json::{Value, json};

use super::realm::Realms;
use super::request::RealmRequest;
use super::response::{OAuthError, RealmResponse};
use super::unknown_realm;

/// `GET …/.well-known/openid-configuration` (OpenID Connect Discovery 1.0).
pub(super) async fn discovery(
    realms: Data<Realms>,
    name: Path<String>,
    request: HttpRequest,
) -> HttpResponse {
    let document = |request: &RealmRequest<'_>| Some(configuration(&request.issuer));
    publish(&realms, &name, &request, Operation::Probe, document).await
}

/// `GET …/protocol/openid-connect/certs` (RFC 7517 section 5).
pub(super) async fn keys(
    realms: Data<Realms>,
    name: Path<String>,
    request: HttpRequest,
) -> HttpResponse {
    let document = |request: &RealmRequest<'_>| request.realms.keys.key_set();
    publish(&realms, &name, &request, Operation::Keys, document).await
}

async fn publish(
    realms: &Realms,
    name: &str,
    request: &HttpRequest,
    operation: Operation,
    document: impl Fn(&RealmRequest<'_>) -> Option<Value>,
) -> HttpResponse {
    let Some(realm) = realms.find(name) else {
        return unknown_realm();
    };
    let request = RealmRequest::new(realms, &realm, request, &[]);
    let handler = async || {
        let document = request
            .check_tls()
            .and_then(|()| document(&request).ok_or(OAuthError::failed()));
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
