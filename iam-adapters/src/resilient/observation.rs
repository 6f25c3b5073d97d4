//! Observes each call: a span of the log, a span of the trace, and the observer.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::SpanBuilder;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::{CallEvent, Observer, Operation};
use crate::error::IamError;
use crate::name::Name as _;
use crate::trace::{self, ChildSpan};

/// Observes the calls of one operation.
#[derive(derive_more::Debug)]
pub(super) struct Observation {
    /// The IAM's name in the configuration.
    pub(super) iam: Arc<str>,
    /// The adapter's name.
    pub(super) kind: &'static str,
    pub(super) operation: Operation,
    #[debug(skip)]
    pub(super) observer: Observer,
}

impl Observation {
    /// Makes one call, and reports it once.
    pub(super) async fn observe<T>(
        &self,
        call: impl Future<Output = Result<T, IamError>>,
    ) -> Result<T, IamError> {
        let operation = self.operation.name();
        let log_span =
            tracing::debug_span!("iam", iam.name = &*self.iam, iam.operation = operation);
        let span = ChildSpan::start(|| {
            SpanBuilder::from_name(format!("iam {operation}")).with_attributes([
                KeyValue::new("iam.name", Arc::clone(&self.iam)),
                KeyValue::new("iam.type", self.kind),
                KeyValue::new("iam.operation", operation),
            ])
        });
        let reported = async {
            let started = Instant::now();
            let result = call.await;
            self.report(result.as_ref().map(|_| ()), started.elapsed());
            result
        };
        let result = span.around(reported.instrument(log_span)).await;
        span.end(|span| match &result {
            // A wrong password is no failure of the call.
            Ok(_) => span.set_attribute(KeyValue::new("iam.outcome", "ok")),
            Err(refused @ IamError::Refused(_)) => {
                span.set_attribute(KeyValue::new("iam.outcome", refused.kind()));
            }
            Err(fault) => {
                span.set_attribute(KeyValue::new("iam.outcome", fault.kind()));
                trace::fail(span, fault.kind());
            }
        });
        result
    }

    /// Reports a result without a span.
    pub(super) fn report(&self, result: Result<(), &IamError>, took: Duration) {
        let operation = self.operation;
        (self.observer)(&CallEvent::Called {
            operation,
            result,
            took,
        });
    }
}
