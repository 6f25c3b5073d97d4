//! Client authentication (RFC 6749 section 2.3).

use std::fmt;

use reqwest::RequestBuilder;
use secrecy::{ExposeSecret, SecretString};
use url::form_urlencoded;

use crate::error::IamError;

/// How a client authenticates. The names are those of RFC 7591 section 2.
pub enum ClientAuthentication {
    /// `client_secret_basic`: HTTP Basic.
    ClientSecretBasic {
        /// Form-encoded, as RFC 6749 section 2.3.1 requires for HTTP Basic.
        id: String,
        /// Form-encoded.
        secret: SecretString,
    },
}

/// Without secrets.
impl fmt::Debug for ClientAuthentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClientSecretBasic { .. } => "ClientSecretBasic",
        })
    }
}

impl ClientAuthentication {
    /// HTTP Basic with this id and secret.
    #[must_use]
    pub fn client_secret_basic(id: &str, secret: &SecretString) -> Self {
        Self::ClientSecretBasic {
            id: form_encoded(id),
            secret: form_encoded(secret.expose_secret()).into(),
        }
    }

    /// Adds the parameters and the client authentication to a request.
    pub(super) fn authenticate(
        &self,
        request: RequestBuilder,
        parameters: &[(&str, &str)],
    ) -> Result<RequestBuilder, IamError> {
        match self {
            Self::ClientSecretBasic { id, secret } => Ok(request
                .basic_auth(id, Some(secret.expose_secret()))
                .form(parameters)),
        }
    }
}

fn form_encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
