//! The section `[iam.oauth2]` and its validation.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::{EnumString, IntoStaticStr, VariantNames};
use url::{Url, form_urlencoded};

use super::{NAME, OAuth2, TokenKind, explain};
use crate::adapter::{IamAdapter, SetupError, downcast};
use crate::claims::ClaimSources;
use crate::client::url_below;
use crate::clock::Clock;
use crate::error::Misconfiguration;
use crate::oauth2_client::{
    AssertionAudience, ClientAuthPreset, ClientSection, Dialect, OAuth2Client,
    OAuth2ClientSettings, PermissionNames, RefusedStatus, as_code, check_issuer, shown_issuer,
};
use crate::scope::Scope;
use crate::settings::AdapterSettings;

/// The claim with the subject by default (RFC 7662 section 2.2).
const SUBJECT_CLAIM: &str = "sub";

/// The parameters of a token request that are not [`OAuth2Settings::token_parameters`].
const GATEWAY_PARAMETERS: [&str; 8] = [
    "grant_type",
    "username",
    "password",
    "scope",
    "client_id",
    "client_secret",
    "client_assertion",
    "client_assertion_type",
];

/// The section `[iam.oauth2]`.
///
/// The `Debug` form has only what identifies the server. The other settings have the secret, or may have one by
/// mistake.
#[derive(Clone, derive_more::Debug, Deserialize, Serialize)]
#[debug("OAuth2Settings({})", shown_issuer(issuer))]
#[serde(deny_unknown_fields)]
pub struct OAuth2Settings {
    /// Sets the defaults for a known server.
    #[serde(default, deserialize_with = "crate::choice::optional")]
    pub preset: Option<Preset>,
    /// The issuer (RFC 8414 section 2), which identifies the server.
    pub issuer: String,
    /// The discovery document; `None`: as the preset, or `{issuer}/.well-known/openid-configuration`.
    pub discovery_url: Option<Url>,
    /// The token endpoint; `None`: that of the discovery document. So are the next two.
    pub token_endpoint: Option<Url>,
    /// The introspection endpoint (RFC 7662).
    pub introspection_endpoint: Option<Url>,
    /// The revocation endpoint (RFC 7009), or that there is none.
    pub revocation_endpoint: Option<RevocationEndpoint>,
    /// Whether production may run without Redis although the server revokes no tokens, so that a logout has an effect
    /// at one replica only.
    #[serde(default)]
    pub accept_local_logout: bool,
    /// The confidential client of this gateway.
    #[serde(flatten, skip_deserializing)]
    pub client: OAuth2ClientSettings,
    /// The scope that a login requests; `None`: the server's default.
    pub scope: Option<String>,
    /// Further parameters of the token request of a login, form-encoded.
    pub token_parameters: Option<String>,
    /// Which token is introspected; `None`: as the preset, or the refresh token.
    #[serde(default, deserialize_with = "crate::choice::optional")]
    pub introspect: Option<TokenKind>,
    /// The claim with the subject; `None`: as the preset, or `sub`.
    pub subject_claim: Option<String>,
    /// The claim with the permissions; `None`: `scope`, empty: no permissions.
    pub permissions_claim: Option<String>,
    /// The claim with the names of the groups; `None`: the server states none.
    pub groups_claim: Option<String>,
    /// The text between the names of groups in a text; `None`: groups are a list.
    pub groups_delimiter: Option<String>,
    /// An error code that refuses the credentials, in addition to `invalid_grant`.
    pub refused_error: Option<String>,
    /// A status that refuses the credentials, with any body without an error code of another meaning;
    /// `None`: as the preset.
    pub refused_status: Option<u16>,
    /// Whether the server reports the session of a disabled account as inactive.
    #[serde(default)]
    pub detects_disabled: bool,
    /// What introspection states about the session of a deleted account; `None`: as the preset, or
    /// [`DeletedAccount::Active`].
    #[serde(default, deserialize_with = "crate::choice::optional")]
    pub deleted_account: Option<DeletedAccount>,
    /// Whether introspection returns the permissions that the user has now.
    #[serde(default)]
    pub current_permissions: bool,
}

/// A server whose differences from the standard are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, Serialize, VariantNames)]
#[serde(into = "&'static str")]
#[strum(serialize_all = "kebab-case")]
pub enum Preset {
    /// Glewlwyd 2.7.
    Glewlwyd,
    /// django-oauth-toolkit 3.
    DjangoOauthToolkit,
}

/// Where the server revokes tokens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum RevocationEndpoint {
    /// Nowhere (`none`): a logout ends the session only at the gateway.
    None,
    /// At this address.
    At(Url),
}

