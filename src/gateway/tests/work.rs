//! What was done for a session, step by step: a time would depend on the machine.

use std::cell::RefCell;

use crate::gateway::revocations::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// So many bytes were decoded and put through the key.
    Unsealed(usize),
    Read,
    Compared,
    Named(Kind),
}

thread_local! {
    static DONE: RefCell<Option<Vec<Step>>> = const { RefCell::new(None) };
}

/// Notes a step, where somebody counts.
pub(crate) fn did(step: Step) {
    DONE.with_borrow_mut(|done| {
        if let Some(done) = done {
            done.push(step);
        }
    });
}

/// What a call does on this thread.
pub(super) async fn of<T>(call: impl Future<Output = T>) -> (T, Vec<Step>) {
    DONE.set(Some(Vec::new()));
    let answer = call.await;
    (answer, DONE.take().unwrap_or_default())
}
