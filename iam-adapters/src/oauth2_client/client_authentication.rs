//! Client authentication (RFC 6749 section 2.3).

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use josekit::JoseError;
use josekit::jws::{ES256, EdDSA, JwsHeader, JwsSigner, RS256};
use josekit::jwt::{self, JwtPayload};
use reqwest::RequestBuilder;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use url::{Url, form_urlencoded};

use crate::clock::Clock;
use crate::error::{IamError, Misconfiguration};
use crate::secret_file;

/// RFC 7523 section 2.2.
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// How long an assertion is valid: enough for one request and for clocks that differ.
const ASSERTION_LIFETIME: Duration = Duration::from_secs(60);

/// How a client authenticates. The names are those of RFC 7591 section 2.
#[derive(Debug)]
pub(crate) enum ClientAuthentication {
    /// `client_secret_basic`: HTTP Basic.
    ClientSecretBasic { id: String, secret: SecretString },
    /// `client_secret_post`: in the body of the request.
    ClientSecretPost { id: String, secret: SecretString },
    /// `private_key_jwt`: a JWT that the client signs (RFC 7523).
    PrivateKeyJwt(ClientAssertions),
}

impl ClientAuthentication {
    /// HTTP Basic, with this id and secret form-encoded before base64 (RFC 6749 section 2.3.1).
    pub(crate) fn client_secret_basic(id: &str, secret: &SecretString) -> Self {
        Self::ClientSecretBasic {
            id: form_encoded(id),
            secret: form_encoded(secret.expose_secret()).into(),
        }
    }

    /// Adds the parameters and the client authentication to a request to this endpoint.
    pub(super) fn authenticate(
        &self,
        request: RequestBuilder,
        endpoint: &Url,
        parameters: &[(&str, &str)],
    ) -> Result<RequestBuilder, IamError> {
        Ok(match self {
            Self::ClientSecretBasic { id, secret } => request
                .basic_auth(id, Some(secret.expose_secret()))
                .form(parameters),
            Self::ClientSecretPost { id, secret } => {
                let secret = ("client_secret", secret.expose_secret());
                request.form(&[parameters, &[("client_id", id), secret]].concat())
            }
            Self::PrivateKeyJwt(assertions) => {
                let assertion = assertions.next(endpoint)?;
                let authentication = [
                    // RFC 7521 section 4.2. Glewlwyd issues tokens of no client without it.
                    ("client_id", assertions.client_id.as_str()),
                    ("client_assertion_type", ASSERTION_TYPE),
                    ("client_assertion", assertion.expose_secret()),
                ];
                request.form(&[parameters, &authentication].concat())
            }
        })
    }
}

/// Signs client assertions (RFC 7523 section 3).
#[derive(Debug)]
pub(crate) struct ClientAssertions {
    pub(crate) client_id: String,
    /// `None`: the address of the endpoint that is called. Servers differ.
    pub(crate) audience: Option<String>,
    pub(crate) key: AssertionKey,
    pub(crate) clock: Arc<dyn Clock>,
}

impl ClientAssertions {
    /// A new assertion. Servers accept each `jti` once.
    fn next(&self, endpoint: &Url) -> Result<SecretString, IamError> {
        let mut jti = [0; 16];
        rand::fill(&mut jti).map_err(|_| IamError::Failed("no random numbers".to_owned()))?;
        let audience = self.audience.as_deref().unwrap_or(endpoint.as_str());
        let signed = self.sign(audience, self.clock.now().unix_seconds(), jti);
        signed.map_err(|_| {
            IamError::misconfigured(
                Misconfiguration::Other,
                "the private key cannot sign: check private_key_file",
            )
        })
    }

    /// An assertion issued at this time, in seconds since 1970, with this random id.
    fn sign(
        &self,
        audience: &str,
        issued_at: u64,
        jti: [u8; 16],
    ) -> Result<SecretString, JoseError> {
        let mut header = JwsHeader::new();
        header.set_token_type("JWT");
        if let Some(id) = &self.key.id {
            header.set_key_id(id);
        }
        let mut claims = JwtPayload::new();
        claims.set_issuer(&self.client_id);
        claims.set_subject(&self.client_id);
        // A text and not a list of one, which some servers refuse.
        claims.set_claim("aud", Some(json!(audience)))?;
        claims.set_jwt_id(URL_SAFE_NO_PAD.encode(jti));
        claims.set_claim("iat", Some(json!(issued_at)))?;
        let expires_at = issued_at.saturating_add(ASSERTION_LIFETIME.as_secs());
        claims.set_claim("exp", Some(json!(expires_at)))?;
        jwt::encode_with_signer(&claims, &header, &*self.key.signer).map(Into::into)
    }
}

/// The private key of a client and its `kid`.
pub(crate) struct AssertionKey {
    id: Option<String>,
    signer: Box<dyn JwsSigner>,
}

/// Without the private key.
impl fmt::Debug for AssertionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AssertionKey")
            .field("id", &self.id)
            .field("algorithm", &self.signer.algorithm().name())
            .finish_non_exhaustive()
    }
}

impl AssertionKey {
    /// Reads a private key in PEM: P-256 for `ES256`, Ed25519 for `EdDSA`, RSA for `RS256`.
    pub(crate) fn read(file: &Path, id: Option<String>) -> Result<Self, String> {
        let pem = secret_file::read(file).map_err(|error| error.to_string())?;
        let pem = pem.expose_secret();
        let signer: Box<dyn JwsSigner> = if let Ok(signer) = ES256.signer_from_pem(pem) {
            Box::new(signer)
        } else if let Ok(signer) = EdDSA.signer_from_pem(pem) {
            Box::new(signer)
        } else if let Ok(signer) = RS256.signer_from_pem(pem) {
            Box::new(signer)
        } else {
            return Err(format!(
                "{}: not a private key in PEM (P-256, Ed25519, or RSA with at least 2048 bits)",
                file.display()
            ));
        };
        Ok(Self { id, signer })
    }
}

fn form_encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
