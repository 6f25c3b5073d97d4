//! What the mock was asked, and waiting for it.

use std::time::Duration;

use actix_web::HttpResponse;
use iam_adapters::resilient::Operation;
use serde::Serialize;

use super::answer::{done, ok, time};
use super::call::Call;
use super::query::{Given, Query};
use super::refused::Refused;
use crate::iam::journal::{self, Entry, Filter};

/// How many entries are told where nothing is said.
const LIMIT: usize = 100;

/// How long is waited where nothing is said, and at most.
const PATIENCE: Duration = Duration::from_secs(5);
const PATIENCE_MAX: Duration = Duration::from_secs(60);

/// How calls end, as [`journal::Outcome::name`] has them.
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

/// Which calls are meant, and how many of them are told.
pub(super) struct Asked {
    filter: Filter,
    limit: usize,
}

impl Query for Asked {
    const NAMES: &'static [&'static str] = &[
        "operation",
        "user",
        "outcome",
        "request_id",
        "after",
        "limit",
    ];

    fn read(given: &Given<'_>) -> Result<Self, Refused> {
        let text = |name| given.text(name).map(str::to_owned);
        let filter = Filter {
            operation: given.parsed(
                "operation",
                "login, introspection, logout, keys or probe",
                operation,
            )?,
            user: text("user"),
            outcome: given.parsed(
                "outcome",
                &format!("one of {}", OUTCOMES.join(", ")),
                outcome,
            )?,
            request_id: text("request_id"),
            after: given.number("after")?.unwrap_or_default(),
        };
        let limit = given.number("limit")?.unwrap_or(LIMIT);
        Ok(Self { filter, limit })
    }
}

fn operation(name: &str) -> Option<Operation> {
    let mut all = Operation::ALL.into_iter();
    all.find(|operation| operation.name() == name)
}

fn outcome(name: &str) -> Option<String> {
    OUTCOMES.contains(&name).then(|| name.to_owned())
}

/// The same, how many of them, and how long to wait for that.
pub(super) struct Awaited {
    asked: Asked,
    count: usize,
    patience: Duration,
}

impl Query for Awaited {
    const NAMES: &'static [&'static str] = &[
        "operation",
        "user",
        "outcome",
        "request_id",
        "after",
        "limit",
        "count",
        "timeout",
    ];

    fn read(given: &Given<'_>) -> Result<Self, Refused> {
        Ok(Self {
            asked: Asked::read(given)?,
            count: given.number("count")?.unwrap_or(1),
            patience: given.duration("timeout", PATIENCE_MAX)?.unwrap_or(PATIENCE),
        })
    }
}

#[derive(Serialize)]
struct SelectionTold<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reached: Option<bool>,
    count: usize,
    last: u64,
    forgotten: u64,
    entries: Vec<EntryTold<'a>>,
}

#[derive(Serialize)]
struct EntryTold<'a> {
    number: u64,
    at: String,
    operation: &'static str,
    user: Option<&'a str>,
    subject: Option<&'a str>,
    session: Option<&'a str>,
    request_id: Option<&'a str>,
    client_address: Option<String>,
    outcome: &'static str,
    reason: Option<&'static str>,
    fault: Option<u64>,
    took_ms: f64,
}

impl<'a> EntryTold<'a> {
    fn of(Entry { number, at, call }: &'a Entry) -> Self {
        Self {
            number: *number,
            at: time(*at),
            operation: call.operation.name(),
            user: call.user.as_deref(),
            subject: call.subject.as_ref().map(iam_adapters::Subject::as_str),
            session: call.session.as_deref(),
            request_id: call.request_id.as_deref(),
            client_address: call.client_address.map(|address| address.to_string()),
            outcome: call.outcome.name(),
            reason: call.outcome.reason(),
            fault: call.fault,
            took_ms: call.took.as_secs_f64() * 1e3,
        }
    }
}

fn told(reached: Option<bool>, found: &journal::Selection) -> HttpResponse {
    ok(&SelectionTold {
        reached,
        count: found.count,
        last: found.last,
        forgotten: found.forgotten,
        entries: found.entries.iter().map(EntryTold::of).collect(),
    })
}

/// `GET journal`.
pub(super) async fn show(call: Call<Asked>) -> HttpResponse {
    let Asked { filter, limit } = &call.query;
    told(None, &call.world.mock.journal().select(filter, *limit))
}

/// `GET journal/wait`. Holds nobody up; ends early where the process does.
pub(super) async fn wait(call: Call<Awaited>) -> HttpResponse {
    let Awaited {
        asked: Asked { filter, limit },
        count,
        patience,
    } = &call.query;
    let journal = call.world.mock.journal();
    tokio::select! {
        (reached, found) = journal.wait(filter, *count, *limit, *patience) => {
            told(Some(reached), &found)
        }
        () = call.namespaces.lifecycle().drained() => {
            let found = journal.select(filter, *limit);
            told(Some(found.count >= *count), &found)
        }
    }
}

/// `DELETE journal`.
pub(super) async fn clear(call: Call) -> HttpResponse {
    call.world.mock.journal().clear();
    done()
}
