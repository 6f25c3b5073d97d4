//! The journal of calls to the mock, and waiting for calls.

use std::collections::HashMap;
use std::time::Duration;

use actix_web::HttpResponse;
use auth_gateway::health::Lifecycle;
use iam_adapters::name::Name as _;
use iam_adapters::resilient::Operation;
use mock_iam::Mock;
use mock_iam::journal::{self, Entry, Filter};
use serde::Serialize;
use tokio::time::sleep;

use super::request::{Call, Parameters, Query};
use super::response::{ControlError, no_content, ok, time};

/// The default of `limit`.
const LIMIT: usize = 100;

/// The default and the maximum of `timeout`.
const TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// How often a waiting call looks whether the process shuts down.
const DRAINING_POLL: Duration = Duration::from_millis(50);

/// Every [`journal::Outcome::name`].
const OUTCOMES: [&str; 9] = [
    "ok",
    "inactive",
    "refused",
    "unreachable",
    "timed_out",
    "throttled",
    "failed",
    "unreadable",
    "misconfigured",
];

/// Selects entries and limits their number.
pub(super) struct JournalQuery {
    filter: Filter,
    limit: usize,
}

impl Query for JournalQuery {
    const NAMES: &'static [&'static str] = &[
        "operation",
        "user",
        "outcome",
        "request_id",
        "session",
        "after",
        "limit",
    ];

    fn read(parameters: &Parameters<'_>) -> Result<Self, ControlError> {
        let text = |name| parameters.text(name).map(str::to_owned);
        let filter = Filter {
            operation: parameters.parsed(
                "operation",
                "login, introspection, logout, keys or probe",
                operation,
            )?,
            user: text("user"),
            outcome: parameters.parsed(
                "outcome",
                &format!("one of {}", OUTCOMES.join(", ")),
                outcome,
            )?,
            request_id: text("request_id"),
            session: text("session"),
            after: parameters.number("after")?.unwrap_or_default(),
        };
        let limit = parameters.number("limit")?.unwrap_or(LIMIT);
        Ok(Self { filter, limit })
    }
}

fn operation(name: &str) -> Option<Operation> {
    let mut all = Operation::ALL.iter().copied();
    all.find(|operation| operation.name() == name && *operation != Operation::Permissions)
}

fn outcome(name: &str) -> Option<String> {
    OUTCOMES.contains(&name).then(|| name.to_owned())
}

/// Selects entries, and the count and time to wait for.
pub(super) struct WaitQuery {
    query: JournalQuery,
    count: usize,
    timeout: Duration,
}

impl Query for WaitQuery {
    const NAMES: &'static [&'static str] = &[
        "operation",
        "user",
        "outcome",
        "request_id",
        "session",
        "after",
        "limit",
        "count",
        "timeout",
    ];

    fn read(parameters: &Parameters<'_>) -> Result<Self, ControlError> {
        Ok(Self {
            query: JournalQuery::read(parameters)?,
            count: parameters.number("count")?.unwrap_or(1),
            timeout: parameters
                .duration("timeout", TIMEOUT_MAX)?
                .unwrap_or(TIMEOUT),
        })
    }
}

#[derive(Serialize)]
struct JournalResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reached: Option<bool>,
    count: usize,
    last: u64,
    forgotten: u64,
    entries: Vec<EntryResponse<'a>>,
}

#[derive(Serialize)]
struct EntryResponse<'a> {
    number: u64,
    at: String,
    operation: &'static str,
    user: Option<&'a str>,
    subject: Option<&'a str>,
    session: Option<&'a str>,
    session_id: Option<&'a str>,
    request_id: Option<&'a str>,
    client_address: Option<String>,
    outcome: &'static str,
    reason: Option<&'static str>,
    fault: Option<u64>,
    took_ms: f64,
}

impl<'a> EntryResponse<'a> {
    fn of(Entry { number, at, call }: &'a Entry, session_ids: &'a HashMap<String, String>) -> Self {
        let session_id = call.session.as_ref().and_then(|id| session_ids.get(id));
        Self {
            number: *number,
            at: time(*at),
            operation: call.operation.name(),
            user: call.user.as_deref(),
            subject: call.subject.as_ref().map(iam_adapters::Subject::as_str),
            session: call.session.as_deref(),
            session_id: session_id.map(String::as_str),
            request_id: call.request_id.as_deref(),
            client_address: call.client_address.map(|address| address.to_string()),
            outcome: call.outcome.name(),
            reason: call.outcome.reason(),
            fault: call.fault,
            took_ms: call.took.as_secs_f64() * 1e3,
        }
    }
}

fn response(mock: &Mock, reached: Option<bool>, found: &journal::Selection) -> HttpResponse {
    let session_ids = mock.directory().gateway_session_ids();
    ok(&JournalResponse {
        reached,
        count: found.count,
        last: found.last,
        forgotten: found.forgotten,
        entries: (found.entries.iter())
            .map(|entry| EntryResponse::of(entry, &session_ids))
            .collect(),
    })
}

/// The filter, with the IAM's id of a session that was named by the gateway's.
fn with_own_id(filter: &Filter, mock: &Mock) -> Filter {
    let mut filter = filter.clone();
    let directory = mock.directory();
    let named = (filter.session.as_deref()).and_then(|id| directory.id_of_gateway_session(id));
    filter.session = named.or(filter.session);
    filter
}

/// `GET journal`.
pub(super) async fn show(call: Call<JournalQuery>) -> HttpResponse {
    let JournalQuery { filter, limit } = &call.query;
    let mock = &call.namespace.mock;
    let filter = with_own_id(filter, mock);
    response(mock, None, &mock.journal().select(&filter, *limit))
}

/// `GET journal/wait`. Ends early when the process shuts down.
pub(super) async fn wait(call: Call<WaitQuery>) -> HttpResponse {
    let WaitQuery {
        query: JournalQuery { filter, limit },
        count,
        timeout,
    } = &call.query;
    let mock = &call.namespace.mock;
    let (filter, journal) = (&with_own_id(filter, mock), mock.journal());
    tokio::select! {
        (reached, found) = journal.wait(filter, *count, *limit, *timeout) => {
            response(mock, Some(reached), &found)
        }
        () = draining(call.namespaces.lifecycle()) => {
            let found = journal.select(filter, *limit);
            response(mock, Some(found.count >= *count), &found)
        }
    }
}

/// Returns when the process refuses new requests.
async fn draining(lifecycle: &Lifecycle) {
    while !lifecycle.is_draining() {
        sleep(DRAINING_POLL).await;
    }
}

/// `DELETE journal`.
pub(super) async fn clear(call: Call) -> HttpResponse {
    call.namespace.mock.journal().clear();
    no_content()
}
