//! `POST …/logout` with a refresh token: the session ends, for every client that shares it.

use actix_web::HttpResponse;
use iam_adapters::resilient::Operation;

use super::request::RealmRequest;
use super::response::{OAuthError, RealmResponse};
use crate::iam::journal::Outcome;

/// The logout endpoint.
pub(super) async fn log_out(request: RealmRequest) -> HttpResponse {
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

impl RealmRequest {
    /// Sends the logout token before the response, as Keycloak does. A disabled realm allows logout.
    async fn end_session(&self) -> Result<RealmResponse, OAuthError> {
        self.check_tls()?;
        if self.form.value("refresh_token").is_none() {
            // A logout by a browser.
            return Ok(RealmResponse::page(Outcome::Ok));
        }
        let client = self.client()?;
        let claims = self.refresh_token()?;
        claims.check_client(&client)?;
        let session = claims.session().ok_or(OAuthError::GARBAGE)?;
        if self.realm.mock.directory().end_session_by_id(&session.id) {
            let parties = (claims.iss.as_str(), client.as_str());
            self.realm
                .send_logout_token(parties, &session.subject, &session.id)
                .await;
        }
        Ok(RealmResponse::no_content())
    }
}
