//! `POST …/token/introspect` (RFC 7662).

use actix_web::web::{Bytes, Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use iam_adapters::Introspection;
use iam_adapters::resilient::Operation;
use serde_json::json;

use super::realm::Realms;
use super::roles;
use super::told::{No, Told};
use super::unknown_realm;
use super::visit::Visit;

/// A token is asked about.
pub(super) async fn introspect(
    realms: Data<Realms>,
    name: Path<String>,
    request: HttpRequest,
    body: Bytes,
) -> HttpResponse {
    let Some(realm) = realms.find(&name) else {
        return unknown_realm();
    };
    let visit = Visit::of(&realms, &realm, &request, &body);
    let visit = visit.refusing_secrets_by(No::INTROSPECTION_SECRET);
    let token = visit.form.value("token");
    // Who asks about what is no token at all wants to know whether it may ask.
    let made_up = token.is_none_or(|token| !token.contains('.'));
    let asked = if made_up {
        visit.asked(Operation::Probe)
    } else {
        visit.asked_about(Operation::Introspection, token)
    };
    let truth = async || visit.seen(made_up).unwrap_or_else(Told::from);
    visit.answer(asked, truth).await
}

impl Visit<'_> {
    fn seen(&self, made_up: bool) -> Result<Told, No> {
        self.check_tls()?;
        self.check_enabled()?;
        let client = self.client()?;
        let token = self.form.value("token").ok_or(No::NO_TOKEN)?;
        let inactive = || {
            let told = Told::inactive();
            // The right answer to a probe.
            let outcome = if made_up {
                Told::done().outcome
            } else {
                told.outcome
            };
            Ok(Told { outcome, ..told })
        };
        match self.form.value("token_type_hint") {
            Some("refresh_token") => {}
            // For an access token the gateway's client is not the audience.
            Some("access_token") | None => return inactive(),
            Some(_) => return Err(No::TOKEN_TYPE),
        }
        let claims = self.realm.refresh_key().verify(token);
        let ours = claims.filter(|claims| claims.iss == self.issuer && claims.azp == client);
        let Some((claims, session)) = ours.and_then(|claims| {
            let session = claims.session()?;
            Some((claims, session))
        }) else {
            return inactive();
        };
        let directory = self.realm.mock().directory();
        let Introspection::Active { permissions, .. } = directory.introspect(&session) else {
            return inactive();
        };
        let user = directory.address_of(&session);
        let mut said = json!({
            "exp": claims.exp,
            "iat": claims.iat,
            "iss": claims.iss,
            "aud": claims.aud,
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
        roles::add(
            &mut said,
            &self.realms.portrait,
            &self.realm.name,
            &permissions,
        );
        Ok(Told::json(said))
    }
}
