//! The namespace at a glance, and how the IAM answers now.

use actix_web::HttpResponse;
use iam_adapters::{IamAdapter as _, IamError};
use serde::Serialize;

use super::answer::{done, ok};
use super::call::Call;
use super::namespaces::Figures;
use super::refused::Refused;
use super::time::TimeTold;

/// `GET status`.
pub(super) async fn show(call: Call) -> HttpResponse {
    #[derive(Serialize)]
    struct Status {
        namespace: String,
        adapter: &'static str,
        time: TimeTold,
        #[serde(flatten)]
        figures: Figures,
        namespaces: usize,
    }

    let world = &call.world;
    ok(&Status {
        namespace: world.name.to_string(),
        adapter: if world.house.is_some() {
            "mock"
        } else {
            "mock-iam"
        },
        time: TimeTold::of(&world.clock),
        figures: Figures::of(world),
        namespaces: call.namespaces.count(),
    })
}

/// `POST probe`.
pub(super) async fn probe(call: Call) -> HttpResponse {
    #[derive(Serialize)]
    struct Probe {
        outcome: &'static str,
    }

    let probed = match &call.world.house {
        Some(house) => house.iam.probe().await,
        None => call.world.mock.probe().await,
    };
    let outcome = probed.as_ref().err().map_or("ok", IamError::kind);
    ok(&Probe { outcome })
}

/// `POST forget`: the gateway believes nothing of what the IAM said until now.
pub(super) async fn forget(call: Call) -> Result<HttpResponse, Refused> {
    call.house()?.front.gateway.in_step_again();
    Ok(done())
}
