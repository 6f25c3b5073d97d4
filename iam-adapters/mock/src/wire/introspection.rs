//! `POST …/token/introspect` (RFC 7662).

use actix_web::HttpResponse;
use iam_adapters::Introspection;
use iam_adapters::resilient::Operation;
use serde_json::{Value, json};

use super::request::RealmRequest;
use super::response::{OAuthError, RealmResponse};
use super::token::{add_roles, audience};
use crate::iam::journal::Outcome;

/// The introspection endpoint.
pub(super) async fn introspect(request: RealmRequest) -> HttpResponse {
    let request = request.with_wrong_secret_error(OAuthError::INTROSPECTION_SECRET);
    let token = request.form.value("token");
    // The gateway probes its client credentials with a text that is not a token.
    let is_probe = token.is_none_or(|token| !token.contains('.'));
    let call = if is_probe {
        request.begin_call(Operation::Probe)
    } else {
        request.begin_session_call(Operation::Introspection, token)
    };
    let handler = async || {
        request
            .introspect(is_probe)
            .unwrap_or_else(RealmResponse::from)
    };
    request.respond(call, handler).await
}

impl RealmRequest {
    fn introspect(&self, is_probe: bool) -> Result<RealmResponse, OAuthError> {
        self.check_tls()?;
        self.check_enabled()?;
        let client = self.client()?;
        let token = self.form.value("token").ok_or(OAuthError::NO_TOKEN)?;
        let inactive = || {
            let response = RealmResponse::inactive();
            // The expected response to a probe.
            let outcome = if is_probe {
                Outcome::Ok
            } else {
                response.outcome
            };
            Ok(RealmResponse {
                outcome,
                ..response
            })
        };
        match self.form.value("token_type_hint") {
            Some("refresh_token") => {}
            // The gateway's client is not the audience of an access token.
            Some("access_token") | None => return inactive(),
            Some(_) => return Err(OAuthError::TOKEN_TYPE),
        }
        let claims = self.realm.refresh_key.verify(token);
        let ours = claims.filter(|claims| claims.iss == self.issuer && claims.azp == client);
        let Some((claims, session)) = ours.and_then(|claims| {
            let session = claims.session()?;
            Some((claims, session))
        }) else {
            return inactive();
        };
        let directory = self.realm.mock.directory();
        let Introspection::Active { permissions, .. } = directory.introspect(&session) else {
            return inactive();
        };
        let user = directory.address_of(&session);
        let mut claims_of_token = Value::Object(directory.members_of(&session));
        let mut audience = audience(&self.realm, &permissions);
        audience.push(claims.aud.clone());
        let standard = json!({
            "exp": claims.exp,
            "iat": claims.iat,
            "iss": claims.iss,
            "jti": claims.id(),
            "scope": claims.scope,
            "aud": audience,
            "sub": claims.sub,
            "typ": "Refresh",
            "azp": claims.azp,
            "sid": claims.sid,
            "acr": "1",
            "email": user,
            "username": user,
            "client_id": claims.azp,
            "token_type": "Refresh",
            "active": true,
        });
        // As mappers of the client do at Keycloak. They do not replace the members of the token.
        if let (Value::Object(members), Value::Object(standard)) = (&mut claims_of_token, standard)
        {
            members.extend(standard);
        }
        add_roles(&mut claims_of_token, &self.realm, &permissions);
        Ok(RealmResponse::json(claims_of_token))
    }
}
