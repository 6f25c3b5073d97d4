//! The settings of an [`OAuth2Client`](super::OAuth2Client), which the sections of all authorization servers have,
//! and the problems of such a section.

use std::path::PathBuf;

use config::{ConfigError, Value, ValueKind};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_aux::serde_introspection::serde_introspect;
use strum::{EnumString, IntoStaticStr, VariantNames};
use url::Url;

use super::client_authentication::{
    AssertionKey, ClientAuthentication, Credential, IssuedAssertion,
};
use crate::claims::ClaimSources;
use crate::name::Name as _;
use crate::pem;
use crate::settings::{AdapterSettings, SectionProblems, WELL_KNOWN, is_well_known};

/// The minimum length of a client secret in production, in bytes. Keycloak generates 32; a shorter one
/// was chosen by hand. An attacker with the secret can guess passwords without the login limits.
const SECRET_MIN: usize = 16;

/// The longest issuer of a server in an error, in bytes.
const SHOWN_ISSUER_MAX: usize = 200;

/// Members of introspection responses about one session or token (RFC 7662 section 2.2, OpenID Connect Core 1.0
/// section 2, RFC 7800, Keycloak). Claims are cached for a user, so another session would get their values.
const OF_ONE_SESSION: [&str; 11] = [
    "exp",
    "iat",
    "nbf",
    "jti",
    "auth_time",
    "nonce",
    "acr",
    "amr",
    "cnf",
    "sid",
    "session_state",
];

/// The confidential client of this gateway, and how it connects and authenticates.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OAuth2ClientSettings {
    /// The client.
    pub client_id: String,
    /// How it authenticates.
    #[serde(default, deserialize_with = "crate::choice::deserialize")]
    pub client_auth_method: ClientAuthMethod,
    /// The secret of the client.
    #[serde(serialize_with = "crate::secret_file::serialize_hidden")]
    pub client_secret: Option<SecretString>,
    /// The file with the secret. Loading the configuration replaces it by `client_secret`.
    pub client_secret_file: Option<PathBuf>,
    /// The private key of the client in PEM, for `private_key_jwt`.
    pub private_key_file: Option<PathBuf>,
    /// The `kid` of that key.
    pub private_key_id: Option<String>,
    /// The audience of client assertions; `None`: as the preset, or the issuer.
    #[serde(default, deserialize_with = "crate::choice::optional")]
    pub assertion_audience: Option<AssertionAudience>,
    /// The JWT that another authority signs, for `client_assertion`.
    pub client_assertion_file: Option<PathBuf>,
    /// The certificate chain of the client in PEM, for `tls_client_auth`.
    pub client_certificate_file: Option<PathBuf>,
    /// The private key of that certificate in PEM.
    pub client_key_file: Option<PathBuf>,
    /// PEM certificates to trust in addition to the machine's own.
    pub ca_file: Option<PathBuf>,
    /// The claims of access tokens that the IAM states.
    #[serde(default)]
    pub claims: ClaimSources,
}

/// How a client authenticates. The names are those of RFC 7591 section 2 and RFC 8705 section 2.1, and
/// for [`Self::ClientAssertion`] that of the parameter.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, EnumString, IntoStaticStr, Serialize, VariantNames,
)]
#[serde(into = "&'static str")]
#[strum(serialize_all = "snake_case")]
pub enum ClientAuthMethod {
    /// HTTP Basic.
    #[default]
    ClientSecretBasic,
    /// The secret in the body.
    ClientSecretPost,
    /// A JWT that the client signs (RFC 7523).
    PrivateKeyJwt,
    /// A JWT that another authority signs (RFC 7523), such as a token of a Kubernetes service account.
    ClientAssertion,
    /// The certificate of the TLS connection (RFC 8705 section 2.1).
    TlsClientAuth,
}

/// The audience of client assertions (RFC 7523 section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, Serialize, VariantNames)]
#[serde(into = "&'static str")]
#[strum(serialize_all = "snake_case")]
pub enum AssertionAudience {
    /// The issuer.
    Issuer,
    /// The address of the endpoint that is called.
    Endpoint,
}

/// What differs between servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAuthPreset {
    /// Whether the server does not decode the id and the secret of HTTP Basic.
    pub(crate) has_plain_basic: bool,
    /// Used unless the settings have one.
    pub(crate) assertion_audience: AssertionAudience,
}

impl ClientAuthPreset {
    /// A server without differences.
    pub(crate) const STANDARD: Self = Self {
        has_plain_basic: false,
        assertion_audience: AssertionAudience::Issuer,
    };
}

