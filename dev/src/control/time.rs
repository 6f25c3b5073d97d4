//! The clock of a namespace: of its IAM and of its gateway.

use std::time::Duration;

use actix_web::HttpResponse;
use iam_adapters::Clock as _;
use jiff::Timestamp;
use mock_iam::{ShiftError, ShiftedClock};
use serde::{Deserialize, Serialize};

use super::request::{Call, Json};
use super::response::{ControlError, ok, time};

/// The time of a namespace.
#[derive(Serialize)]
pub(super) struct TimeResponse {
    now: String,
    offset_seconds: f64,
}

impl TimeResponse {
    /// The time now.
    pub(super) fn of(clock: &ShiftedClock) -> Self {
        Self {
            now: time(clock.now().unix),
            offset_seconds: clock.offset().seconds(),
        }
    }
}

/// `GET time`.
pub(super) async fn show(call: Call) -> HttpResponse {
    ok(&TimeResponse::of(&call.namespace.clock))
}

/// The time to advance by.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdvanceRequest {
    #[serde(with = "humantime_serde")]
    by: Duration,
}

/// `POST time/advance`.
pub(super) async fn advance(
    call: Call<(), Json<AdvanceRequest>>,
) -> Result<HttpResponse, ControlError> {
    let Json(AdvanceRequest { by }) = call.body;
    call.namespace.clock.advance(by)?;
    Ok(ok(&TimeResponse::of(&call.namespace.clock)))
}

/// The time to set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetTimeRequest {
    now: Timestamp,
}

/// `PUT time`.
pub(super) async fn set(
    call: Call<(), Json<SetTimeRequest>>,
) -> Result<HttpResponse, ControlError> {
    let Json(SetTimeRequest { now }) = call.body;
    let unix = Duration::try_from(now.as_duration()).map_err(|_| ShiftError::OutOfRange)?;
    call.namespace.clock.set(unix)?;
    Ok(ok(&TimeResponse::of(&call.namespace.clock)))
}

/// `DELETE time`.
pub(super) async fn reset(call: Call) -> HttpResponse {
    call.namespace.clock.reset();
    ok(&TimeResponse::of(&call.namespace.clock))
}

impl From<ShiftError> for ControlError {
    fn from(error: ShiftError) -> Self {
        match error {
            ShiftError::OutOfRange => Self::invalid(error.to_string()),
            ShiftError::Exhausted => Self::conflict(format!("{error} with `POST /mock/v1/reset`")),
        }
    }
}
