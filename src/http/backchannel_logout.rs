//! `POST /api/v1/auth/backchannel-logout`: what the IAM calls when a session ended there (OpenID
//! Connect Back-Channel Logout 1.0 section 2.5).

use std::borrow::Cow;

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use url::form_urlencoded;

use super::api_error::{ApiError, FORM, InvalidRequest};
use super::app_state::AppState;
use super::body;
use super::caching::no_store;
use super::middleware::request_context;

const LOGOUT_TOKEN: &str = "logout_token";

/// Independent of the limits of logins and logouts, so that an IAM may call it during either.
pub(super) async fn receive(
    app_state: Data<AppState>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let (gateway, context) = (&app_state.gateway, &request_context(&request));
    // Also of a sender that is refused: with an unread body, each of its tokens would need a new connection, which
    // costs more.
    let body = body::read(FORM, &request, payload, &app_state).await?;
    gateway
        .admit_logout_token(context)
        .map_err(ApiError::Gateway)?;
    let token = logout_token(&body).map_err(ApiError::InvalidRequest)?;
    (gateway.receive_logout_token(context, &token).await).map_err(ApiError::Gateway)?;
    let mut response = HttpResponse::Ok();
    no_store(&mut response);
    Ok(response.finish())
}

/// The one parameter of that name. Others are ignored, as section 2.5 requires.
fn logout_token(body: &[u8]) -> Result<Cow<'_, str>, InvalidRequest> {
    let mut tokens = form_urlencoded::parse(body)
        .filter(|(name, _)| name == LOGOUT_TOKEN)
        .map(|(_, token)| token);
    match (tokens.next(), tokens.next()) {
        (Some(token), None) => Ok(token),
        (None, _) => Err(InvalidRequest::MissingParameter(LOGOUT_TOKEN)),
        (Some(_), Some(_)) => Err(InvalidRequest::RepeatedParameter(LOGOUT_TOKEN)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_exactly_one_logout_token() {
        for (body, token) in [
            ("logout_token=a.b.c", "a.b.c"),
            ("more=1&logout_token=a.b.c&more=2&", "a.b.c"),
            ("logout%5Ftoken=a%2Eb.c", "a.b.c"),
            ("logout_token=", ""),
        ] {
            let found = logout_token(body.as_bytes());
            assert_eq!(found.expect(body), token);
        }
        for body in [
            "",
            "&",
            "logout_token2=a",
            "LOGOUT_TOKEN=a",
            "token=a",
            "{\"logout_token\":\"a\"}",
            "logout_token=a&logout_token=a",
            "logout_token=a&logout%5Ftoken=b",
        ] {
            assert!(logout_token(body.as_bytes()).is_err(), "{body}");
        }
    }
}
