//! What the code under test logs.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, Once, PoisonError};

use tracing::Subscriber;
use tracing::subscriber::DefaultGuard;

/// Keeps what is written to it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    /// All that was written.
    pub fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(bytes.clone()).expect("the log is UTF-8")
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps what this thread logs, a line of text for each event, until the guard is dropped.
pub fn capture_lines() -> (Written, DefaultGuard) {
    let lines = Written::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    (lines, capture(subscriber))
}

/// Sends what this thread logs to the subscriber until the guard is dropped.
///
/// All other threads of the process log to a subscriber that wants everything and keeps nothing. Without it `tracing` can
/// turn off a line for the whole process if another thread, which has no subscriber, logs it first at this moment.
pub fn capture(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    static OTHERS: Once = Once::new();
    OTHERS.call_once(|| {
        tracing::subscriber::set_global_default(tracing_subscriber::registry())
            .expect("no test sets the subscriber of the process");
    });
    tracing::subscriber::set_default(subscriber)
}
