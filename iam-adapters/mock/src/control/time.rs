//! The clock of the mock, and of the gateway before it.

use std::time::Duration;

use actix_web::HttpResponse;
use iam_adapters::Clock as _;
use iam_adapters::clock::{OutOfRange, ShiftedClock};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::answer::{ok, time};
use super::body::Json;
use super::call::Call;
use super::refused::Refused;

/// The time in a namespace.
#[derive(Serialize)]
pub(super) struct TimeTold {
    now: String,
    offset_seconds: f64,
}

impl TimeTold {
    /// As of now.
    pub(super) fn of(clock: &ShiftedClock) -> Self {
        Self {
            now: time(clock.now().unix),
            offset_seconds: clock.offset().seconds(),
        }
    }
}

/// `GET time`.
pub(super) async fn show(call: Call) -> HttpResponse {
    ok(&TimeTold::of(&call.world.clock))
}

/// How far to go.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Advance {
    #[serde(with = "humantime_serde")]
    by: Duration,
}

/// `POST time/advance`.
pub(super) async fn advance(call: Call<(), Json<Advance>>) -> Result<HttpResponse, Refused> {
    let Json(Advance { by }) = call.body;
    call.world.clock.advance(by)?;
    Ok(ok(&TimeTold::of(&call.world.clock)))
}

/// Where to go.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetTime {
    now: Timestamp,
}

/// `PUT time`.
pub(super) async fn set(call: Call<(), Json<SetTime>>) -> Result<HttpResponse, Refused> {
    let Json(SetTime { now }) = call.body;
    let unix = Duration::try_from(now.as_duration()).map_err(|_| OutOfRange)?;
    call.world.clock.set(unix)?;
    Ok(ok(&TimeTold::of(&call.world.clock)))
}

/// `DELETE time`.
pub(super) async fn reset(call: Call) -> HttpResponse {
    call.world.clock.reset();
    ok(&TimeTold::of(&call.world.clock))
}

impl From<OutOfRange> for Refused {
    fn from(error: OutOfRange) -> Self {
        Self::invalid(error.to_string())
    }
}
