//! `POST …/token`: the password grant and the refresh grant (RFC 6749 sections 4.3 and 6).

use actix_web::HttpResponse;
use iam_adapters::resilient::Operation;
use iam_adapters::{
    Credentials, IamError, Introspection, Permission, Permissions, Refusal, UpstreamSession,
};
use serde_json::{Value, json};

use super::realm::Realm;
use super::refresh_token::Claims;
use super::request::RealmRequest;
use super::response::{OAuthError, RealmResponse};
use crate::iam::PendingCall;
use crate::random;

/// The lifetime of an access token in seconds. The gateway does not use access tokens of the IAM.
const ACCESS_TOKEN_LIFETIME: u64 = 300;

/// The scope of the tokens.
const SCOPE: &str = "email profile";

/// The token endpoint.
pub(super) async fn grant(request: RealmRequest) -> HttpResponse {
    let call = request.begin_grant_call();
    let handler = async || request.grant().unwrap_or_else(RealmResponse::from);
    request.respond(call, handler).await
}

impl RealmRequest {
    /// A login if there is a user name. Without one the request is a probe, and a refresh confirms a
    /// doubtful introspection.
    fn begin_grant_call(&self) -> PendingCall<'_> {
        match (self.form.value("grant_type"), self.form.value("username")) {
            (Some("refresh_token"), _) => {
                self.begin_session_call(Operation::Introspection, self.form.value("refresh_token"))
            }
            (_, Some(user)) => {
                let mut call = self.begin_call(Operation::Login);
                call.entry().user = Some(user.to_owned());
                call
            }
            (_, None) => self.begin_call(Operation::Probe),
        }
    }

    fn grant(&self) -> Result<RealmResponse, OAuthError> {
        self.check_tls()?;
        self.check_enabled()?;
        let grant_type = self
            .form
            .value("grant_type")
            .ok_or(OAuthError::NO_GRANT_TYPE)?;
        if !matches!(
            grant_type,
            "password" | "refresh_token" | "client_credentials"
        ) {
            return Err(OAuthError::GRANT_TYPE);
        }
        if self.form.has_duplicates() {
            return Err(OAuthError::REPEATED);
        }
        let client = self.client()?;
        match grant_type {
            "password" => self.log_in(&client),
            "refresh_token" => self.refresh(&client),
            _ => Err(OAuthError::SERVICE_ACCOUNT),
        }
    }

    fn log_in(&self, client: &str) -> Result<RealmResponse, OAuthError> {
        if !self.realm.settings().direct_grants {
            return Err(OAuthError::DIRECT_GRANTS);
        }
        let username = self.form.value("username").ok_or(OAuthError::NO_USERNAME)?;
        let password = self.form.value("password").unwrap_or_default();
        // No user has a name that is not an e-mail address.
        let credentials = Credentials::new(username.to_owned(), password.into());
        let otp = self.form.value("otp").filter(|otp| !otp.is_empty());
        let otp = otp.map(Into::into);
        let credentials = credentials
            .and_then(|credentials| credentials.with_otp(otp))
            .map_err(|_| OAuthError::login(Refusal::InvalidCredentials))?;
        let begun = self.realm.mock.directory().authenticate(&credentials);
        let begun = begun.map_err(|error| match error {
            IamError::Refused(refusal) => OAuthError::login(refusal),
            _ => OAuthError::failed(),
        })?;
        let now = self.realm.now();
        let lifetime = begun.expires_in.map_or(0, |lifetime| lifetime.as_secs());
        let times = (now, now.saturating_add(lifetime));
        let permissions = begun.permissions.unwrap_or_default();
        let audience = one_or_list(&audience(&self.realm, &permissions));
        let claims = Claims::new(&begun.session, &self.issuer, client, times, audience);
        let response = self.tokens(&claims, &begun.session, &permissions)?;
        Ok(RealmResponse {
            session: Some((begun.session.subject, begun.session.id)),
            ..response
        })
    }

    /// A refresh does not extend the session: the idle timeout of the realm equals the maximum
    /// lifetime, as recommended for a realm with a gateway.
    fn refresh(&self, client: &str) -> Result<RealmResponse, OAuthError> {
        let claims = self.refresh_token()?;
        if claims.exp <= self.realm.now() {
            return Err(OAuthError::EXPIRED);
        }
        claims.check_client(client)?;
        let session = claims.session().ok_or(OAuthError::GARBAGE)?;
        let directory = self.realm.mock.directory();
        let Introspection::Active { permissions, .. } = directory.introspect(&session) else {
            // The session is inactive because its account is disabled, or has ended.
            return Err(if directory.user_of_session(&session).is_some() {
                OAuthError::USER_DISABLED
            } else {
                OAuthError::SESSION_OVER
            });
        };
        let times = (self.realm.now(), claims.exp);
        let audience = one_or_list(&audience(&self.realm, &permissions));
        let claims = Claims::new(&session, &self.issuer, client, times, audience);
        self.tokens(&claims, &session, &permissions)
    }

    /// The success response of a grant (RFC 6749 section 5.1).
    fn tokens(
        &self,
        claims: &Claims,
        session: &UpstreamSession,
        permissions: &Permissions,
    ) -> Result<RealmResponse, OAuthError> {
        let left = claims.exp.saturating_sub(claims.iat);
        let lifetime = left.min(ACCESS_TOKEN_LIFETIME);
        let access = self.access_claims(claims, claims.iat + lifetime, permissions);
        let access = self
            .realm
            .server
            .keys
            .access_token(&access)
            .ok_or(OAuthError::failed())?;
        let refresh = self
            .realm
            .refresh_key
            .sign(claims)
            .ok_or(OAuthError::failed())?;
        Ok(RealmResponse::json(json!({
            "access_token": access,
            "expires_in": lifetime,
            "refresh_expires_in": left,
            "refresh_token": refresh,
            "token_type": "Bearer",
            "not-before-policy": 0,
            "session_state": session.id,
            "scope": SCOPE,
        })))
    }

    fn access_claims(&self, refresh: &Claims, exp: u64, permissions: &Permissions) -> Value {
        let mut claims = json!({
            "exp": exp,
            "iat": refresh.iat,
            "jti": random::id(),
            "iss": refresh.iss,
            "aud": one_or_list(&audience(&self.realm, permissions)),
            "sub": refresh.sub,
            "typ": "Bearer",
            "azp": refresh.azp,
            "sid": refresh.sid,
            "acr": "1",
            "scope": SCOPE,
        });
        add_roles(&mut claims, &self.realm, permissions);
        claims
    }
}

