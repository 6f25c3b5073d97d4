//! `POST …/token`: the password grant and the refresh grant (RFC 6749 sections 4.3 and 6).

use actix_web::web::{Bytes, Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use iam_adapters::resilient::Operation;
use iam_adapters::{Credentials, IamError, Introspection, Permissions, Refusal, UpstreamSession};
use serde_json::{Value, json};

use super::realm::Realms;
use super::refresh_token::Claims;
use super::roles;
use super::told::{No, Told};
use super::unknown_realm;
use super::visit::Visit;
use crate::iam::{AccountState, Asked};
use crate::random;

/// How long an access token is good, in seconds. Nobody uses one here.
const ACCESS_TOKEN_LIFETIME: u64 = 300;

/// What it is good for.
const SCOPE: &str = "email profile";

/// A token is asked for.
pub(super) async fn grant(
    realms: Data<Realms>,
    name: Path<String>,
    request: HttpRequest,
    body: Bytes,
) -> HttpResponse {
    let Some(realm) = realms.find(&name) else {
        return unknown_realm();
    };
    let visit = Visit::of(&realms, &realm, &request, &body);
    let asked = visit.asked_for_a_grant();
    let truth = async || visit.granted().unwrap_or_else(Told::from);
    visit.answer(asked, truth).await
}

impl<'a> Visit<'a> {
    /// A login where there is a user. Whoever names none only wants to know whether a login would
    /// do, and a refresh is how a doubtful introspection is made sure of.
    fn asked_for_a_grant(&self) -> Asked<'a> {
        match (self.form.value("grant_type"), self.form.value("username")) {
            (Some("refresh_token"), _) => {
                self.asked_about(Operation::Introspection, self.form.value("refresh_token"))
            }
            (_, Some(user)) => {
                let mut asked = self.asked(Operation::Login);
                asked.call().user = Some(user.to_owned());
                asked
            }
            (_, None) => self.asked(Operation::Probe),
        }
    }

    fn granted(&self) -> Result<Told, No> {
        self.check_tls()?;
        self.check_enabled()?;
        let grant_type = self.form.value("grant_type").ok_or(No::NO_GRANT_TYPE)?;
        if !matches!(
            grant_type,
            "password" | "refresh_token" | "client_credentials"
        ) {
            return Err(No::GRANT_TYPE);
        }
        if self.form.repeats_itself() {
            return Err(No::REPEATED);
        }
        let client = self.client()?;
        match grant_type {
            "password" => self.logged_in(&client),
            "refresh_token" => self.refreshed(&client),
            _ => Err(No::SERVICE_ACCOUNT),
        }
    }

    fn logged_in(&self, client: &str) -> Result<Told, No> {
        if !self.realm.switches().direct_grants {
            return Err(No::DIRECT_GRANTS);
        }
        let username = self.form.value("username").ok_or(No::NO_USERNAME)?;
        let password = self.form.value("password").unwrap_or_default();
        // What cannot be an address is nobody's.
        let credentials = Credentials::new(username.to_owned(), password.into())
            .map_err(|_| No::login(Refusal::InvalidCredentials))?;
        let begun = self.realm.mock().directory().authenticate(&credentials);
        let begun = begun.map_err(|error| match error {
            IamError::Refused(refusal) => No::login(refusal),
            _ => No::failed(),
        })?;
        let now = self.realm.now();
        let lifetime = begun.expires_in.map_or(0, |lifetime| lifetime.as_secs());
        let times = (now, now.saturating_add(lifetime));
        let claims = Claims::of(&begun.session, &self.issuer, client, times);
        let permissions = begun.permissions.unwrap_or_default();
        let told = self.tokens(&claims, &begun.session, &permissions)?;
        Ok(Told {
            began: Some((begun.session.subject, begun.session.id)),
            ..told
        })
    }

    /// The session lives no longer for it: the realm's idle time is as long as a session may live
    /// at most, as is recommended before a gateway.
    fn refreshed(&self, client: &str) -> Result<Told, No> {
        let claims = self.refresh_token(client)?;
        let session = claims.session().ok_or(No::GARBAGE)?;
        if claims.exp <= self.realm.now() {
            return Err(No::EXPIRED);
        }
        let directory = self.realm.mock().directory();
        let Introspection::Active { permissions, .. } = directory.introspect(&session) else {
            let users = directory.users();
            let user = users.iter().find(|user| *user.subject() == session.subject);
            let disabled = user.is_some_and(|user| user.state() == AccountState::Disabled);
            return Err(if disabled {
                No::USER_DISABLED
            } else {
                No::SESSION_OVER
            });
        };
        let times = (self.realm.now(), claims.exp);
        let claims = Claims::of(&session, &self.issuer, client, times);
        self.tokens(&claims, &session, &permissions)
    }

    /// 200 of a grant (RFC 6749 section 5.1).
    fn tokens(
        &self,
        claims: &Claims,
        session: &UpstreamSession,
        permissions: &Permissions,
    ) -> Result<Told, No> {
        let left = claims.exp.saturating_sub(claims.iat);
        let lifetime = left.min(ACCESS_TOKEN_LIFETIME);
        let access = self.access_claims(claims, claims.iat + lifetime, permissions);
        let access = self.realms.keys.access_token(&access).ok_or(No::failed())?;
        let refresh = self.realm.refresh_key().sign(claims).ok_or(No::failed())?;
        Ok(Told::json(json!({
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
            "sub": refresh.sub,
            "typ": "Bearer",
            "azp": refresh.azp,
            "sid": refresh.sid,
            "acr": "1",
            "scope": SCOPE,
        });
        roles::add(
            &mut claims,
            &self.realms.portrait,
            &self.realm.name,
            permissions,
        );
        claims
    }
}