/// The settings of an adapter whose section has those of a client too.
///
/// The two parts are read one after the other. With `serde(flatten)`, an error would have no key and would
/// quote the value, which may be a secret.
pub trait ClientSection: AdapterSettings + DeserializeOwned {
    /// The settings of the client.
    fn client_mut(&mut self) -> &mut OAuth2ClientSettings;

    /// The keys that the section may have.
    #[must_use]
    fn fields() -> Vec<&'static str> {
        let of_client = serde_introspect::<OAuth2ClientSettings>();
        [serde_introspect::<Self>(), of_client].concat()
    }

    /// Reads the section.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a value is missing or of another type. It may quote the value.
    fn read(section: Value) -> Result<Self, ConfigError> {
        let names = serde_introspect::<OAuth2ClientSettings>();
        let values = section.into_table()?.into_iter();
        let (of_client, own) = values.partition(|(name, _)| names.contains(&name.as_str()));
        let table = |values| Value::new(None, ValueKind::Table(values));
        let mut settings = Self::deserialize(table(own))?;
        *settings.client_mut() = OAuth2ClientSettings::deserialize(table(of_client))?;
        Ok(settings)
    }
}

impl ClientAuthMethod {
    const fn uses_secret(self) -> bool {
        matches!(self, Self::ClientSecretBasic | Self::ClientSecretPost)
    }

    /// The settings to check if the server does not accept the client.
    pub(crate) const fn hint(self) -> &'static str {
        match self {
            Self::ClientSecretBasic | Self::ClientSecretPost => "check client_id and client_secret",
            Self::PrivateKeyJwt => {
                "check client_id, private_key_file, private_key_id, assertion_audience and the clocks"
            }
            Self::ClientAssertion => {
                "check client_id, and the issuer, subject and audience of the assertion in client_assertion_file"
            }
            Self::TlsClientAuth => {
                "check client_id, the subject of client_certificate_file, and whether the server requests \
                 certificates"
            }
        }
    }
}

impl OAuth2ClientSettings {
    /// All problems of the section with these settings, each with its key and without its value. `own` adds those of
    /// the other settings. Reads the files that the settings name.
    pub(crate) fn problems(
        &self,
        section: &str,
        production: bool,
        own: impl FnOnce(&mut SectionProblems),
    ) -> Vec<String> {
        let mut problems = SectionProblems::new(section, production);
        let method = self.client_auth_method;
        problems.https_for = (method == ClientAuthMethod::TlsClientAuth).then(|| method.name());
        self.check_authentication(&mut problems);
        own(&mut problems);
        for (claim, source) in self.claims.iter() {
            if OF_ONE_SESSION.contains(&source.outer_member()) {
                problems.add(format_args!(
                    "claims: the member of `{claim}` is about one session or token, and claims are about a user"
                ));
            }
        }
        problems.common(self.ca_file.as_deref(), &self.claims);
        problems.found
    }

    fn check_authentication(&self, problems: &mut SectionProblems) {
        problems.not_empty("client_id", Some(&self.client_id));
        problems.not_empty("private_key_id", self.private_key_id.as_ref());
        let method = self.client_auth_method;
        let (key, assertion, tls) = (
            ClientAuthMethod::PrivateKeyJwt,
            ClientAuthMethod::ClientAssertion,
            ClientAuthMethod::TlsClientAuth,
        );
        for (name, file, needed) in [
            ("private_key_file", &self.private_key_file, key),
            (
                "client_assertion_file",
                &self.client_assertion_file,
                assertion,
            ),
            (
                "client_certificate_file",
                &self.client_certificate_file,
                tls,
            ),
            ("client_key_file", &self.client_key_file, tls),
        ] {
            if file.is_some() && method != needed {
                let needed = needed.name();
                problems.add(format_args!(
                    "{name}: needs client_auth_method = \"{needed}\""
                ));
            }
        }
        match (method.uses_secret(), &self.client_secret) {
            (true, Some(secret)) if problems.production => check_secret(secret, problems),
            (false, Some(_)) => {
                let method = method.name();
                problems.add(format_args!("client_secret: {method} uses no secret"));
            }
            _ => {}
        }
        let read = self.authentication(&problems.section, "", ClientAuthPreset::STANDARD);
        problems.found.extend(read.err().into_iter().flatten());
    }

