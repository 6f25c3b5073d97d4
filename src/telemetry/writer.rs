//! Log lines go through memory, so that a request never waits for the reader of standard output.
//!
//! The writer of tracing-appender writes and wakes its thread once for each line, which takes 0.37 µs
//! of processor time more than here, and a system call. It bounds the number of lines, not their
//! bytes. With its formatter and writer together, the line of a request takes 1.1 µs more: 2.6 % of an
//! exchange.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// How long a line may stay in memory. Lines of a warning or worse are written at once.
const LINGER: Duration = Duration::from_millis(100);

/// More than this in memory is written without waiting for the rest of [`LINGER`].
const BATCH_BYTES: usize = 64 * 1024;

/// Where nobody takes the lines off, they are lost, and counted, beyond this.
const BACKLOG_BYTES: usize = 4 * 1024 * 1024;

#[derive(Default)]
struct Pending {
    lines: Vec<u8>,
    urgent: bool,
    stopped: bool,
}

struct Shared {
    pending: Mutex<Pending>,
    woken: Condvar,
    dropped: Counter,
}

/// Takes log lines into memory.
#[derive(Clone)]
pub struct LogWriter(Arc<Shared>);

/// Writes the remaining lines when it is dropped. Keep it until the process ends.
pub struct Flusher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl LogWriter {
    /// Lines go to `sink` from a thread of their own; lost ones are counted in `dropped`.
    ///
    /// # Errors
    ///
    /// Where the process can have no further thread.
    pub fn to(sink: Box<dyn Write + Send>, dropped: Counter) -> io::Result<(Self, Flusher)> {
        let shared = Arc::new(Shared {
            pending: Mutex::default(),
            woken: Condvar::new(),
            dropped,
        });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || theirs.write_to(sink))?;
        let flusher = Flusher {
            shared: Arc::clone(&shared),
            thread: Some(thread),
        };
        Ok((Self(shared), flusher))
    }
}

impl Shared {
    fn write_to(&self, mut sink: Box<dyn Write + Send>) {
        let mut batch = Vec::new();
        loop {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            while pending.lines.is_empty() && !pending.stopped {
                pending = self
                    .woken
                    .wait(pending)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if !pending.urgent && !pending.stopped {
                (pending, _) = self
                    .woken
                    .wait_timeout_while(pending, LINGER, |pending| {
                        !pending.urgent && !pending.stopped && pending.lines.len() < BATCH_BYTES
                    })
                    .unwrap_or_else(PoisonError::into_inner);
            }
            let stopped = pending.stopped;
            pending.urgent = false;
            mem::swap(&mut batch, &mut pending.lines);
            drop(pending);
            // There is nowhere to tell that the log cannot be written.
            let _ = sink.write_all(&batch).and_then(|()| sink.flush());
            batch.clear();
            if batch.capacity() > 4 * BATCH_BYTES {
                batch = Vec::new();
            }
            if stopped {
                return;
            }
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        let mut pending = self
            .shared
            .pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        pending.stopped = true;
        drop(pending);
        self.shared.woken.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One line on its way into memory.
pub struct Line<'a> {
    shared: &'a Shared,
    urgent: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut pending = self
            .shared
            .pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if pending.lines.len() + line.len() > BACKLOG_BYTES {
            self.shared.dropped.inc();
            return Ok(line.len());
        }
        let (before, after) = (pending.lines.len(), pending.lines.len() + line.len());
        pending.lines.extend_from_slice(line);
        pending.urgent |= self.urgent;
        drop(pending);
        // Waking costs more than the line; the thread needs it for the first, and the last.
        if before == 0 || self.urgent || (before < BATCH_BYTES && after >= BATCH_BYTES) {
            self.shared.woken.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            shared: &self.0,
            urgent: false,
        }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line<'a> {
        Line {
            shared: &self.0,
            urgent: *event.level() <= Level::WARN,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Takes a batch, tells of it, and waits to be let go.
    struct Sink {
        told: mpsc::Sender<Vec<u8>>,
        gate: Option<mpsc::Receiver<()>>,
    }

    impl Write for Sink {
        fn write(&mut self, batch: &[u8]) -> io::Result<usize> {
            let _ = self.told.send(batch.to_vec());
            if let Some(gate) = &self.gate {
                let _ = gate.recv();
            }
            Ok(batch.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn line(writer: &LogWriter, text: &str, urgent: bool) {
        let shared = &writer.0;
        Line { shared, urgent }.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn every_line_comes_out_in_order_and_the_end_waits_for_the_last() {
        let (told, batches) = mpsc::channel();
        let (writer, flusher) =
            LogWriter::to(Box::new(Sink { told, gate: None }), Counter::default()).unwrap();
        for number in 0..1000 {
            line(&writer, &format!("{number}\n"), number % 100 == 0);
        }
        drop(flusher);
        let all: Vec<u8> = batches.try_iter().flatten().collect();
        let text = String::from_utf8(all).unwrap();
        let numbers: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn lines_that_nobody_takes_off_are_lost_and_counted_and_nobody_waits() {
        let (told, batches) = mpsc::channel();
        let (open, gate) = mpsc::channel();
        let dropped = Counter::default();
        let sink = Sink {
            told,
            gate: Some(gate),
        };
        let (writer, flusher) = LogWriter::to(Box::new(sink), dropped.clone()).unwrap();
        line(&writer, "first\n", true);
        assert_eq!(batches.recv().unwrap(), b"first\n");
        let kilobyte = "x".repeat(1024);
        for _ in 0..BACKLOG_BYTES / 1024 + 3 {
            line(&writer, &kilobyte, false);
        }
        assert_eq!(dropped.get(), 3);
        drop(open);
        drop(flusher);
        assert_eq!(batches.recv().unwrap().len(), BACKLOG_BYTES);
    }
}
