//! What anybody may know of a realm: its discovery document and its keys.

use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use iam_adapters::resilient::Operation;
use serde_json::{Value, json};

use super::realm::Realms;
use super::told::{No, Told};
use super::unknown_realm;
use super::visit::Visit;

/// `GET …/.well-known/openid-configuration` (OpenID Connect Discovery 1.0).
pub(super) async fn discovery(
    realms: Data<Realms>,
    name: Path<String>,
    request: HttpRequest,
) -> HttpResponse {
    let document = |visit: &Visit<'_>| Some(configuration(&visit.issuer));
    publish(&realms, &name, &request, Operation::Probe, document).await
}

/// `GET …/protocol/openid-connect/certs` (RFC 7517 section 5).
pub(super) async fn keys(
    realms: Data<Realms>,
    name: Path<String>,
    request: HttpRequest,
) -> HttpResponse {
    let document = |visit: &Visit<'_>| visit.realms.keys.published();
    publish(&realms, &name, &request, Operation::Keys, document).await
}

async fn publish(
    realms: &Realms,
    name: &str,
    request: &HttpRequest,
    operation: Operation,
    document: impl Fn(&Visit<'_>) -> Option<Value>,
) -> HttpResponse {
    let Some(realm) = realms.find(name) else {
        return unknown_realm();
    };
    let visit = Visit::of(realms, &realm, request, &[]);
    let truth = async || {
        let document = visit
            .check_tls()
            .and_then(|()| document(&visit).ok_or(No::failed()));
        document.map_or_else(Told::from, Told::json)
    };
    visit.answer(visit.asked(operation), truth).await
}

/// Of what a Keycloak lists, what is here as well.
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
