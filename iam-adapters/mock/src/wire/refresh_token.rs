//! Refresh tokens: JWTs that nobody but the realm can verify, and anybody can read.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use iam_adapters::{Subject, UpstreamSession};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;
use zeroize::Zeroizing;

use crate::jws;

/// What a refresh token says.
#[derive(Serialize, Deserialize)]
pub(super) struct Claims {
    pub(super) exp: u64,
    pub(super) iat: u64,
    /// What proves the session to the directory: the only secret in here, and the token's own.
    #[serde(serialize_with = "exposed")]
    jti: SecretString,
    pub(super) iss: String,
    pub(super) aud: String,
    pub(super) sub: String,
    typ: String,
    pub(super) azp: String,
    pub(super) sid: String,
    scope: String,
}

/// What a realm grants beside what the user may do.
const SCOPE: &str = "email basic acr roles profile web-origins";

impl Claims {
    /// For a session of a client, from and to these seconds since 1970.
    pub(super) fn of(
        session: &UpstreamSession,
        issuer: &str,
        client: &str,
        (iat, exp): (u64, u64),
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
        }
    }

    /// The session, as the directory knows it.
    pub(super) fn session(&self) -> Option<UpstreamSession> {
        Some(UpstreamSession {
            subject: Subject::new(self.sub.as_str())?,
            id: self.sid.clone(),
            secret: self.jti.clone(),
        })
    }
}

/// The token is where the secret belongs.
fn exposed<S: Serializer>(secret: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

/// The realm's own key for them, made at the start and forgotten at the end.
pub(super) struct RefreshKey(hmac::Key);

impl RefreshKey {
    /// None where the machine has no randomness.
    pub(super) fn generate() -> Option<Self> {
        let mut key = Zeroizing::new([0; 64]);
        aws_lc_rs::rand::fill(&mut *key).ok()?;
        Some(Self(hmac::Key::new(hmac::HMAC_SHA512, &*key)))
    }

    /// The token that says this.
    pub(super) fn sign(&self, claims: &Claims) -> Option<String> {
        let header = json!({"alg": "HS512", "typ": "JWT", "kid": "realm"}).to_string();
        let claims = Zeroizing::new(serde_json::to_string(claims).ok()?);
        jws::compact(header, claims.as_bytes(), |input| {
            Some(hmac::sign(&self.0, input).as_ref().to_vec())
        })
    }

    /// What a token says, where it is one of this realm.
    pub(super) fn verify(&self, token: &str) -> Option<Claims> {
        let (signed, tag) = token.rsplit_once('.')?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        hmac::verify(&self.0, signed.as_bytes(), &tag).ok()?;
        let (_, claims) = signed.split_once('.')?;
        let claims = Zeroizing::new(URL_SAFE_NO_PAD.decode(claims).ok()?);
        serde_json::from_slice(&claims).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_at_the_realm_that_made_it_and_unaltered() {
        let (key, other) = (RefreshKey::generate(), RefreshKey::generate());
        let (key, other) = (key.expect("a key"), other.expect("a key"));
        let session = UpstreamSession {
            subject: Subject::new("subject").expect("not empty"),
            id: "sid".to_owned(),
            secret: "secret".into(),
        };
        let claims = Claims::of(&session, "http://iam.test/realms/shop", "client", (1, 2));
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
