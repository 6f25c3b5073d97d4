//! Refresh tokens: JWTs with a MAC of the realm (HS512), as Keycloak issues them.

use std::fmt;

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use iam_adapters::{Subject, UpstreamSession};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::response::OAuthError;
use crate::jws;

/// The claims of a refresh token.
#[derive(Serialize, Deserialize)]
pub(super) struct Claims {
    pub(super) exp: u64,
    pub(super) iat: u64,
    /// The secret of the session, and the only secret of the token.
    #[serde(serialize_with = "exposed")]
    jti: SecretString,
    pub(super) iss: String,
    pub(super) aud: String,
    pub(super) sub: String,
    typ: String,
    pub(super) azp: String,
    pub(super) sid: String,
    pub(super) scope: String,
    /// The audience of the access token.
    aud_x: Value,
    prov: String,
}

/// The default scopes of a realm.
const SCOPE: &str = "email basic acr roles profile web-origins";

impl Claims {
    /// The claims for a session of a client; times in seconds since 1970.
    pub(super) fn new(
        session: &UpstreamSession,
        issuer: &str,
        client: &str,
        (iat, exp): (u64, u64),
        access_audience: Value,
    ) -> Self {
        Self {
            exp,
            iat,
            jti: session.secret.clone(),
            iss: issuer.to_owned(),
            aud: issuer.to_owned(),
            sub: session.subject.as_str().to_owned(),
            typ: "Refresh".to_owned(),
            azp: client.to_owned(),
            sid: session.id.clone(),
            scope: SCOPE.to_owned(),
            aud_x: access_audience,
            prov: "default".to_owned(),
        }
    }

    /// The id of the token (`jti`). It is a secret, as the token is.
    pub(super) fn id(&self) -> &str {
        self.jti.expose_secret()
    }

    /// Fails unless the token was issued to this client.
    pub(super) fn check_client(&self, client: &str) -> Result<(), OAuthError> {
        let ours = self.azp == client;
        ours.then_some(()).ok_or(OAuthError::OTHER_CLIENT)
    }

    /// The session of the directory.
    pub(super) fn session(&self) -> Option<UpstreamSession> {
        Some(UpstreamSession {
            subject: Subject::new(self.sub.as_str())?,
            id: self.sid.clone(),
            secret: self.jti.clone(),
        })
    }
}

fn exposed<S: Serializer>(secret: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

/// A key of refresh tokens. It is never stored.
pub(super) struct RefreshKey(hmac::Key);

impl RefreshKey {
    /// Generates a key.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub(super) fn generate() -> Result<Self, Unspecified> {
        hmac::Key::generate(hmac::HMAC_SHA512, &SystemRandom::new()).map(Self)
    }

    /// The key of a realm, derived from this one.
    pub(super) fn of_realm(&self, name: &str) -> Self {
        let key = hmac::sign(&self.0, name.as_bytes());
        Self(hmac::Key::new(hmac::HMAC_SHA512, key.as_ref()))
    }

    /// Signs a token.
    pub(super) fn sign(&self, claims: &Claims) -> Option<String> {
        let header = json!({"alg": "HS512", "typ": "JWT", "kid": "realm"}).to_string();
        let claims = Zeroizing::new(serde_json::to_string(claims).ok()?);
        jws::compact(header, claims.as_bytes(), |input| {
            Some(hmac::sign(&self.0, input).as_ref().to_vec())
        })
    }

    /// The claims of a token, if this realm signed it.
    pub(super) fn verify(&self, token: &str) -> Option<Claims> {
        let (signed, tag) = token.rsplit_once('.')?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        hmac::verify(&self.0, signed.as_bytes(), &tag).ok()?;
        let (_, claims) = signed.split_once('.')?;
        let claims = Zeroizing::new(URL_SAFE_NO_PAD.decode(claims).ok()?);
        serde_json::from_slice(&claims).ok()
    }
}

impl fmt::Debug for RefreshKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefreshKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refresh_token_is_valid_at_its_own_realm_and_only_unaltered() {
        let server = RefreshKey::generate().expect("a key");
        let (key, other) = (server.of_realm("shop"), server.of_realm("other"));
        let session = UpstreamSession {
            subject: Subject::new("subject").expect("not empty"),
            id: "sid".to_owned(),
            secret: "secret".into(),
        };
        let claims = Claims::new(
            &session,
            "http://iam.test/realms/shop",
            "client",
            (1, 2),
            json!("account"),
        );
        let token = key.sign(&claims).expect("a token");
        let read = key.verify(&token).expect("its own");
        assert_eq!(
            (read.sub.as_str(), read.azp.as_str()),
            ("subject", "client")
        );
        assert_eq!(read.session().expect("a session").id, "sid");
        assert!(other.verify(&token).is_none(), "of another realm");
        for at in 0..token.len() - 1 {
            let mut altered = token.as_bytes().to_vec();
            altered[at] = if altered[at] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(altered).expect("text");
            assert!(key.verify(&altered).is_none(), "{at}");
        }
    }
}
