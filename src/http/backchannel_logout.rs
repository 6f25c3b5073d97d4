//! `POST /api/v1/auth/backchannel-logout`: what the IAM calls when a session ended there (OpenID
//! Connect Back-Channel Logout 1.0 section 2.5).

use std::borrow::Cow;

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use iam_adapters::logout_token::Ended;
use url::form_urlencoded;

use super::AppState;
use super::audited::Origin;
use super::auth::with_log;
use super::body::{self, no_store};
use super::problem::{InvalidRequest, Operation, Problem};
use crate::audit::{Decision, Event};
use crate::gateway::error::GatewayError;
use crate::gateway::{EndedByIam, ReceivedLogoutToken};
use crate::telemetry::metrics::LogoutTokenOutcome;

const LOGOUT_TOKEN: &str = "logout_token";

/// Independent of the limits of logins and logouts, so that an IAM may call it during either.
pub(super) async fn receive(
    app_state: Data<AppState>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let origin = Origin::of(&request);
    let sender = origin.address;
    let audit = |decision, accepted: Option<(&str, &EndedByIam)>| {
        app_state.audit.record(|ids| Event::LogoutToken {
            decision,
            request: origin.request(ids),
            iam: accepted.map(|(iam, _)| iam.to_owned()),
            ended: accepted.map(|(_, by_iam)| match by_iam.ended {
                Ended::Session(_) => "session",
                Ended::AllOf(_) => "subject",
            }),
            subject: accepted.and_then(|(_, by_iam)| by_iam.sub.clone()),
        });
    };
    let count = |outcome, iam| {
        let iam = app_state.gateway.iams().attributed(iam);
        app_state.metrics.logout_token(outcome, iam);
    };
    let now = app_state.gateway.now();
    if let Some(seconds) =
        sender.and_then(|sender| app_state.logout_token_limiter.retry_after(sender, now))
    {
        count(LogoutTokenOutcome::TurnedAway, None);
        audit(Decision::refused("too_many_invalid"), None);
        return Err(Problem::InvalidLogoutTokens(seconds));
    }
    let body = body::read_form(&request, payload, &app_state).await?;
    let token = logout_token(&body).map_err(Problem::InvalidRequest)?;
    let ReceivedLogoutToken { iam, result } = app_state.gateway.receive_logout_token(&token).await;
    with_log(&request, |log| log.iam.clone_from(&iam));
    let iam = iam.as_deref();
    audit(Decision::of(&result), iam.zip(result.as_ref().ok()));
    if let Some(outcome) = LogoutTokenOutcome::of(&result) {
        count(outcome, iam);
    }
    if let Some(sender) = sender {
        match &result {
            Ok(_) => app_state.logout_token_limiter.record_valid(sender, now),
            Err(GatewayError::InvalidLogoutToken(_)) => {
                app_state.logout_token_limiter.record_invalid(sender, now);
            }
            Err(_) => {}
        }
    }
    result.map_err(|error| app_state.failed(Operation::BackchannelLogout, error))?;
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