    /// The authentication at the server with this issuer; reads the files that it needs.
    ///
    /// # Errors
    ///
    /// The problems, each with its key and without a value.
    pub(super) fn authentication(
        &self,
        section: &str,
        issuer: &str,
        preset: ClientAuthPreset,
    ) -> Result<ClientAuthentication, Vec<String>> {
        let method = self.client_auth_method;
        let problem = |name: &str, problem: &str| vec![format!("{section}.{name}: {problem}")];
        let needed = |name: &'static str, file: &Option<PathBuf>| {
            let missing = || problem(name, &format!("{} needs it", method.name()));
            Ok::<_, Vec<_>>((name, file.clone().ok_or_else(missing)?))
        };
        let secret = || self.secret(section).map_err(|problem| vec![problem]);
        let credential = match method {
            ClientAuthMethod::ClientSecretBasic => {
                Credential::basic(&self.client_id, secret()?, preset.has_plain_basic)
            }
            ClientAuthMethod::ClientSecretPost => Credential::Secret(secret()?),
            ClientAuthMethod::PrivateKeyJwt => {
                let (name, file) = needed("private_key_file", &self.private_key_file)?;
                let key = AssertionKey::read(&file, self.private_key_id.clone());
                Credential::Key {
                    audience: match self.audience(preset) {
                        AssertionAudience::Endpoint => None,
                        AssertionAudience::Issuer => Some(issuer.to_owned()),
                    },
                    key: key.map_err(|reason| problem(name, &reason))?,
                }
            }
            ClientAuthMethod::ClientAssertion => {
                let (name, file) = needed("client_assertion_file", &self.client_assertion_file)?;
                let assertion = IssuedAssertion::read(&file);
                Credential::Assertion(assertion.map_err(|reason| problem(name, &reason))?)
            }
            ClientAuthMethod::TlsClientAuth => {
                let (certificates, chain) =
                    needed("client_certificate_file", &self.client_certificate_file)?;
                let (of_key, key) = needed("client_key_file", &self.client_key_file)?;
                let identity = pem::certified_key(section, (certificates, &chain), (of_key, &key));
                Credential::Certificate(identity?)
            }
        };
        Ok(ClientAuthentication {
            client_id: self.client_id.clone(),
            method,
            credential,
        })
    }

    /// The client secret.
    ///
    /// # Errors
    ///
    /// The problem of the secret, without its value.
    pub fn secret(&self, section: &str) -> Result<SecretString, String> {
        match &self.client_secret {
            None => Err(format!(
                "{section}: client_secret or client_secret_file is needed"
            )),
            Some(secret) if secret.expose_secret().is_empty() => {
                Err(format!("{section}.client_secret: must not be empty"))
            }
            Some(secret) => Ok(secret.clone()),
        }
    }

    /// The audience of assertions.
    pub(crate) fn audience(&self, preset: ClientAuthPreset) -> AssertionAudience {
        self.assertion_audience.unwrap_or(preset.assertion_audience)
    }
}

/// Checks the client secret for production.
fn check_secret(secret: &SecretString, problems: &mut SectionProblems) {
    if (1..SECRET_MIN).contains(&secret.expose_secret().len()) {
        problems.add(format_args!(
            "client_secret: shorter than {SECRET_MIN} bytes"
        ));
    }
    if is_well_known(secret) {
        problems.add(format_args!("client_secret: {WELL_KNOWN}"));
    }
}

/// Checks the configured issuer, and returns whether it can be one.
pub(crate) fn check_issuer(problems: &mut SectionProblems, issuer: &str) -> bool {
    // Faults show the configured issuer.
    let has_no_credentials = |url: Url| url.username().is_empty() && url.password().is_none();
    let is_issuer = issuer_url(issuer).is_some_and(has_no_credentials);
    if !is_issuer {
        problems.add(
            "issuer: must be an http or https address without credentials, query and fragment",
        );
    }
    is_issuer
}

/// A text that can be an issuer (RFC 8414 section 2: no query and no fragment), perhaps with credentials.
fn issuer_url(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

/// An address without user, password, query and fragment.
pub(crate) fn plain_url(url: &Url) -> Url {
    let mut url = url.clone();
    // Both fail only for addresses without a host, which have no credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// An issuer that a server names, for errors: without credentials, and only if it is one.
pub(crate) fn shown_issuer(text: &str) -> String {
    match issuer_url(text) {
        Some(url) if text.len() <= SHOWN_ISSUER_MAX => {
            format!("the issuer {}", plain_url(&url))
        }
        _ => "something that is no issuer".to_owned(),
    }
}

#[cfg(test)]
mod tests;
