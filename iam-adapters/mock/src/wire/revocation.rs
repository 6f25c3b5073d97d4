//! `POST …/revoke` (RFC 7009). The gateway does not call it; other clients of the realm may.

use actix_web::HttpResponse;
use iam_adapters::resilient::Operation;

use super::request::RealmRequest;
use super::response::{OAuthError, RealmResponse};

/// The revocation endpoint.
pub(super) async fn revoke(request: RealmRequest) -> HttpResponse {
    let call = request.begin_session_call(Operation::Logout, request.form.value("token"));
    let handler = async || request.revoke().unwrap_or_else(RealmResponse::from);
    request.respond(call, handler).await
}

impl RealmRequest {
    /// A refresh token ends its session, without a logout token.
    fn revoke(&self) -> Result<RealmResponse, OAuthError> {
        self.check_tls()?;
        self.check_enabled()?;
        let client = self.client()?;
        let token = self.form.value("token");
        let token = token.ok_or(OAuthError::NO_REVOKED_TOKEN)?;
        let claims = self.realm.refresh_key.verify(token);
        let claims = claims.filter(|claims| claims.iss == self.issuer);
        let claims = claims.ok_or(OAuthError::REVOKED_TOKEN)?;
        if claims.azp != client {
            return Err(OAuthError::REVOKED_BY_OTHER);
        }
        let session = claims.session().ok_or(OAuthError::REVOKED_TOKEN)?;
        if !self.realm.mock.directory().end_session_by_id(&session.id) {
            return Err(OAuthError::REVOKED_TOKEN);
        }
        Ok(RealmResponse::empty())
    }
}
