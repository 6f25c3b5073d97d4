//! Logout tokens as the scripted Keycloak signs them.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};

use crate::scripted_upstream::keycloak::CLIENT;

/// The private half of the key that the scripted Keycloak publishes (RFC 8037 appendix A.1).
const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";

/// The realm of the Keycloak at this address.
pub fn issuer(url: &str) -> String {
    format!("{url}/realms/shop")
}

/// A token of the IAM at this address with these claims; `id` makes it another one.
pub fn logout_token(url: &str, id: &str, who: &Value) -> String {
    signed("logout+jwt", &claims(url, id, who))
}

/// What stands in it.
pub fn claims(url: &str, id: &str, who: &Value) -> Value {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time after 1970")
        .as_secs();
    let mut claims = json!({
        "iss": issuer(url),
        "aud": CLIENT,
        "iat": now,
        "exp": now + 120,
        "jti": id,
        "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
    });
    for (name, value) in who.as_object().expect("claims") {
        claims[name] = value.clone();
    }
    claims
}

/// A compact JWS by the realm's key.
pub fn signed(typ: &str, claims: &Value) -> String {
    let seed: Vec<u8> = (0..SEED.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&SEED[at..at + 2], 16).expect("a byte"))
        .collect();
    let key = Ed25519KeyPair::from_seed_unchecked(&seed).expect("a key");
    let header = json!({"alg": "EdDSA", "kid": "k", "typ": typ});
    let text = [header, claims.clone()]
        .map(|json| BASE64.encode(json.to_string()))
        .join(".");
    let signature = BASE64.encode(key.sign(text.as_bytes()));
    format!("{text}.{signature}")
}