/// The client of the roles that every user has for their own account.
const ACCOUNT: &str = "account";

/// The clients of which the user has roles: the audience of access tokens.
pub(super) fn audience(realm: &Realm, permissions: &Permissions) -> Vec<String> {
    let client = realm.server.settings.permissions_client.clone();
    let client = client.filter(|_| !permissions.is_empty());
    client.into_iter().chain([ACCOUNT.to_owned()]).collect()
}

/// An audience of one is a string (RFC 7519 section 4.1.3).
fn one_or_list(audience: &[String]) -> Value {
    match audience {
        [one] => json!(one),
        _ => json!(audience),
    }
}

/// The roles that every user has for their own account.
const ACCOUNT_ROLES: [&str; 3] = ["manage-account", "manage-account-links", "view-profile"];

/// Adds the permissions as Keycloak's roles (`realm_access` and `resource_access`) to claims, with the
/// roles that every user has.
pub(super) fn add_roles(claims: &mut Value, realm: &Realm, permissions: &Permissions) {
    let Some(claims) = claims.as_object_mut() else {
        return;
    };
    let default_roles = format!("default-roles-{}", realm.name.to_lowercase());
    let permissions: Vec<_> = permissions.iter().map(Permission::as_str).collect();
    let mut of_realm = vec!["offline_access", &default_roles, "uma_authorization"];
    let mut of_clients = json!({ACCOUNT: {"roles": ACCOUNT_ROLES}});
    let permissions_client = &realm.server.settings.permissions_client;
    match (permissions_client, of_clients.as_object_mut()) {
        (None, _) => of_realm.extend(permissions),
        // Keycloak omits a client of which the user has no role.
        (Some(client), Some(clients)) if !permissions.is_empty() => {
            clients.insert(client.clone(), json!({"roles": permissions}));
        }
        (Some(_), _) => {}
    }
    claims.insert("realm_access".to_owned(), json!({"roles": of_realm}));
    claims.insert("resource_access".to_owned(), of_clients);
}
