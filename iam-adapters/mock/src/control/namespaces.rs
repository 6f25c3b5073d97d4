//! Namespaces: which there are, and how they begin anew.

use actix_web::HttpResponse;
use actix_web::web::Path;
use serde::Serialize;

use super::answer::{done, ok};
use super::call::Call;
use super::query::{Given, Query};
use super::refused::Refused;
use crate::{Forgetting, Name, World};

/// How much there is in a namespace.
#[derive(Serialize)]
pub(super) struct Figures {
    users: usize,
    /// Living ones.
    sessions: usize,
    faults: usize,
    calls: u64,
}

impl Figures {
    /// As of now.
    pub(super) fn of(world: &World) -> Self {
        let directory = world.mock.directory();
        Self {
            users: directory.users().len(),
            sessions: directory.living_session_count(),
            faults: world.mock.faults().len(),
            calls: world.mock.journal().calls(),
        }
    }
}

/// `GET namespaces`.
pub(super) async fn list(call: Call) -> HttpResponse {
    #[derive(Serialize)]
    struct NamespacesTold {
        namespaces: Vec<NamespaceTold>,
    }
    #[derive(Serialize)]
    struct NamespaceTold {
        name: String,
        #[serde(flatten)]
        figures: Figures,
    }

    let all = call.namespaces.all();
    let told = all.iter().map(|world| NamespaceTold {
        name: world.name.to_string(),
        figures: Figures::of(world),
    });
    ok(&NamespacesTold {
        namespaces: told.collect(),
    })
}

/// `DELETE namespaces/{name}`.
pub(super) async fn forget(call: Call, name: Path<String>) -> Result<HttpResponse, Refused> {
    call.namespaces.forget(&Name::parse(&name)?)?;
    Ok(done())
}

/// `?all=true`.
pub(super) struct All(bool);

impl Query for All {
    const NAMES: &'static [&'static str] = &["all"];

    fn read(given: &Given<'_>) -> Result<Self, Refused> {
        Ok(Self(given.flag("all")?))
    }
}

/// `POST reset`.
pub(super) async fn reset(call: Call<All>) -> Result<HttpResponse, Refused> {
    if call.query.0 {
        call.namespaces.reset_all();
    } else {
        call.namespaces.reset(&call.world.name)?;
    }
    Ok(done())
}

impl From<Forgetting> for Refused {
    fn from(error: Forgetting) -> Self {
        match error {
            Forgetting::Unknown => Self::not_found(error.to_string()),
            Forgetting::Default => {
                Self::conflict(format!("{error}; `POST /mock/v1/reset` makes it new"))
            }
        }
    }
}
