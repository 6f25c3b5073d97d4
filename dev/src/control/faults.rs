//! Faults that the mock injects.

use actix_web::HttpResponse;
use actix_web::web::Path;
use mock_iam::faults::{Fault, InvalidRule, Rule};
use serde::Serialize;

use super::request::{Call, Json, number};
use super::response::{ControlError, created, no_content, ok};

/// `GET faults`.
pub(super) async fn list(call: Call) -> HttpResponse {
    #[derive(Serialize)]
    struct FaultsResponse {
        faults: Vec<Fault>,
    }

    let faults = call.namespace.mock.faults().list();
    ok(&FaultsResponse { faults })
}

/// `POST faults`.
pub(super) async fn add(call: Call<(), Json<Rule>>) -> Result<HttpResponse, ControlError> {
    let Json(rule) = call.body;
    let fault = call.namespace.mock.faults().add(rule)?;
    Ok(created(&fault))
}

/// `DELETE faults/{id}`.
pub(super) async fn remove(call: Call, id: Path<String>) -> Result<HttpResponse, ControlError> {
    if call.namespace.mock.faults().remove(number(&id)?) {
        Ok(no_content())
    } else {
        Err(ControlError::not_found(
            "there is no such fault; it may be used up",
        ))
    }
}

/// `DELETE faults`.
pub(super) async fn clear(call: Call) -> HttpResponse {
    call.namespace.mock.faults().clear();
    no_content()
}

impl From<InvalidRule> for ControlError {
    fn from(invalid: InvalidRule) -> Self {
        match invalid {
            InvalidRule::TooMany(_) => Self::conflict(invalid.to_string()),
            _ => Self::invalid(invalid.to_string()),
        }
    }
}
