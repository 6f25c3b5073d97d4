//! Access tokens (RFC 9068).

use std::time::Duration;

use base64::Engine as _;
use iam_adapters::name::Name as _;
use iam_adapters::{Claims, Moment, ScopePattern};
use serde::Serialize;
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::error::Internal;
use super::keys::{DerivedFrom, Key as _, KeySet, SigningKey};
use crate::base64url::BASE64;
use crate::random::Random;
use crate::results::DataSource;

/// A signed JWT. It is a credential, so its `Debug` form does not contain it.
#[derive(derive_more::Debug)]
#[debug("AccessToken {{ expires_in: {expires_in}, .. }}")]
pub struct AccessToken {
    jwt: String,
    /// How long it is valid, in seconds from now.
    pub expires_in: u64,
}

impl AccessToken {
    /// The JWT, for the response to the client.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.jwt
    }
}

/// The result of an exchange.
#[derive(Debug)]
pub struct Exchanged {
    /// The access token.
    pub token: AccessToken,
    /// Its scope; empty if nothing was granted.
    pub scope: String,
    /// The source of the data for the decision.
    pub source: DataSource,
}

/// The claims that are the same in all access tokens of this gateway.
#[derive(Debug, Clone)]
pub struct TokenPolicy {
    /// `iss`: equal to the base URL of the discovery documents.
    pub issuer: String,
    /// `aud` of scopes that no entry of `audiences` matches: who must accept the tokens. Never empty.
    pub audience: Vec<String>,
    /// `aud` of the granted scopes. The first entry that matches a scope decides.
    pub audiences: Vec<ScopeAudience>,
    /// `client_id` (RFC 9068 section 2.2). The API has no clients, so this is the gateway.
    pub client_id: String,
    /// The longest lifetime of a token.
    pub lifetime: Duration,
    /// `typ` in the header of the tokens.
    pub token_type: TokenType,
}

impl TokenPolicy {
    /// The audience of the granted scope: that of each of its names, in their order, each once.
    #[must_use]
    pub fn audience_of<'a>(&'a self, granted: &str) -> Audience<'a> {
        if self.audiences.is_empty() || granted.is_empty() {
            return Audience::by_default(&self.audience);
        }
        let mut audience: Vec<&str> = Vec::new();
        for name in granted.split(' ') {
            let entry = self.audiences.iter().find(|of| of.scope.matches(name));
            match entry {
                Some(entry) => add_once(&mut audience, &entry.audience),
                None => self
                    .audience
                    .iter()
                    .for_each(|one| add_once(&mut audience, one)),
            }
        }
        match *audience {
            [one] => Audience::One(one),
            _ => Audience::OfScopes(audience),
        }
    }

    /// Every audience that a token can have, each once.
    #[must_use]
    pub fn all_audiences(&self) -> Vec<&str> {
        let mut all = Vec::new();
        let by_scope = self.audiences.iter().map(|entry| &entry.audience);
        for one in self.audience.iter().chain(by_scope) {
            add_once(&mut all, one);
        }
        all
    }
}

fn add_once<'a>(audience: &mut Vec<&'a str>, one: &'a str) {
    if !audience.contains(&one) {
        audience.push(one);
    }
}

/// The audience of the scopes of a pattern: the service that accepts them.
#[derive(Debug, Clone)]
pub struct ScopeAudience {
    /// The scopes.
    pub scope: ScopePattern,
    /// Their audience.
    pub audience: String,
}

/// The `typ` of access tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, Serialize, VariantNames)]
#[serde(into = "&'static str")]
pub enum TokenType {
    /// RFC 9068 section 2.1: no verifier takes another JWT of the issuer for an access token.
    #[strum(serialize = "at+jwt")]
    AtJwt,
    /// For verifiers that accept nothing else.
    #[strum(serialize = "JWT")]
    Jwt,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Grant<'a> {
    /// `sub`.
    pub subject: &'a str,
    /// `sid`.
    pub session_id: &'a str,
    /// `scope`; omitted if nothing was granted.
    pub scope: &'a str,
    /// The session's expiry, which `exp` does not exceed. In seconds since 1970.
    pub session_expires_at: u64,
    /// Those that the IAM states.
    pub claims: &'a Claims,
}

