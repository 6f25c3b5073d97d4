//! The discovery documents: the keys, the metadata, and the description of the API.

use actix_web::http::header;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;
use url::Url;

use super::app_state::AppState;
use super::caching;

/// `GET /.well-known/jwks.json` (RFC 7517 section 5).
pub(super) async fn keys(app_state: Data<AppState>, request: HttpRequest) -> HttpResponse {
    let gateway = &app_state.gateway;
    let keys = &gateway.replica.keys;
    let published = keys.published(gateway.replica.clock.now());
    document(
        &app_state,
        &request,
        "application/jwk-set+json",
        &published.to_string(),
    )
}

/// `GET /.well-known/oauth-authorization-server` (RFC 8414), and `/.well-known/openid-configuration`. The
/// gateway issues no ID tokens, so the document has no member that is only of OpenID Connect. The member
/// `protected_resources` (RFC 9728 section 4) has the audiences.
pub(super) async fn metadata(app_state: Data<AppState>, request: HttpRequest) -> HttpResponse {
    let token = &app_state.gateway.policy.token;
    let issuer = &token.issuer;
    // RFC 9728 section 1.2: a resource identifier is an address.
    let mut resources = token.all_audiences();
    resources.retain(|audience| Url::parse(audience).is_ok_and(|url| url.has_host()));
    let metadata = json!({
        "issuer": issuer,
        "token_endpoint": format!("{issuer}/api/v1/auth/token"),
        "jwks_uri": jwks_uri(issuer),
        "response_types_supported": [],
        "grant_types_supported": ["session"],
        "token_endpoint_auth_methods_supported": ["none"],
        "protected_resources": resources,
    });
    document(
        &app_state,
        &request,
        "application/json",
        &metadata.to_string(),
    )
}

/// Where the public keys of this issuer are.
pub(super) fn jwks_uri(issuer: &str) -> String {
    format!("{issuer}/.well-known/jwks.json")
}

/// `GET /openapi.yaml`.
pub(super) async fn openapi(app_state: Data<AppState>, request: HttpRequest) -> HttpResponse {
    document(
        &app_state,
        &request,
        "application/yaml",
        include_str!("../../openapi.yaml"),
    )
}

fn document(
    app_state: &AppState,
    request: &HttpRequest,
    content_type: &'static str,
    body: &str,
) -> HttpResponse {
    let max_age = format!("public, max-age={}", app_state.jwks_max_age.as_secs());
    let headers = [(header::CACHE_CONTROL, max_age.as_str())];
    caching::document(request, content_type, body, &headers)
}
