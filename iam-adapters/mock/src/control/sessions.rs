//! The sessions of the mock, and their ends.

use actix_web::HttpResponse;
use actix_web::web::Path;
use serde::Serialize;

use super::answer::{ok, time};
use super::call::Call;
use super::query::{Given, Notify, Query};
use super::refused::Refused;
use crate::World;
use crate::iam::LiveSession;

/// `?user=EMAIL`.
pub(super) struct OfUser(Option<String>);

impl Query for OfUser {
    const NAMES: &'static [&'static str] = &["user"];

    fn read(given: &Given<'_>) -> Result<Self, Refused> {
        Ok(Self(given.text("user").map(str::to_owned)))
    }
}

/// `GET sessions`.
pub(super) async fn list(call: Call<OfUser>) -> Result<HttpResponse, Refused> {
    #[derive(Serialize)]
    struct SessionsTold<'a> {
        sessions: Vec<SessionTold<'a>>,
    }
    #[derive(Serialize)]
    struct SessionTold<'a> {
        id: &'a str,
        user: &'a str,
        subject: &'a str,
        began_at: String,
        expires_at: String,
    }

    let living = match &call.query.0 {
        Some(email) => of_user(&call.world, email)?,
        None => call.world.mock.directory().sessions(),
    };
    let told = living.iter().map(|session| SessionTold {
        id: &session.id,
        user: &session.user,
        subject: session.subject.as_str(),
        began_at: time(session.began_at),
        expires_at: time(session.expires_at),
    });
    Ok(ok(&SessionsTold {
        sessions: told.collect(),
    }))
}

/// `DELETE sessions/{id}`.
pub(super) async fn end(call: Call<Notify>, id: Path<String>) -> Result<HttpResponse, Refused> {
    let mut living = call.world.mock.directory().sessions();
    living.retain(|session| session.id == *id);
    if living.is_empty() {
        return Err(Refused::not_found("no such session lives"));
    }
    Ok(end_all(&call, living).await)
}

/// `DELETE sessions`.
pub(super) async fn end_every(call: Call<Notify>) -> HttpResponse {
    let living = call.world.mock.directory().sessions();
    end_all(&call, living).await
}

/// `DELETE users/{email}/sessions`.
pub(super) async fn end_of_user(
    call: Call<Notify>,
    email: Path<String>,
) -> Result<HttpResponse, Refused> {
    let living = of_user(&call.world, &email)?;
    Ok(end_all(&call, living).await)
}

fn of_user(world: &World, email: &str) -> Result<Vec<LiveSession>, Refused> {
    let directory = world.mock.directory();
    let (user, _) = directory.user_with_sessions(email)?;
    let mut living = directory.sessions();
    living.retain(|session| session.subject == *user.subject());
    Ok(living)
}

/// Ends these; all of them before anybody is told, as an IAM does.
async fn end_all(call: &Call<Notify>, mut living: Vec<LiveSession>) -> HttpResponse {
    #[derive(Serialize)]
    struct Ended {
        ended: usize,
        notified: usize,
    }

    let (world, directory) = (&call.world, call.world.mock.directory());
    // Somebody else may have been faster.
    living.retain(|session| directory.end_session_by_id(&session.id));
    let mut notified = 0;
    if call.query.notify {
        for session in &living {
            // One token for each, with `sid` and `sub`, as Keycloak does.
            let token = directory.logout_token(Some(&session.subject), Some(&session.id));
            if let Some(token) = token {
                notified += usize::from(world.receiver.receive(&token).await);
            }
        }
    }
    ok(&Ended {
        ended: living.len(),
        notified,
    })
}
