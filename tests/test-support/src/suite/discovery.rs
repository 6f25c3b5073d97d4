//! Discovery for token verifiers.

use auth_gateway_core::keys::Algorithm;
use iam_adapters::name::Name as _;
use serde_json::json;

use super::verifier::Verifier;
use super::{IamFixture, READ, session_of};
use crate::endpoints::{JWKS, METADATA, OPENID_METADATA, TOKEN};
use crate::gateway::PUBLIC_URL;
use crate::keys::TestKeys;

pub async fn token_can_be_verified_from_discovery(fixture: &IamFixture) {
    let user = fixture.user(&[READ]).await;
    for algorithm in Algorithm::ALL {
        let gateway = fixture.replica(&TestKeys::with_algorithm(algorithm));
        let verifier = Verifier::discover(&gateway).await;
        let session = session_of(&gateway, &user).await;
        let token = gateway.exchange(&session, READ).await.token();
        let claims = verifier.claims(&token.access_token);
        assert_eq!(claims["scope"], json!(READ), "{}", algorithm.name());
    }
}

pub async fn metadata_lists_the_endpoints(fixture: &IamFixture) {
    let gateway = fixture.gateway();
    for path in [METADATA, OPENID_METADATA] {
        let answer = gateway.get(path, &[]).await;
        assert_eq!(
            answer.json(),
            json!({
                "issuer": PUBLIC_URL,
                "token_endpoint": format!("{PUBLIC_URL}{TOKEN}"),
                "jwks_uri": format!("{PUBLIC_URL}{JWKS}"),
                "response_types_supported": [],
                "grant_types_supported": ["session"],
                "token_endpoint_auth_methods_supported": ["none"],
                "protected_resources": [PUBLIC_URL],
            }),
            "{path}"
        );
    }
}

pub async fn published_documents_can_be_cached(fixture: &IamFixture) {
    let gateway = fixture.gateway_with(&[("keys.jwks_max_age", "5m")]);
    for path in [JWKS, METADATA, OPENID_METADATA, "/openapi.yaml"] {
        let answer = gateway.get(path, &[]).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("cache-control"), "public, max-age=300");
        let tag = answer.header("etag");
        for known in [tag, "*", &format!("\"other\", W/{tag}")] {
            let again = gateway.get(path, &[("if-none-match", known)]).await;
            assert_eq!(again.status, 304, "{path} {known}");
            assert!(again.body.is_empty());
            assert_eq!(again.header("etag"), tag);
        }
        let other = gateway.get(path, &[("if-none-match", "\"other\"")]).await;
        assert_eq!(other.text(), answer.text());
        let head = gateway.head(path).await;
        assert!(head.body.is_empty());
        assert_eq!(head.header("etag"), tag);
    }
}
