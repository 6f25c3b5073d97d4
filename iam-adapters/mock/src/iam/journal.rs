//! What the mock was asked, and what it answered. Never a password, a session's secret or a key.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iam_adapters::error::{IamError, Refusal};
use iam_adapters::resilient::Operation;
use iam_adapters::types::Subject;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How many calls are kept; older ones are forgotten.
const KEPT: usize = 10_000;

/// One call, once it is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What was asked.
    pub operation: Operation,
    /// The user's address: as it was sent with a login, otherwise as the IAM has it.
    pub user: Option<String>,
    /// Whose session it was about.
    pub subject: Option<Subject>,
    /// The session it was about, or began.
    pub session: Option<String>,
    /// The id of the request for which the gateway asked, where it told.
    pub request_id: Option<String>,
    /// The client for whom the gateway asked, where it told.
    pub client_address: Option<IpAddr>,
    /// How it ended.
    pub outcome: Outcome,
    /// The fault that it met.
    pub fault: Option<u64>,
    /// How long it took.
    pub took: Duration,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// As wished.
    Ok,
    /// The session is over.
    Inactive,
    /// The login was refused.
    Refused(Refusal),
    /// By a fault, of this kind ([`IamError::kind`]).
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

    /// Why a login was refused.
    #[must_use]
    pub const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Refused(refusal) => Some(refusal.kind()),
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

/// A call in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Counts from 1, also beyond what was cleared.
    pub number: u64,
    /// When it ended, since 1970-01-01T00:00:00Z by the mock's clock.
    pub at: Duration,
    /// The call.
    pub call: Call,
}

/// Which entries are meant; what is none does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// What was asked.
    pub operation: Option<Operation>,
    /// The user's address, upper and lower case being the same.
    pub user: Option<String>,
    /// The outcome's name.
    pub outcome: Option<String>,
    /// The request's id.
    pub request_id: Option<String>,
    /// Only what came after the entry of this number.
    pub after: u64,
}

impl Filter {
    fn fits(&self, entry: &Entry) -> bool {
        let call = &entry.call;
        let same = |asked: &Option<String>, there: Option<&str>| {
            asked.as_deref().is_none_or(|asked| there == Some(asked))
        };
        let user = |asked: &String| {
            let there = call.user.as_ref();
            there.is_some_and(|there| there.to_lowercase() == asked.to_lowercase())
        };
        entry.number > self.after
            && self.operation.is_none_or(|asked| asked == call.operation)
            && self.user.as_ref().is_none_or(user)
            && same(&self.outcome, Some(call.outcome.name()))
            && same(&self.request_id, call.request_id.as_deref())
    }
}

/// What a filter found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// How many entries fit.
    pub count: usize,
    /// The number of the newest entry, whether it fits or not; 0: there was none yet.
    pub last: u64,
    /// How many entries were forgotten because there were too many, and are not counted.
    pub forgotten: u64,
    /// The newest of those that fit, in order.
    pub entries: Vec<Entry>,
}

/// The last ten thousand calls.
#[derive(Default)]
pub struct Journal {
    written: Mutex<Written>,
    news: Notify,
}

#[derive(Default)]
struct Written {
    entries: VecDeque<Entry>,
    last: u64,
    forgotten: u64,
}

impl Journal {
    /// Writes down a call that is over.
    pub fn record(&self, at: Duration, call: Call) {
        let mut written = self.lock();
        written.last += 1;
        let number = written.last;
        if written.entries.len() >= KEPT {
            written.entries.pop_front();
            written.forgotten += 1;
        }
        written.entries.push_back(Entry { number, at, call });
        drop(written);
        self.news.notify_waiters();
    }

    /// The newest entries that fit, up to `limit`, and how many there are in all.
    #[must_use]
    pub fn select(&self, filter: &Filter, limit: usize) -> Selection {
        let written = self.lock();
        let mut entries: Vec<_> = Vec::new();
        let mut count = 0;
        for entry in written.entries.iter().rev() {
            if entry.number <= filter.after {
                break;
            }
            if filter.fits(entry) {
                count += 1;
                if entries.len() < limit {
                    entries.push(entry.clone());
                }
            }
        }
        entries.reverse();
        Selection {
            count,
            last: written.last,
            forgotten: written.forgotten,
            entries,
        }
    }

    /// Waits until so many entries fit, or the time is over; whether they did.
    pub async fn wait(
        &self,
        filter: &Filter,
        count: usize,
        limit: usize,
        patience: Duration,
    ) -> (bool, Selection) {
        let until = Instant::now() + patience;
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            // Before the look, so that nothing comes between the look and the wait.
            news.as_mut().enable();
            let found = self.select(filter, limit);
            if found.count >= count {
                return (true, found);
            }
            if timeout_at(until, news).await.is_err() {
                let found = self.select(filter, limit);
                return (found.count >= count, found);
            }
        }
    }

    /// How many calls there were since the journal was cleared.
    #[must_use]
    pub fn calls(&self) -> u64 {
        let written = self.lock();
        written.forgotten + written.entries.len() as u64
    }

    /// Forgets every call. Numbers go on.
    pub fn clear(&self) {
        let mut written = self.lock();
        written.entries.clear();
        written.forgotten = 0;
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows how much there is, and nobody's address.
impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Journal({})", self.calls())
    }
}

#[cfg(test)]
mod tests;
