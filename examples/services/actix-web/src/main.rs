//! A service with actix-web and jsonwebtoken. ISSUER is the URL of the gateway, AUDIENCE this service in the claim `aud`.

use std::env;
use std::error::Error;
use std::time::{Duration, Instant};

use actix_web::error::ErrorServiceUnavailable;
use actix_web::web::{Data, Json, get, resource};
use actix_web::{App, HttpServer};
use actix_web_httpauth::extractors::AuthenticationError;
use actix_web_httpauth::extractors::bearer::{BearerAuth, Config, Error as BearerError};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::RwLock;

/// The keys are read for an unknown key id at most once in this time.
const COOLDOWN: Duration = Duration::from_secs(30);

type Claims = Map<String, Value>;

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let gateway = Data::new(Gateway::discover(env::var("ISSUER")?, env::var("AUDIENCE")?).await?);
    let port = env::var("PORT").map_or(Ok(8080), |port| port.parse())?;
    let app = move || {
        App::new()
            .app_data(gateway.clone())
            .service(resource("/orders").route(get().to(orders)))
    };
    HttpServer::new(app)
        .bind(("127.0.0.1", port))?
        .run()
        .await?;
    Ok(())
}

async fn orders(gateway: Data<Gateway>, token: BearerAuth) -> actix_web::Result<Json<Claims>> {
    let claims = gateway
        .verify(token.token(), "urn:shop:orders:order:read")
        .await?;
    Ok(Json(claims))
}

struct Gateway {
    metadata: Metadata,
    audience: String,
    http: reqwest::Client,
    /// At most `keys.jwks_max_age` of the gateway.
    keys_max_age: Duration,
    keys: RwLock<(Instant, JwkSet)>,
}

impl Gateway {
    async fn discover(issuer: String, audience: String) -> Result<Self, Box<dyn Error>> {
        let http = reqwest::Client::builder()
            .timeout(Duration::from_secs(10))
            .build()?;
        let url = format!("{issuer}/.well-known/oauth-authorization-server");
        let metadata: Metadata = http
            .get(url)
            .send()
            .await?
            .error_for_status()?
            .json()
            .await?;
        if metadata.issuer != issuer {
            return Err(format!("the issuer of {issuer} is {}", metadata.issuer).into());
        }
        let keys = fetch(&http, &metadata.jwks_uri).await?;
        let seconds = env::var("KEYS_MAX_AGE").map_or(Ok(300), |seconds| seconds.parse())?;
        Ok(Self {
            metadata,
            audience,
            http,
            keys_max_age: Duration::from_secs(seconds),
            keys: RwLock::new((Instant::now(), keys)),
        })
    }

    async fn verify(&self, token: &str, scope: &str) -> actix_web::Result<Claims> {
        let refuse = |error| AuthenticationError::from(Config::default()).with_error(error);
        let header = decode_header(token).map_err(|_| refuse(BearerError::InvalidToken))?;
        let key = self
            .key(header.kid.as_deref())
            .await
            .map_err(ErrorServiceUnavailable)?;
        let claims = key
            .filter(|_| header.typ.as_deref() == Some("at+jwt"))
            .and_then(|key| self.claims(token, &key).ok())
            .ok_or_else(|| refuse(BearerError::InvalidToken))?;
        let granted = claims
            .get("scope")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !granted.split(' ').any(|name| name == scope) {
            return Err(refuse(BearerError::InsufficientScope).into());
        }
        Ok(claims)
    }

    fn claims(&self, token: &str, key: &Jwk) -> jsonwebtoken::errors::Result<Claims> {
        let algorithm = key
            .common
            .key_algorithm
            .ok_or(ErrorKind::MissingAlgorithm)?;
        let mut validation = Validation::new(algorithm.try_into()?);
        validation.set_issuer(&[&self.metadata.issuer]);
        validation.set_audience(&[&self.audience]);
        // By default, jsonwebtoken accepts a token without these claims, and one that is not valid yet.
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.validate_nbf = true;
        Ok(decode(token, &DecodingKey::from_jwk(key)?, &validation)?.claims)
    }

    /// The published key with this id.
    async fn key(&self, kid: Option<&str>) -> reqwest::Result<Option<Jwk>> {
        let Some(kid) = kid else { return Ok(None) };
        {
            let cached = self.keys.read().await;
            if let Some(key) = cached.1.find(kid)
                && cached.0.elapsed() < self.keys_max_age
            {
                return Ok(Some(key.clone()));
            }
        }
        // One request fetches the keys, and the others wait for it.
        let mut cached = self.keys.write().await;
        let age = cached.0.elapsed();
        if age >= self.keys_max_age || (age >= COOLDOWN && cached.1.find(kid).is_none()) {
            *cached = (
                Instant::now(),
                fetch(&self.http, &self.metadata.jwks_uri).await?,
            );
        }
        Ok(cached.1.find(kid).cloned())
    }
}

async fn fetch(http: &reqwest::Client, url: &str) -> reqwest::Result<JwkSet> {
    http.get(url).send().await?.error_for_status()?.json().await
}
