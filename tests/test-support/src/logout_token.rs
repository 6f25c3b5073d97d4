//! Logout tokens of the scripted Keycloak.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use mock_iam::{LogoutSigner, logout_claims};
use serde_json::{Value, json};

use crate::scripted_upstream::keycloak::CLIENT;

/// The key that the scripted Keycloak publishes.
pub(crate) static SIGNER: LazyLock<LogoutSigner> =
    LazyLock::new(|| LogoutSigner::generate().expect("random numbers"));

/// The issuer of the Keycloak at this address.
pub fn issuer(url: &str) -> String {
    format!("{url}/realms/shop")
}

/// A token of the IAM at this address with these claims and this `jti`.
pub fn logout_token(url: &str, id: &str, who: &Value) -> String {
    signed("logout+jwt", &claims(url, id, who))
}

/// The claims of [`logout_token`].
pub fn claims(url: &str, id: &str, who: &Value) -> Value {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time after 1970")
        .as_secs();
    let claims = logout_claims((&issuer(url), CLIENT), None, None, now);
    let mut claims = claims.expect("random numbers");
    claims.insert("jti".to_owned(), json!(id));
    claims.extend(who.as_object().expect("claims").clone());
    claims.into()
}

/// A compact JWS, signed with the realm's key.
pub fn signed(typ: &str, claims: &Value) -> String {
    let header = json!({"alg": "ES256", "kid": SIGNER.key_id(), "typ": typ});
    let token = SIGNER.sign(&header.to_string(), &claims.to_string());
    token.expect("a signature")
}
