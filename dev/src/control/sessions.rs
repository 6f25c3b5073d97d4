//! The sessions of the mock.

use actix_web::HttpResponse;
use actix_web::web::Path;
use mock_iam::LiveSession;
use serde::Serialize;

use super::request::{Call, Notify, Parameters, Query};
use super::response::{ControlError, ok, time};
use crate::Namespace;

/// `?user=EMAIL`: only the sessions of this user.
pub(super) struct SessionsQuery(Option<String>);

impl Query for SessionsQuery {
    const NAMES: &'static [&'static str] = &["user"];

    fn read(parameters: &Parameters<'_>) -> Result<Self, ControlError> {
        Ok(Self(parameters.text("user").map(str::to_owned)))
    }
}

/// `GET sessions`.
pub(super) async fn list(call: Call<SessionsQuery>) -> Result<HttpResponse, ControlError> {
    #[derive(Serialize)]
    struct SessionsResponse<'a> {
        sessions: Vec<SessionResponse<'a>>,
    }
    #[derive(Serialize)]
    struct SessionResponse<'a> {
        id: &'a str,
        session_id: Option<&'a str>,
        user: &'a str,
        subject: &'a str,
        began_at: String,
        expires_at: String,
    }

    let sessions = match &call.query.0 {
        Some(email) => of_user(&call.namespace, email)?,
        None => call.namespace.mock.directory().sessions(),
    };
    let sessions = sessions.iter().map(|session| SessionResponse {
        id: &session.id,
        session_id: session.gateway_id.as_deref(),
        user: &session.user,
        subject: session.subject.as_str(),
        began_at: time(session.began_at),
        expires_at: time(session.expires_at),
    });
    Ok(ok(&SessionsResponse {
        sessions: sessions.collect(),
    }))
}

/// `DELETE sessions/{id}`.
pub(super) async fn end(
    call: Call<Notify>,
    id: Path<String>,
) -> Result<HttpResponse, ControlError> {
    let mut sessions = call.namespace.mock.directory().sessions();
    sessions.retain(|session| session.id == *id || session.gateway_id.as_ref() == Some(&*id));
    if sessions.is_empty() {
        return Err(ControlError::not_found("there is no such active session"));
    }
    Ok(end_all(&call, sessions).await)
}

/// `DELETE sessions`.
pub(super) async fn end_every(call: Call<Notify>) -> HttpResponse {
    let sessions = call.namespace.mock.directory().sessions();
    end_all(&call, sessions).await
}

/// `DELETE users/{email}/sessions`.
pub(super) async fn end_of_user(
    call: Call<Notify>,
    email: Path<String>,
) -> Result<HttpResponse, ControlError> {
    let sessions = of_user(&call.namespace, &email)?;
    Ok(end_all(&call, sessions).await)
}

fn of_user(namespace: &Namespace, email: &str) -> Result<Vec<LiveSession>, ControlError> {
    let directory = namespace.mock.directory();
    let (user, _) = directory.user_with_sessions(email)?;
    let mut sessions = directory.sessions();
    sessions.retain(|session| session.subject == *user.subject());
    Ok(sessions)
}

/// Ends these sessions, and sends the logout tokens after all have ended, as an IAM does.
async fn end_all(call: &Call<Notify>, mut sessions: Vec<LiveSession>) -> HttpResponse {
    #[derive(Serialize)]
    struct EndResponse {
        ended: usize,
        notified: usize,
    }

    let (namespace, directory) = (&call.namespace, call.namespace.mock.directory());
    // A concurrent call may have ended some of them.
    sessions.retain(|session| directory.end_session_by_id(&session.id));
    let mut notified = 0;
    if call.query.notify {
        for session in &sessions {
            let sent = namespace.notify_logout(&session.subject, &session.id);
            notified += usize::from(sent.await);
        }
    }
    ok(&EndResponse {
        ended: sessions.len(),
        notified,
    })
}
