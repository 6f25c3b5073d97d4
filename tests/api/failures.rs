//! The table of failures: the response to a client for every fault of the IAM, with a faulty
//! adapter and with a faulty IAM of each kind.

use std::ops::RangeInclusive;

use test_support::client::Response;
use test_support::scenario::STALE;

mod adapter_faults;
mod circuit;
mod logout;
mod logout_tokens;
mod misconfigured;
mod outage;
mod panics;
mod randomness;
mod readiness;
mod slow_wire;
mod stale;
mod wire;
mod wire_fixture;

/// The response to one kind of fault.
#[derive(Debug, Clone)]
struct Expected {
    /// The status by default.
    status: u16,
    /// The status with `http.precise_backend_status`.
    precise: u16,
    error: &'static str,
    retry_after: Option<RangeInclusive<u64>>,
}

const UNAVAILABLE: Expected = Expected {
    status: 500,
    precise: 503,
    error: "temporarily_unavailable",
    retry_after: Some(2..=3),
};
const TOO_SLOW: Expected = Expected {
    precise: 504,
    ..UNAVAILABLE
};
const BROKEN: Expected = Expected {
    status: 500,
    precise: 502,
    error: "server_error",
    retry_after: None,
};
const FULL: Expected = Expected {
    status: 503,
    ..UNAVAILABLE
};

/// The IAM asks for fewer calls, and for this pause.
const fn throttled(seconds: u64) -> Expected {
    Expected {
        status: 429,
        precise: 429,
        error: "temporarily_unavailable",
        retry_after: Some(seconds..=seconds),
    }
}

impl Expected {
    /// Panics unless this is the response.
    #[track_caller]
    fn is_in(&self, response: &Response, precise: bool, why: &str) {
        let status = if precise { self.precise } else { self.status };
        assert_eq!(response.status, status, "{why}: {}", response.text());
        response.is_error(status, self.error);
        let pause = response.headers.get("retry-after").map(|value| {
            let seconds = value.to_str().expect("text").parse();
            seconds.expect("whole seconds")
        });
        match (&self.retry_after, pause) {
            (None, None) => {}
            (Some(range), Some(pause)) if range.contains(&pause) => {}
            (expected, actual) => panic!("{why}: Retry-After is {actual:?}, not in {expected:?}"),
        }
        let challenge = response.headers.get("www-authenticate");
        assert_eq!(challenge, None, "{why}: a challenge for no lack of proof");
        assert_eq!(response.header("cache-control"), "no-store", "{why}");
    }
}

/// The setting `http.precise_backend_status`.
const fn precisely(precise: bool) -> (&'static str, &'static str) {
    let value = if precise { "true" } else { "false" };
    ("http.precise_backend_status", value)
}