impl RevocationEndpoint {
    /// The address, if there is one.
    pub(super) const fn url(&self) -> Option<&Url> {
        match self {
            Self::None => None,
            Self::At(url) => Some(url),
        }
    }
}

impl TryFrom<String> for RevocationEndpoint {
    type Error = url::ParseError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.as_str() {
            "none" => Ok(Self::None),
            text => Url::parse(text).map(Self::At),
        }
    }
}

impl From<RevocationEndpoint> for String {
    fn from(endpoint: RevocationEndpoint) -> Self {
        endpoint.url().map_or_else(|| "none".into(), Url::to_string)
    }
}

/// What introspection states about the session of a deleted account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, Serialize, VariantNames)]
#[serde(into = "&'static str")]
#[strum(serialize_all = "snake_case")]
pub enum DeletedAccount {
    /// Active, as before: the deletion is not detected.
    Active,
    /// Inactive.
    Inactive,
    /// Active, without the claim with the subject.
    WithoutSubject,
}

impl AdapterSettings for OAuth2Settings {
    fn name(&self) -> &'static str {
        NAME
    }

    fn problems(&self, section: &str, production: bool) -> Vec<String> {
        self.client.problems(section, production, |problems| {
            problems.address("discovery_url", self.discovery_url.as_ref());
            problems.address("token_endpoint", self.token_endpoint.as_ref());
            let introspection = self.introspection_endpoint.as_ref();
            problems.address("introspection_endpoint", introspection);
            let revocation = self.revocation_endpoint.as_ref();
            let revocation = revocation.and_then(RevocationEndpoint::url);
            problems.address("revocation_endpoint", revocation);
            if check_issuer(problems, &self.issuer)
                && production
                && !self.issuer.starts_with("https:")
            {
                problems.add("issuer: must be https in production");
            }
            problems.not_empty("subject_claim", self.subject_claim.as_ref());
            problems.not_empty("groups_claim", self.groups_claim.as_ref());
            problems.not_empty("groups_delimiter", self.groups_delimiter.as_ref());
            if let Some(Err(invalid)) = self.scope.as_deref().map(Scope::parse) {
                problems.add(format_args!("scope: {invalid}"));
            }
            if self.groups_delimiter.is_some() && self.groups_claim.is_none() {
                problems.add("groups_delimiter: needs groups_claim");
            }
            let mut names = BTreeSet::new();
            for (name, value) in self.token_parameters() {
                if name.is_empty() || value.is_empty() {
                    problems.add(
                        "token_parameters: must be name=value, several of them with & between them",
                    );
                } else if GATEWAY_PARAMETERS.contains(&name.as_str()) {
                    problems.add(format_args!(
                        "token_parameters: {name} is a parameter of the gateway's own"
                    ));
                } else if !names.insert(name) {
                    problems.add("token_parameters: a name occurs twice (RFC 6749 section 3.2)");
                }
            }
            // Other codes of a server are read as free text.
            if let Some(code) = &self.refused_error
                && as_code(code).is_none()
            {
                problems.add("refused_error: must be 1 to 40 letters, _ and -");
            }
            // Other statuses have a meaning of their own.
            if self
                .refused_status
                .is_some_and(|status| !matches!(status, 400..=403 | 422))
            {
                problems.add("refused_status: must be 400, 401, 402, 403 or 422");
            }
        })
    }

    fn connect(
        &self,
        section: &str,
        clock: Arc<dyn Clock>,
        connect_deadline: Duration,
        before: Option<&Arc<dyn IamAdapter>>,
    ) -> Result<Arc<dyn IamAdapter>, SetupError> {
        self.check(section)?;
        let before: Option<&OAuth2> = before.and_then(downcast);
        let dialect = Dialect {
            client_auth: self.client_auth_preset(),
            not_found: (
                Misconfiguration::Other,
                "check issuer, discovery_url and the endpoints",
            ),
            introspection_hint: "check introspect, client_id, the clocks, and whether the token has the client as \
                                 its audience (scope, token_parameters)",
            refused_error: self.refused_error.clone(),
            refused_status: self.refused_status(),
            explain,
        };
        let server = OAuth2Client::new(
            section,
            &self.client,
            connect_deadline,
            Arc::clone(&clock),
            self.issuer.clone(),
            dialect,
            before.map(|oauth2| &oauth2.server),
        )?;
        let subject_claim = self.subject_claim();
        // A reload changes no setting, and may be repeated every few seconds.
        if before.is_none() && subject_claim != SUBJECT_CLAIM {
            tracing::warn!(
                iam.adapter = NAME,
                claim = subject_claim,
                "subjects are not taken from sub: a value that passes to another user passes on the \
                 sessions and permissions"
            );
        }
        let scope = self.scope.clone().filter(|scope| !scope.is_empty());
        let scope = scope.map(|scope| ("scope".to_owned(), scope));
        Ok(Arc::new(OAuth2 {
            server,
            login_parameters: scope.into_iter().chain(self.token_parameters()).collect(),
            settings: self.clone(),
            discovered: Mutex::default(),
            names: PermissionNames::new(NAME),
            clock,
        }))
    }

    fn missing_for_groups(&self) -> Option<&'static str> {
        self.groups_claim.is_none().then_some("groups_claim")
    }

    fn needs_redis(&self) -> bool {
        self.revocation_endpoint == Some(RevocationEndpoint::None) && !self.accept_local_logout
    }

    fn claims(&self) -> &ClaimSources {
        &self.client.claims
    }

    fn derived(&self) -> Value {
        json!({
            "discovery_url": self.discovery(),
            "assertion_audience": self.client.audience(self.client_auth_preset()),
            "introspect": self.introspect(),
            "subject_claim": self.subject_claim(),
            "permissions_claim": self.permissions_claim().unwrap_or_default(),
            "deleted_account": self.deleted_account(),
        })
    }
}

