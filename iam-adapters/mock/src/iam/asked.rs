//! One call to the mock: the fault that it meets, and its entry in the journal.

use std::time::Duration;

use iam_adapters::error::{IamError, Misconfiguration};
use iam_adapters::resilient::Operation;
use tokio::time::{Instant, sleep};

use super::Mock;
use super::faults::Answer;
use super::journal::{Call, Outcome};

/// A call under way. One that is dropped before it ended, as by a gateway whose deadline passed,
/// goes into the journal as timed out.
#[derive(Debug)]
pub struct Asked<'a> {
    mock: &'a Mock,
    began: Instant,
    call: Call,
    ended: bool,
}

impl<'a> Asked<'a> {
    /// A call of which no more than this is known yet.
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

    /// What is known of the call, to be told as it becomes known.
    pub fn call(&mut self) -> &mut Call {
        &mut self.call
    }

    /// Waits as long as a fault wants, and tells what it answers; none: the truth.
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

    /// Writes the call down as over, with this end.
    pub fn end(mut self, outcome: Outcome) {
        self.call.outcome = outcome;
        self.ended = true;
        self.write();
    }

    /// Writes the call down with the end that follows from its result.
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

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.write();
        }
    }
}

/// What a fault looks like to the gateway; none: it is an answer, or needs a wire.
pub(super) fn error(answer: Answer, deadline: Duration) -> Option<IamError> {
    Some(match answer {
        Answer::Unreachable => IamError::Unreachable("as the mock was told".to_owned()),
        Answer::Timeout => IamError::TimedOut(deadline),
        Answer::Throttled { retry_after } => IamError::Throttled { retry_after },
        Answer::ServerError => IamError::Failed("as the mock was told".to_owned()),
        Answer::Unreadable => IamError::Unreadable("as the mock was told".to_owned()),
        Answer::Misconfigured => {
            IamError::misconfigured(Misconfiguration::ClientSecret, "as the mock was told")
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
