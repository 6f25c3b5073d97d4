//! Records the steps of an operation from the trace events of the gateway. Times would depend on the
//! machine.

use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber as _;
use tracing::{Dispatch, Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use crate::revocations::RevocationKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The number of bytes that were decoded and decrypted.
    Unsealed(u64),
    Read,
    Compared,
    LookedUp(RevocationKind),
}

/// The members of a trace event that identify the step.
#[derive(Default)]
struct Members {
    message: String,
    bytes: u64,
    kind: String,
}

impl Visit for Members {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "bytes" {
            self.bytes = value;
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "kind" => self.kind = format!("{value:?}"),
            _ => {}
        }
    }
}

#[derive(Clone, Default)]
struct Steps(Arc<Mutex<Vec<Step>>>);

impl<S: Subscriber> Layer<S> for Steps {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut members = Members::default();
        event.record(&mut members);
        let step = match members.message.as_str() {
            "open the session token" => Step::Unsealed(members.bytes),
            "read the session" => Step::Read,
            "compare the session id" => Step::Compared,
            "look up a revocation" => {
                let kind = RevocationKind::ALL
                    .into_iter()
                    .find(|kind| format!("{kind:?}") == members.kind);
                Step::LookedUp(kind.expect("a kind"))
            }
            _ => return,
        };
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.push(step);
    }
}

/// With a single subscriber in the process, a thread without one could turn off an event for all threads.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| tracing_subscriber::registry().into());

/// The result of a call, and the steps that it took.
pub(super) async fn record<T>(call: impl Future<Output = T>) -> (T, Vec<Step>) {
    LazyLock::force(&SECOND);
    let steps = Steps::default();
    let subscriber = tracing_subscriber::registry().with(steps.clone());
    let result = call.with_subscriber(subscriber).await;
    let steps = std::mem::take(&mut *steps.0.lock().unwrap_or_else(PoisonError::into_inner));
    (result, steps)
}
