//! The way of one operation to the IAM: a place, the circuit, a deadline, and who is told.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::breaker::{Breaker, Permit};
use super::{Limit, Observer, Operation};
use crate::error::IamError;

/// How many calls may wait for each place. When everybody comes at once, as after an outage, those
/// who would wait in vain are told so at once and come back spread over some seconds.
const WAITING_FOR_EACH: usize = 8;

/// The part of the deadline within which a place must be found, so that a call which gets one has
/// time left for the answer: "the IAM is too slow" is never said of an IAM that was hardly asked.
const WAITING_SHARE: u32 = 2;

/// The way of one operation.
#[derive(Debug)]
pub(super) struct Lane {
    operation: Operation,
    deadline: Duration,
    places: Semaphore,
    waiting: AtomicUsize,
    waiting_max: usize,
    /// None for what finds out whether the IAM is back.
    pub(super) circuit: Option<Breaker>,
    observer: Arc<dyn Observer>,
}

impl Lane {
    pub(super) fn new(
        operation: Operation,
        limit: Limit,
        circuit: Option<Breaker>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self {
            operation,
            deadline: limit.deadline,
            places: Semaphore::new(limit.concurrency),
            waiting: AtomicUsize::new(0),
            waiting_max: limit.concurrency.saturating_mul(WAITING_FOR_EACH),
            circuit,
            observer,
        }
    }

    /// One call, whatever it takes, and one word of it to the observer.
    pub(super) async fn call<T, F>(&self, attempt: impl FnMut() -> F) -> Result<T, IamError>
    where
        F: Future<Output = Result<T, IamError>>,
    {
        let began = Instant::now();
        let result = self.go(began, attempt).await;
        self.observer
            .called(self.operation, result.as_ref().map(|_| ()), began.elapsed());
        result
    }

    async fn go<T, F>(&self, began: Instant, attempt: impl FnMut() -> F) -> Result<T, IamError>
    where
        F: Future<Output = Result<T, IamError>>,
    {
        let circuit = self.circuit.as_ref();
        circuit.map_or(Ok(()), Breaker::look)?;
        let _place = self.place(began + self.deadline / WAITING_SHARE).await?;
        // It may have opened while this call waited.
        let permit = circuit.map(Breaker::admit).transpose()?;
        let result = self
            .attempts(began + self.deadline, permit.as_ref(), attempt)
            .await;
        if let Some(permit) = permit {
            permit.settle(result.as_ref().map(|_| ()));
        }
        result
    }

    async fn place(&self, until: Instant) -> Result<SemaphorePermit<'_>, IamError> {
        if let Ok(place) = self.places.try_acquire() {
            return Ok(place);
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiter = Waiter(&self.waiting);
        if before >= self.waiting_max {
            return Err(IamError::Saturated);
        }
        match timeout_at(until, self.places.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(IamError::Saturated),
        }
    }

    async fn attempts<T, F>(
        &self,
        deadline: Instant,
        permit: Option<&Permit<'_>>,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, IamError>
    where
        F: Future<Output = Result<T, IamError>>,
    {
        let mut retries = retries(self.operation);
        loop {
            match timeout_at(deadline, caught(attempt())).await {
                Ok(Err(IamError::Unreachable(_)))
                    if retries > 0 && permit.is_none_or(Permit::may_retry) =>
                {
                    retries -= 1;
                }
                Ok(result) => return result,
                Err(_) => return Err(IamError::TimedOut(self.deadline)),
            }
        }
    }
}

/// Further attempts after the IAM could not be reached. Never for a login: two wrong passwords in
/// a row may lock the account.
const fn retries(operation: Operation) -> u32 {
    match operation {
        Operation::Login => 0,
        Operation::Introspection | Operation::Logout | Operation::Keys | Operation::Probe => 1,
    }
}

/// A panic of the adapter is a fault of the one call, told and counted like any other.
async fn caught<T>(attempt: impl Future<Output = Result<T, IamError>>) -> Result<T, IamError> {
    let mut attempt = pin!(attempt);
    let polled = poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| attempt.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => std::task::Poll::Ready(Err(panic)),
        }
    });
    polled.await.unwrap_or_else(|_| {
        let word = "the adapter panicked".to_owned();
        Err(IamError::Unreadable(word))
    })
}

/// Counts itself out, also where the call is dropped while it waits.
struct Waiter<'a>(&'a AtomicUsize);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
