//! The journal of calls to the mock. It contains no password, no session secret and no key.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use iam_adapters::error::{IamError, Refusal};
use iam_adapters::name::Name as _;
use iam_adapters::resilient::Operation;
use iam_adapters::types::Subject;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// The number of entries that are kept.
const KEPT: usize = 10_000;

/// One call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The operation.
    pub operation: Operation,
    /// The user's address: as sent with a login, otherwise as the IAM has it.
    pub user: Option<String>,
    /// The subject of the session.
    pub subject: Option<Subject>,
    /// The session of the call, or the one that it began.
    pub session: Option<String>,
    /// The id of the gateway's request, if the gateway sent it.
    pub request_id: Option<String>,
    /// The address of the gateway's client, if the gateway sent it.
    pub client_address: Option<IpAddr>,
    /// The outcome.
    pub outcome: Outcome,
    /// The id of the injected fault.
    pub fault: Option<u64>,
    /// The duration.
    pub took: Duration,
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Success.
    Ok,
    /// The session is inactive.
    Inactive,
    /// The login was refused.
    Refused(Refusal),
    /// A fault of this kind ([`IamError::kind`]).
    Fault(&'static str),
}

impl Outcome {
    /// The outcome's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Inactive => "inactive",
            Self::Refused(_) => "refused",
            Self::Fault(kind) => kind,
        }
    }

    /// The reason of a refused login.
    #[must_use]
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Refused(refusal) => Some(refusal.name()),
            Self::Ok | Self::Inactive | Self::Fault(_) => None,
        }
    }
}

impl From<&IamError> for Outcome {
    fn from(error: &IamError) -> Self {
        match error {
            IamError::Refused(refusal) => Self::Refused(*refusal),
            fault => Self::Fault(fault.kind()),
        }
    }
}

/// An entry of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Counts from 1. Clearing does not reset it.
    pub number: u64,
    /// When it ended, since 1970-01-01T00:00:00Z by the mock's clock.
    pub at: Duration,
    /// The call.
    pub call: Call,
}

/// Selects entries. Members that are none match every entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The operation.
    pub operation: Option<Operation>,
    /// The user's address, case-insensitive.
    pub user: Option<String>,
    /// The outcome's name.
    pub outcome: Option<String>,
    /// The request's id.
    pub request_id: Option<String>,
    /// The session.
    pub session: Option<String>,
    /// Only entries with a greater number.
    pub after: u64,
}

impl Filter {
    fn matches(&self, entry: &Entry) -> bool {
        let call = &entry.call;
        let same = |expected: &Option<String>, actual: Option<&str>| {
            expected
                .as_deref()
                .is_none_or(|expected| actual == Some(expected))
        };
        let user = |expected: &String| {
            let actual = call.user.as_ref();
            actual.is_some_and(|actual| actual.to_lowercase() == expected.to_lowercase())
        };
        entry.number > self.after
            && self
                .operation
                .is_none_or(|expected| expected == call.operation)
            && self.user.as_ref().is_none_or(user)
            && same(&self.outcome, Some(call.outcome.name()))
            && same(&self.request_id, call.request_id.as_deref())
            && same(&self.session, call.session.as_deref())
    }
}

/// The entries that match a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// How many entries match.
    pub count: usize,
    /// The number of the newest entry, matching or not; 0: there is none yet.
    pub last: u64,
    /// How many entries were dropped because of the limit. They are not counted.
    pub forgotten: u64,
    /// The newest matching entries, oldest first.
    pub entries: Vec<Entry>,
}

/// The last 10,000 calls.
#[derive(Default)]
pub struct Journal {
    state: Mutex<State>,
    recorded: Notify,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    last: u64,
    forgotten: u64,
}

impl Journal {
    /// Records a call that has ended.
    pub fn record(&self, at: Duration, call: Call) {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        if state.entries.len() >= KEPT {
            state.entries.pop_front();
            state.forgotten += 1;
        }
        state.entries.push_back(Entry { number, at, call });
        drop(state);
        self.recorded.notify_waiters();
    }

    /// The newest matching entries, up to `limit`, and the number of all matching entries.
    #[must_use]
    pub fn select(&self, filter: &Filter, limit: usize) -> Selection {
        let state = self.state.lock();
        let mut entries: Vec<_> = Vec::new();
        let mut count = 0;
        for entry in state.entries.iter().rev() {
            if entry.number <= filter.after {
                break;
            }
            if filter.matches(entry) {
                count += 1;
                if entries.len() < limit {
                    entries.push(entry.clone());
                }
            }
        }
        entries.reverse();
        Selection {
            count,
            last: state.last,
            forgotten: state.forgotten,
            entries,
        }
    }

    /// Waits until `count` entries match or the timeout passes. Returns whether they match.
    pub async fn wait(
        &self,
        filter: &Filter,
        count: usize,
        limit: usize,
        timeout: Duration,
    ) -> (bool, Selection) {
        let until = Instant::now() + timeout;
        loop {
            let recorded = self.recorded.notified();
            tokio::pin!(recorded);
            // Before the query, so that no entry is missed between query and wait.
            recorded.as_mut().enable();
            let found = self.select(filter, limit);
            if found.count >= count {
                return (true, found);
            }
            if timeout_at(until, recorded).await.is_err() {
                let found = self.select(filter, limit);
                return (found.count >= count, found);
            }
        }
    }

    /// The number of calls since the journal was cleared.
    #[must_use]
    pub fn calls(&self) -> u64 {
        let state = self.state.lock();
        state.forgotten + state.entries.len() as u64
    }

    /// Removes every entry. Numbers continue.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.entries.clear();
        state.forgotten = 0;
    }
}

/// Shows the number of calls only.
impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Journal({})", self.calls())
    }
}

#[cfg(test)]
mod tests;
