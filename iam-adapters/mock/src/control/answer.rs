//! The bodies of successes.

use std::time::Duration;

use actix_web::HttpResponse;
use jiff::Timestamp;
use serde::Serialize;

/// 200 with JSON.
pub(super) fn ok(body: &impl Serialize) -> HttpResponse {
    HttpResponse::Ok().json(body)
}

/// 201 with JSON.
pub(super) fn created(body: &impl Serialize) -> HttpResponse {
    HttpResponse::Created().json(body)
}

/// 204.
pub(super) fn done() -> HttpResponse {
    HttpResponse::NoContent().finish()
}

/// RFC 3339 in UTC, to the millisecond.
pub(super) fn time(unix: Duration) -> String {
    let millis = i64::try_from(unix.as_millis()).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_milliseconds_and_is_utc() {
        let at = Duration::from_micros(1_795_229_441_250_999);
        assert_eq!(time(at), "2026-11-21T02:50:41.250Z");
        assert_eq!(time(Duration::ZERO), "1970-01-01T00:00:00.000Z");
        assert!(time(Duration::MAX).starts_with("9999-"));
    }
}
