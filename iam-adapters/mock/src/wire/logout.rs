//! `POST …/logout` with a refresh token: the session ends, for every client that shares it.

use std::sync::Arc;

use actix_web::web::{Bytes, Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use iam_adapters::resilient::Operation;

use super::backchannel::RealmLogoutNotifier;
use super::realm::Realms;
use super::request::RealmRequest;
use super::response::{OAuthError, RealmResponse};
use super::unknown_realm;
use crate::iam::journal::Outcome;
use crate::{LogoutNotifier as _, ShiftedClock};

/// The logout endpoint.
pub(super) async fn log_out(
    realms: Data<Realms>,
    name: Path<String>,
    request: HttpRequest,
    body: Bytes,
) -> HttpResponse {
    let Some(realm) = realms.find(&name) else {
        return unknown_realm();
    };
    let request = RealmRequest::new(&realms, &realm, &request, &body);
    let token = request.form.value("refresh_token");
    let call = request.begin_session_call(Operation::Logout, token);
    let handler = async || {
        request
            .end_session()
            .await
            .unwrap_or_else(RealmResponse::from)
    };
    request.respond(call, handler).await
}

impl RealmRequest<'_> {
    /// Sends the logout token before the response, as Keycloak does. A disabled realm allows logout.
    async fn end_session(&self) -> Result<RealmResponse, OAuthError> {
        self.check_tls()?;
        if self.form.value("refresh_token").is_none() {
            // A logout by a browser.
            return Ok(RealmResponse::page(Outcome::Ok));
        }
        let client = self.client()?;
        let claims = self.refresh_token(&client)?;
        let session = claims.session().ok_or(OAuthError::GARBAGE)?;
        if self.realm.mock().directory().end_session_by_id(&session.id) {
            let notifier = RealmLogoutNotifier {
                backchannel: self.realms.backchannel.clone(),
                keys: Arc::clone(&self.realms.keys),
                issuer: claims.iss.clone(),
                audience: client,
                clock: Arc::<ShiftedClock>::clone(&self.realm.namespace.clock),
            };
            notifier.notify(&session.subject, &session.id).await;
        }
        Ok(RealmResponse::no_content())
    }
}
