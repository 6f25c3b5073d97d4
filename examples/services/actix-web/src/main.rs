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
use tokio::sync::{Mutex, RwLock};

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
    /// Since when the keys are known.
    keys: RwLock<(Instant, JwkSet)>,
    /// The end of the last fetch, also of one that failed. Not in `keys`, whose readers do not wait for a fetch.
    fetched: Mutex<Instant>,
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
        let now = Instant::now();
        let seconds = env::var("KEYS_MAX_AGE").map_or(Ok(300), |seconds| seconds.parse())?;
        Ok(Self {
            metadata,
            audience,
            http,
            keys_max_age: Duration::from_secs(seconds),
            keys: RwLock::new((now, keys)),
            fetched: Mutex::new(now),
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

    /// The published key with this id. The error is that the keys cannot be read.
    async fn key(&self, kid: Option<&str>) -> Result<Option<Jwk>, &'static str> {
        let Some(kid) = kid else { return Ok(None) };
        let asked = Instant::now();
        let are_old = {
            let keys = self.keys.read().await;
            let are_old = keys.0.elapsed() >= self.keys_max_age;
            if let Some(key) = keys.1.find(kid)
                && !are_old
            {
                return Ok(Some(key.clone()));
            }
            are_old
        };
        // One request fetches the keys. The others without a key wait for it, and have its outcome.
        let mut fetched = self.fetched.lock().await;
        if *fetched < asked && (are_old || fetched.elapsed() >= COOLDOWN) {
            let result = fetch(&self.http, &self.metadata.jwks_uri).await;
            *fetched = Instant::now();
            if let Ok(keys) = result {
                *self.keys.write().await = (*fetched, keys);
            }
        }
        let keys = self.keys.read().await;
        if keys.0 < *fetched {
            return Err("the keys of the gateway cannot be read");
        }
        Ok(keys.1.find(kid).cloned())
    }
}

async fn fetch(http: &reqwest::Client, url: &str) -> reqwest::Result<JwkSet> {
    http.get(url).send().await?.error_for_status()?.json().await
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use actix_web::rt::{net::TcpListener, spawn};
    use serde_json::json;

    use super::*;

    /// It has one key, which it read before the cooldown. The gateway accepts connections and does not respond.
    async fn service() -> Result<(Data<Gateway>, TcpListener), Box<dyn Error>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let issuer = format!("http://{}", listener.local_addr()?);
        let key =
            json!({"kid": "known", "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "x": "AAAA"});
        let read = Instant::now() - COOLDOWN;
        let gateway = Data::new(Gateway {
            metadata: Metadata {
                jwks_uri: format!("{issuer}/keys"),
                issuer,
            },
            audience: "https://orders.example".to_owned(),
            http: reqwest::Client::builder().no_proxy().build()?,
            keys_max_age: COOLDOWN * 10,
            keys: RwLock::new((read, serde_json::from_value(json!({"keys": [key]}))?)),
            fetched: Mutex::new(read),
        });
        Ok((gateway, listener))
    }

    /// What it returns without waiting for anything.
    fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[actix_web::test]
    async fn a_known_key_does_not_wait_for_a_gateway_that_does_not_respond()
    -> Result<(), Box<dyn Error>> {
        let (gateway, listener) = service().await?;
        for _ in 0..5 {
            let gateway = gateway.clone();
            spawn(async move { gateway.key(Some("unknown")).await });
        }
        let _fetching = listener.accept().await?;
        let found = at_once(gateway.key(Some("known")));
        assert!(matches!(found, Some(Ok(Some(_)))), "{found:?}");
        Ok(())
    }

    #[actix_web::test]
    async fn a_failed_fetch_is_not_repeated_within_the_cooldown() -> Result<(), Box<dyn Error>> {
        let (gateway, listener) = service().await?;
        drop(listener);
        assert!(gateway.key(Some("unknown")).await.is_err());
        let again = at_once(gateway.key(Some("unknown")));
        assert!(matches!(again, Some(Err(_))), "{again:?}");
        Ok(())
    }
}
