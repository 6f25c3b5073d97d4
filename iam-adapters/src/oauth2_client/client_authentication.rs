//! Client authentication (RFC 6749 section 2.3).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use josekit::jws::{ES256, EdDSA, JwsHeader, JwsSigner, RS256, serialize_compact};
use reqwest::RequestBuilder;
use rustls::sign::CertifiedKey;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Number, Value, json};
use url::{Url, form_urlencoded};

use super::{ClientAuthMethod, seconds, unverified_claims};
use crate::clock::Moment;
use crate::error::{IamError, Misconfiguration};
use crate::secret_file;

/// RFC 7523 section 2.2.
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// How long an assertion is valid: enough for one request and for clocks that differ.
const ASSERTION_LIFETIME: Duration = Duration::from_secs(60);

/// A client, and how it authenticates.
#[derive(Debug)]
pub(crate) struct ClientAuthentication {
    pub(super) client_id: String,
    pub(super) method: ClientAuthMethod,
    pub(super) credential: Credential,
}

/// What a client authenticates by.
#[derive(Debug)]
pub(super) enum Credential {
    /// HTTP Basic. The id and the secret are as they are sent, before base64.
    Basic { id: String, secret: SecretString },
    /// The secret in the body of the request.
    Secret(SecretString),
    /// A key that signs a JWT for each request (RFC 7523).
    Key {
        /// `None`: the address of the endpoint that is called. Servers differ.
        audience: Option<String>,
        key: AssertionKey,
    },
    /// A JWT that another authority has signed (RFC 7523).
    Assertion(IssuedAssertion),
    /// The certificate of the connection (RFC 8705 section 2.1).
    Certificate(Arc<CertifiedKey>),
}

impl Credential {
    /// HTTP Basic. The id and the secret are form-encoded (RFC 6749 section 2.3.1) unless `plain`.
    pub(super) fn basic(id: &str, secret: SecretString, plain: bool) -> Self {
        if plain {
            let id = id.to_owned();
            return Self::Basic { id, secret };
        }
        Self::Basic {
            id: form_encoded(id),
            secret: form_encoded(secret.expose_secret()).into(),
        }
    }
}

impl ClientAuthentication {
    /// The certificate and key of the connections.
    pub(super) fn identity(&self) -> Option<Arc<CertifiedKey>> {
        match &self.credential {
            Credential::Certificate(identity) => Some(Arc::clone(identity)),
            _ => None,
        }
    }

    /// Adds the parameters and the client authentication to a request to this endpoint.
    pub(super) fn authenticate(
        &self,
        request: RequestBuilder,
        endpoint: &Url,
        parameters: &[(&str, &str)],
        now: Moment,
    ) -> Result<RequestBuilder, IamError> {
        if let Credential::Basic { id, secret } = &self.credential {
            let request = request.basic_auth(id, Some(secret.expose_secret()));
            return Ok(request.form(parameters));
        }
        // RFC 7521 section 4.2, RFC 8705 section 2. Glewlwyd issues tokens of no client without it.
        let mut parameters = [parameters, &[("client_id", self.client_id.as_str())]].concat();
        let signed;
        let assertion = match &self.credential {
            Credential::Key { audience, key } => {
                let audience = audience.as_deref().unwrap_or(endpoint.as_str());
                signed = key.assertion(&self.client_id, audience, now)?;
                Some(&signed)
            }
            Credential::Assertion(assertion) => Some(assertion.usable(now)?),
            Credential::Secret(secret) => {
                parameters.push(("client_secret", secret.expose_secret()));
                None
            }
            Credential::Basic { .. } | Credential::Certificate(_) => None,
        };
        if let Some(assertion) = assertion {
            parameters.push(("client_assertion_type", ASSERTION_TYPE));
            parameters.push(("client_assertion", assertion.expose_secret()));
        }
        Ok(request.form(&parameters))
    }
}

/// An assertion of another authority.
#[derive(Debug)]
pub(crate) struct IssuedAssertion {
    token: SecretString,
    /// In seconds since 1970; `None`: unlimited.
    expires_at: Option<u64>,
}

impl IssuedAssertion {
    /// Reads a JWT. It is not verified, which the server does.
    pub(super) fn read(file: &Path) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct AssertionClaims {
            exp: Option<Number>,
        }
        let token = secret_file::read(file)?;
        let claims: Option<AssertionClaims> = unverified_claims(token.expose_secret());
        let expires_at = claims.and_then(|claims| match claims.exp {
            Some(exp) => seconds(&Value::Number(exp)).map(Some),
            None => Some(None),
        });
        Ok(Self {
            token,
            expires_at: expires_at.ok_or_else(|| format!("{}: not a JWT", file.display()))?,
        })
    }

    fn usable(&self, now: Moment) -> Result<&SecretString, IamError> {
        if self
            .expires_at
            .is_some_and(|expires_at| expires_at <= now.unix_seconds())
        {
            return Err(IamError::misconfigured(
                Misconfiguration::ClientSecret,
                "the assertion in client_assertion_file has expired: is the file replaced in time?",
            ));
        }
        Ok(&self.token)
    }
}

/// The private key of a client and its `kid`.
#[derive(derive_more::Debug)]
pub(crate) struct AssertionKey {
    id: Option<String>,
    #[debug("{}", signer.algorithm().name())]
    signer: Box<dyn JwsSigner>,
}

impl AssertionKey {
    /// Reads a private key in PEM: P-256 for `ES256`, Ed25519 for `EdDSA`, RSA for `RS256`.
    pub(crate) fn read(file: &Path, id: Option<String>) -> Result<Self, String> {
        let pem = secret_file::read(file)?;
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

    /// A new assertion (RFC 7523 section 3). Servers accept each `jti` once.
    fn assertion(
        &self,
        client_id: &str,
        audience: &str,
        now: Moment,
    ) -> Result<SecretString, IamError> {
        let mut jti = [0; 16];
        rand::fill(&mut jti).map_err(|_| IamError::Failed("no random numbers".to_owned()))?;
        let mut header = JwsHeader::new();
        header.set_token_type("JWT");
        if let Some(id) = &self.id {
            header.set_key_id(id);
        }
        let issued_at = now.unix_seconds();
        let claims = json!({
            "iss": client_id,
            "sub": client_id,
            // A text and not a list of one, which some servers refuse.
            "aud": audience,
            "jti": URL_SAFE_NO_PAD.encode(jti),
            "iat": issued_at,
            "exp": issued_at.saturating_add(ASSERTION_LIFETIME.as_secs()),
        });
        let signed = serialize_compact(claims.to_string().as_bytes(), &header, &*self.signer);
        signed.map(Into::into).map_err(|_| {
            IamError::misconfigured(
                Misconfiguration::Other,
                "the private key cannot sign: check private_key_file",
            )
        })
    }
}

fn form_encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
