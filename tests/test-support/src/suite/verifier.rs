//! A verifier of access tokens that knows only the issuer of the gateway.

use std::collections::HashMap;
use std::net::SocketAddr;

use josekit::jwk::{Jwk, JwkSet};
use josekit::jws::{ES256, EdDSA, JwsVerifier, RS256};
use josekit::jwt;
use serde_json::{Value, json};

use crate::client::http_client_builder;
use crate::endpoints::METADATA;
use crate::gateway::{PUBLIC_URL, TestGateway};

/// The gateway's public keys by their ids.
pub struct Verifier(HashMap<String, Box<dyn JwsVerifier>>);

impl Verifier {
    /// Reads the issuer's metadata, then its keys (RFC 8414).
    pub async fn discover(gateway: &TestGateway) -> Self {
        let http = resolving(gateway.addresses().public);
        let metadata = fetch(&http, &format!("{PUBLIC_URL}{METADATA}")).await;
        assert_eq!(metadata["issuer"], json!(PUBLIC_URL));
        let keys = metadata["jwks_uri"].as_str().expect("an address");
        let keys = fetch(&http, keys).await.to_string();
        let keys = JwkSet::from_bytes(keys).expect("a JWK set");
        Self(keys.keys().into_iter().map(verifier).collect())
    }

    /// The claims of a valid access token.
    #[track_caller]
    pub fn claims(&self, token: &str) -> Value {
        self.try_claims(token).expect("a token of the gateway")
    }

    /// The claims of a token if it is a valid access token of the gateway (RFC 9068 section 4).
    ///
    /// # Errors
    ///
    /// Why the token is not valid.
    pub fn try_claims(&self, token: &str) -> Result<Value, String> {
        let signed = jwt::decode_with_verifier_selector(token, |header| {
            let known = header.key_id().and_then(|kid| self.0.get(kid));
            Ok(known.map(Box::as_ref))
        });
        let (claims, header) = signed.map_err(|error| error.to_string())?;
        if header.token_type() != Some("at+jwt") {
            return Err(format!("typ is {:?}", header.token_type()));
        }
        if claims.issuer() != Some(PUBLIC_URL) {
            return Err(format!("iss is {:?}", claims.issuer()));
        }
        Ok(Value::Object(claims.claims_set().clone()))
    }
}

/// A client that resolves the issuer's host to the gateway's address.
fn resolving(gateway: SocketAddr) -> reqwest::Client {
    let host = PUBLIC_URL.trim_start_matches("http://");
    http_client_builder()
        .resolve(host, gateway)
        .build()
        .expect("an HTTP client")
}

async fn fetch(http: &reqwest::Client, url: &str) -> Value {
    let answer = http.get(url).send().await.expect("an answer");
    answer.json().await.expect("a JSON body")
}

fn verifier(key: &Jwk) -> (String, Box<dyn JwsVerifier>) {
    let kid = key.key_id().expect("a key with an id").to_owned();
    let verifier: Box<dyn JwsVerifier> = match key.algorithm() {
        Some("ES256") => Box::new(ES256.verifier_from_jwk(key).expect("an ES256 key")),
        Some("EdDSA") => Box::new(EdDSA.verifier_from_jwk(key).expect("an EdDSA key")),
        Some("RS256") => Box::new(RS256.verifier_from_jwk(key).expect("an RS256 key")),
        other => panic!("a key for {other:?}"),
    };
    (kid, verifier)
}
