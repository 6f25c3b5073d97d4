//! The tokens of a session, as the secret of an [`UpstreamSession`] carries them.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use crate::error::{IamError, Misconfiguration};
use crate::json;
use crate::oauth2_client::TokenKind;
use crate::types::{Subject, UpstreamSession};

/// A token, which is exposed only in the secret of a session.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Token(SecretString);

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.expose_secret().serialize(serializer)
    }
}

/// The tokens of a login. As JSON, they are the secret of the session.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UpstreamTokens {
    /// The client to which they were issued.
    pub(super) client_id: String,
    /// Which of them is introspected. Kept with the session, because the setting may change.
    #[serde(deserialize_with = "crate::choice::deserialize")]
    pub(super) introspected: TokenKind,
    pub(super) access_token: Token,
    pub(super) refresh_token: Option<Token>,
}

impl UpstreamTokens {
    /// The session of this subject.
    pub(super) fn seal(&self, subject: Subject) -> Result<UpstreamSession, IamError> {
        let secret = serde_json::to_string(self);
        let secret = secret.map_err(|_| IamError::Unreadable("token response".into()))?;
        Ok(UpstreamSession {
            subject,
            id: id_of(&secret),
            secret: secret.into(),
        })
    }

    /// The tokens of a session; its id must be that of its secret.
    pub(super) fn open(session: &UpstreamSession) -> Result<Self, IamError> {
        let secret = session.secret.expose_secret();
        if id_of(secret) == session.id
            && let Ok(tokens) = json::object(secret.as_bytes())
        {
            return Ok(tokens);
        }
        Err(IamError::Unreadable(
            "the session is not one of this adapter".into(),
        ))
    }

    /// The token that is introspected.
    pub(super) fn introspected(&self) -> Result<&str, IamError> {
        let token = match self.introspected {
            TokenKind::AccessToken => Some(&self.access_token),
            TokenKind::RefreshToken => self.refresh_token.as_ref(),
        };
        token.map(|Token(token)| token.expose_secret()).ok_or_else(|| {
            IamError::misconfigured(
                Misconfiguration::Other,
                "a login returns no refresh token: enable refresh tokens for the client, or set introspect",
            )
        })
    }

    /// All tokens, the refresh token first.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, TokenKind)> {
        let refresh_token = self.refresh_token.iter();
        let refresh_token = refresh_token.map(|token| (token, TokenKind::RefreshToken));
        refresh_token
            .chain([(&self.access_token, TokenKind::AccessToken)])
            .map(|(Token(token), kind)| (token.expose_secret(), kind))
    }
}

/// An id for a session of a server whose sessions have none: the first 128 bits of the SHA-256 of its
/// secret.
fn id_of(secret: &str) -> String {
    let digest = digest(&SHA256, secret.as_bytes());
    let mut id = URL_SAFE_NO_PAD.encode(digest);
    id.truncate(22);
    id
}
