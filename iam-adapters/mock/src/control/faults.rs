//! Trouble on demand.

use actix_web::HttpResponse;
use actix_web::web::Path;
use serde::Serialize;

use super::answer::{created, done, ok};
use super::body::Json;
use super::call::{Call, number};
use super::refused::Refused;
use crate::iam::faults::{Fault, InvalidRule, Rule};

/// `GET faults`.
pub(super) async fn list(call: Call) -> HttpResponse {
    #[derive(Serialize)]
    struct FaultsTold {
        faults: Vec<Fault>,
    }

    let faults = call.world.mock.faults().list();
    ok(&FaultsTold { faults })
}

/// `POST faults`.
pub(super) async fn add(call: Call<(), Json<Rule>>) -> Result<HttpResponse, Refused> {
    let Json(rule) = call.body;
    let fault = call.world.mock.faults().add(rule)?;
    Ok(created(&fault))
}

/// `DELETE faults/{id}`.
pub(super) async fn remove(call: Call, id: Path<String>) -> Result<HttpResponse, Refused> {
    if call.world.mock.faults().remove(number(&id)?) {
        Ok(done())
    } else {
        Err(Refused::not_found("no such fault; it may be used up"))
    }
}

/// `DELETE faults`.
pub(super) async fn clear(call: Call) -> HttpResponse {
    call.world.mock.faults().clear();
    done()
}

impl From<InvalidRule> for Refused {
    fn from(invalid: InvalidRule) -> Self {
        match invalid {
            InvalidRule::TooMany(_) => Self::conflict(invalid.to_string()),
            _ => Self::invalid(invalid.to_string()),
        }
    }
}
