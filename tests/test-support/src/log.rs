//! What the code under test logs.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, Once, PoisonError};

use tracing::subscriber::DefaultGuard;
use tracing::{Level, Subscriber};
use tracing_subscriber::fmt::TestWriter;
use tracing_subscriber::fmt::writer::MakeWriterExt as _;
use tracing_subscriber::layer::SubscriberExt as _;

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
pub fn capture(subscriber: impl Subscriber + Send + Sync) -> DefaultGuard {
    show_warnings();
    tracing::subscriber::set_default(subscriber)
}

/// All threads of the process that [`capture`] nothing print warnings, as a part of the output of their test: they say why
/// a gateway answered with a fault.
///
/// Their subscriber wants everything. Otherwise `tracing` can turn off a line for the whole process if a thread that does
/// not capture it logs it first at this moment.
pub fn show_warnings() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let lines = tracing_subscriber::fmt::layer()
            // Not a filter of the layer: the subscriber would not want the rest.
            .with_writer(TestWriter::new().with_max_level(Level::WARN))
            .with_ansi(false);
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines))
            .expect("no test sets the subscriber of the process");
    });
}
