//! The discovery documents: the keys, the metadata, and the description of the API.

use actix_web::http::header;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;

use super::{Front, entity_tag};

/// `GET /.well-known/jwks.json` (RFC 7517 section 5).
pub(super) async fn keys(front: Data<Front>, request: HttpRequest) -> HttpResponse {
    let gateway = &front.gateway;
    let lifetime = gateway.policy().token.lifetime;
    let keys = gateway.keys();
    let published = keys.published(lifetime, front.jwks_max_age, gateway.now());
    document(
        &front,
        &request,
        "application/jwk-set+json",
        &published.to_string(),
    )
}

/// `GET /.well-known/oauth-authorization-server` (RFC 8414).
pub(super) async fn metadata(front: Data<Front>, request: HttpRequest) -> HttpResponse {
    let issuer = &front.gateway.policy().token.issuer;
    let metadata = json!({
        "issuer": issuer,
        "token_endpoint": format!("{issuer}/api/v1/auth/token"),
        "jwks_uri": format!("{issuer}/.well-known/jwks.json"),
        "response_types_supported": [],
        "grant_types_supported": ["session"],
        "token_endpoint_auth_methods_supported": ["none"],
    });
    document(&front, &request, "application/json", &metadata.to_string())
}

/// `GET /openapi.yaml`.
pub(super) async fn openapi(front: Data<Front>, request: HttpRequest) -> HttpResponse {
    document(
        &front,
        &request,
        "application/yaml",
        include_str!("../../openapi.yaml"),
    )
}

fn document(
    front: &Front,
    request: &HttpRequest,
    content_type: &'static str,
    body: &str,
) -> HttpResponse {
    let max_age = format!("public, max-age={}", front.jwks_max_age.as_secs());
    let headers = [(header::CACHE_CONTROL, max_age.as_str())];
    entity_tag::response(request, content_type, body, &headers)
}
