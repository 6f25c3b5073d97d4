//! A call to the mock: its injected fault and its journal entry.

use std::time::Duration;

use iam_adapters::error::{IamError, Misconfiguration};
use iam_adapters::resilient::Operation;
use tokio::time::{Instant, sleep};

use super::Mock;
use super::faults::Answer;
use super::journal::{Call, Outcome};

/// A call in progress. If it is dropped before it ended, for example after the gateway's deadline, the
/// journal records it as timed out.
#[derive(Debug)]
pub struct PendingCall<'a> {
    mock: &'a Mock,
    began: Instant,
    call: Call,
    ended: bool,
}

impl<'a> PendingCall<'a> {
    /// Begins a call.
    #[must_use]
    pub fn begin(mock: &'a Mock, operation: Operation) -> Self {
        Self {
            mock,
            began: Instant::now(),
            call: Call {
                operation,
                user: None,
                subject: None,
                session: None,
                request_id: None,
                client_address: None,
                outcome: Outcome::Fault("timed_out"),
                fault: None,
                took: Duration::ZERO,
            },
            ended: false,
        }
    }

    /// The journal entry so far.
    pub fn entry(&mut self) -> &mut Call {
        &mut self.call
    }

    /// Applies the delay of the next fault and returns its answer; none: perform the operation.
    pub async fn fault(&mut self) -> Option<Answer> {
        let call = &mut self.call;
        let applied = self
            .mock
            .faults
            .next(call.operation, call.user.as_deref())?;
        call.fault = Some(applied.id);
        if let Some(delay) = applied.delay {
            sleep(delay).await;
        }
        applied.answer
    }

    /// Records the call with this outcome.
    pub fn end(mut self, outcome: Outcome) {
        self.call.outcome = outcome;
        self.ended = true;
        self.write();
    }

    /// Records the call with the outcome of its result.
    pub(super) fn settle<T>(
        self,
        result: Result<T, IamError>,
        outcome: impl FnOnce(&T) -> Outcome,
    ) -> Result<T, IamError> {
        self.end(match &result {
            Ok(answer) => outcome(answer),
            Err(error) => error.into(),
        });
        result
    }

    fn write(&mut self) {
        self.call.took = self.began.elapsed();
        let at = self.mock.directory.now();
        self.mock.journal.record(at, self.call.clone());
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.write();
        }
    }
}

/// The error that a fault causes; none: it is not an error, or works over the wire only.
pub(super) fn error(answer: Answer, deadline: Duration) -> Option<IamError> {
    Some(match answer {
        Answer::Unreachable => IamError::Unreachable("injected by the mock".into()),
        Answer::Timeout => IamError::TimedOut(deadline),
        Answer::Throttled { retry_after } => IamError::Throttled { retry_after },
        Answer::ServerError => IamError::Failed("injected by the mock".to_owned()),
        Answer::Unreadable => IamError::Unreadable("injected by the mock".into()),
        Answer::Misconfigured => {
            IamError::misconfigured(Misconfiguration::ClientSecret, "injected by the mock")
        }
        Answer::Refused(reason) => IamError::Refused(reason),
        Answer::Inactive
        | Answer::AnotherSession
        | Answer::Reset
        | Answer::Truncated
        | Answer::Html
        | Answer::Redirect
        | Answer::HugeBody
        | Answer::SlowBody => return None,
    })
}