impl ClientSection for OAuth2Settings {
    fn client_mut(&mut self) -> &mut OAuth2ClientSettings {
        &mut self.client
    }
}

impl OAuth2Settings {
    /// What the preset changes in the client authentication.
    pub(super) fn client_auth_preset(&self) -> ClientAuthPreset {
        match self.preset {
            Some(Preset::Glewlwyd) => ClientAuthPreset {
                has_plain_basic: true,
                assertion_audience: AssertionAudience::Endpoint,
            },
            Some(Preset::DjangoOauthToolkit) | None => ClientAuthPreset::STANDARD,
        }
    }

    /// The discovery document; `None` if all endpoints are configured and it is not.
    pub(super) fn discovery(&self) -> Option<Url> {
        let are_endpoints_set = self.token_endpoint.is_some()
            && self.introspection_endpoint.is_some()
            && self.revocation_endpoint.is_some();
        if self.discovery_url.is_none() && are_endpoints_set {
            return None;
        }
        self.discovery_url.clone().or_else(|| {
            let issuer = Url::parse(&self.issuer).ok()?;
            let name = match self.preset {
                // Without OpenID Connect, it has only the name of RFC 8414.
                Some(Preset::DjangoOauthToolkit) => "oauth-authorization-server",
                Some(Preset::Glewlwyd) | None => "openid-configuration",
            };
            Some(url_below(&issuer, &[".well-known", name]))
        })
    }

    pub(super) fn introspect(&self) -> TokenKind {
        self.introspect.unwrap_or(match self.preset {
            // It reports refresh tokens as inactive.
            Some(Preset::DjangoOauthToolkit) => TokenKind::AccessToken,
            Some(Preset::Glewlwyd) | None => TokenKind::RefreshToken,
        })
    }

    pub(super) fn subject_claim(&self) -> &str {
        self.subject_claim.as_deref().unwrap_or(match self.preset {
            // Its responses have no `sub`.
            Some(Preset::DjangoOauthToolkit) => "username",
            Some(Preset::Glewlwyd) | None => SUBJECT_CLAIM,
        })
    }

    /// Names and values, decoded.
    pub(super) fn token_parameters(&self) -> Vec<(String, String)> {
        let encoded = self.token_parameters.as_deref().unwrap_or_default();
        form_urlencoded::parse(encoded.as_bytes())
            .into_owned()
            .collect()
    }

    /// `None`: users have no permissions.
    pub(super) fn permissions_claim(&self) -> Option<&str> {
        let claim = self.permissions_claim.as_deref().unwrap_or("scope");
        (!claim.is_empty()).then_some(claim)
    }

    pub(super) fn deleted_account(&self) -> DeletedAccount {
        self.deleted_account.unwrap_or(match self.preset {
            // Both delete the tokens of an account with it.
            Some(Preset::Glewlwyd | Preset::DjangoOauthToolkit) => DeletedAccount::Inactive,
            None => DeletedAccount::Active,
        })
    }

    pub(super) fn refused_status(&self) -> Option<RefusedStatus> {
        let set = self.refused_status.map(|status| RefusedStatus {
            status,
            without_body: false,
        });
        set.or(match self.preset {
            // It refuses credentials without an error code.
            Some(Preset::Glewlwyd) => Some(RefusedStatus {
                status: 403,
                without_body: true,
            }),
            Some(Preset::DjangoOauthToolkit) | None => None,
        })
    }
}

#[cfg(test)]
mod tests;