#[derive(Serialize)]
struct ClaimsSet<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: Audience<'a>,
    exp: u64,
    iat: u64,
    jti: &'a str,
    client_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    scope: &'a str,
    sid: &'a str,
}

/// The claim `aud`. RFC 7519 section 4.1.3: one audience may be a string, which more verifiers support.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Audience<'a> {
    /// One audience.
    One(&'a str),
    /// That of scopes without an entry.
    Default(&'a [String]),
    /// Those of several scopes.
    OfScopes(Vec<&'a str>),
}

impl<'a> Audience<'a> {
    const fn by_default(audience: &'a [String]) -> Self {
        match audience {
            [one] => Self::One(one.as_str()),
            all => Self::Default(all),
        }
    }
}

const JTI_LEN: usize = 16;

/// Issues an access token.
///
/// # Errors
///
/// [`Internal`]: no random numbers, or a key that does not sign.
pub(super) fn issue(
    keys: &KeySet<SigningKey>,
    policy: &TokenPolicy,
    grant: Grant<'_>,
    now: Moment,
    random: &dyn Random,
) -> Result<AccessToken, Internal> {
    let iat = now.unix_seconds();
    let expires_in = policy
        .lifetime
        .as_secs()
        .min(grant.session_expires_at.saturating_sub(iat));
    let mut id = [0; JTI_LEN];
    random.fill(&mut id)?;
    let mut claims = Vec::with_capacity(CLAIMS_CAPACITY);
    let written = serde_json::to_writer(
        &mut claims,
        &ClaimsSet {
            iss: &policy.issuer,
            sub: grant.subject,
            aud: policy.audience_of(grant.scope),
            exp: iat + expires_in,
            iat,
            jti: &BASE64.encode(id),
            client_id: &policy.client_id,
            scope: grant.scope,
            sid: grant.session_id,
        },
    );
    written.map_err(|_| Internal::Encoding)?;
    let members = grant.claims.as_members();
    if !members.is_empty() {
        claims.pop();
        claims.extend_from_slice(members.as_bytes());
        claims.push(b'}');
    }

    let key = keys.current(now);
    let headers: &EncodedHeaders = key.derived();
    let header = match policy.token_type {
        TokenType::AtJwt => &headers.at_jwt,
        TokenType::Jwt => &headers.jwt,
    };
    let capacity = header.len() + claims.len().div_ceil(3) * 4 + SIGNATURE_CAPACITY;
    let mut jwt = String::with_capacity(capacity);
    jwt.push_str(header);
    jwt.push('.');
    BASE64.encode_string(&claims, &mut jwt);
    let signature = key.sign(jwt.as_bytes()).ok_or(Internal::Signing)?;
    jwt.push('.');
    BASE64.encode_string(signature, &mut jwt);
    Ok(AccessToken { jwt, expires_in })
}

/// The usual length of claims, so that the buffer seldom grows.
const CLAIMS_CAPACITY: usize = 768;

/// An ECDSA signature with its dot and base64url.
const SIGNATURE_CAPACITY: usize = 96;

/// The JOSE header of the access tokens of a key, in base64url, for each [`TokenType`].
struct EncodedHeaders {
    at_jwt: String,
    jwt: String,
}

impl DerivedFrom<SigningKey> for EncodedHeaders {
    fn derived_from(key: &SigningKey) -> Self {
        let (algorithm, kid) = (key.algorithm().name(), key.kid());
        let header = |typ: TokenType| {
            let typ = typ.name();
            let header = format!(r#"{{"typ":"{typ}","alg":"{algorithm}","kid":"{kid}"}}"#);
            BASE64.encode(header)
        };
        Self {
            at_jwt: header(TokenType::AtJwt),
            jwt: header(TokenType::Jwt),
        }
    }
}

#[cfg(test)]
mod tests;
