use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use iam_adapters::Refusal;
use serde_json::{Value, json};
use test_support::log::{self, Written};
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;
use auth_gateway_core::error::GatewayError;

/// Controls of terminals, separators of lines and controls of direction, and a letter.
const HOSTILE: &str = "a\"b\n\u{1b}[31m\\\u{7f}\u{80}\u{85}\u{9f}\u{e9}\u{61c}\u{200e}\u{200f}\
    \u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}";

#[test]
fn line_is_one_object_with_the_fields_of_its_spans_and_everything_escaped() {
    let sink = Written::default();
    let made = sink.clone();
    let layer = tracing_subscriber::fmt::layer()
        .event_format(Json)
        .fmt_fields(Json)
        .with_writer(move || made.clone());
    let refused = GatewayError::Refused(Refusal::Locked);
    let captured = log::capture(tracing_subscriber::registry().with(layer));
    let span = tracing::info_span!("iam", iam.operation = "login").entered();
    tracing::warn!(
        hostile = HOSTILE,
        count = 3,
        negative = -1,
        yes = true,
        ratio = 0.25,
        endless = f64::INFINITY,
        missing = None::<&str>,
        error = &refused as &dyn Error,
        shown = %HOSTILE,
        "said",
    );
    drop(span);
    drop(captured);
    let text = sink.text();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.trim_end()
            .chars()
            .all(|shown| matches!(shown, ' '..='~' | '\u{e9}'))
    );
    let mut line: Value = serde_json::from_str(&text).unwrap();
    let time = line["timestamp"].take();
    assert!(time.as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    assert_eq!(
        line,
        json!({
            "timestamp": null,
            "level": "WARN",
            "target": "auth_gateway::telemetry::json_lines::tests",
            "iam.operation": "login",
            "message": "said",
            "hostile": HOSTILE,
            "count": 3,
            "negative": -1,
            "yes": true,
            "ratio": 0.25,
            "endless": null,
            "error": "login refused: account locked",
            "shown": HOSTILE,
        })
    );
}

/// Sends each batch to the test, and waits for the gate where there is one.
struct GatedSink {
    batches: mpsc::Sender<Vec<u8>>,
    gate: Option<mpsc::Receiver<()>>,
    final_deadline: Option<Duration>,
}

impl Sink for GatedSink {
    fn final_deadline(&self) -> Option<Duration> {
        self.final_deadline
    }

    fn write(&mut self, batch: &[u8], _: &LineQueue) {
        let _ = self.batches.send(batch.to_vec());
        if let Some(gate) = &self.gate {
            let _ = gate.recv();
        }
    }
}

fn line(writer: &LineWriter, text: &str, urgent: bool) {
    writer.push(text.as_bytes(), urgent);
}

fn start(sink: impl Sink, dropped: Counter) -> (LineWriter, Flusher) {
    LineWriter::start("log", sink, dropped).unwrap()
}

#[test]
fn lines_are_written_in_order_and_dropping_the_flusher_writes_the_last() {
    let (sender, batches) = mpsc::channel();
    let (writer, flusher) = start(
        GatedSink {
            batches: sender,
            gate: None,
            final_deadline: None,
        },
        Counter::default(),
    );
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
fn lines_beyond_the_backlog_are_dropped_and_counted_without_waiting() {
    let (sender, batches) = mpsc::channel();
    let (open, gate) = mpsc::channel();
    let dropped = Counter::default();
    let sink = GatedSink {
        batches: sender,
        gate: Some(gate),
        final_deadline: None,
    };
    let (writer, flusher) = start(sink, dropped.clone());
    line(&writer, "first\n", true);
    assert_eq!(batches.recv().unwrap(), b"first\n");
    let kilobyte = "x".repeat(1024);
    for _ in 0..BACKLOG_BYTES / 1024 + 3 {
        line(&writer, &kilobyte, false);
    }
    let dropped = dropped.get();
    drop(open);
    drop(flusher);
    assert_eq!(dropped, 3);
    assert_eq!(batches.recv().unwrap().len(), BACKLOG_BYTES);
}

/// If the drop waited for the thread, this would not end.
#[test]
fn dropping_the_flusher_does_not_wait_for_a_reader_that_reads_nothing() {
    let (sender, batches) = mpsc::channel();
    let (open, gate) = mpsc::channel();
    let sink = GatedSink {
        batches: sender,
        gate: Some(gate),
        final_deadline: LogOutput::new(io::sink).final_deadline(),
    };
    let (writer, flusher) = start(sink, Counter::default());
    line(&writer, "first\n", true);
    assert_eq!(batches.recv().unwrap(), b"first\n");
    line(&writer, "second\n", true);
    drop(flusher);
    assert!(batches.try_recv().is_err(), "the gate is closed");
    drop(open);
    assert_eq!(batches.recv().unwrap(), b"second\n");
}

/// As a file on a slow disk: the gate opens when the process stops.
#[test]
fn dropping_the_flusher_waits_without_a_deadline_until_the_last_line_is_written() {
    let (sender, events) = mpsc::channel();
    let (open, gate) = mpsc::channel();
    let sink = GatedSink {
        batches: sender.clone(),
        gate: Some(gate),
        final_deadline: None,
    };
    let (writer, flusher) = start(sink, Counter::default());
    line(&writer, "first\n", true);
    assert_eq!(events.recv().unwrap(), b"first\n");
    line(&writer, "second\n", true);
    let dropping = thread::spawn(move || {
        drop(flusher);
        sender.send(b"dropped".to_vec())
    });
    assert!(writer.0.wait_for_stop(Duration::MAX));
    drop(open);
    dropping.join().unwrap().unwrap();
    assert_eq!(events.recv().unwrap(), b"second\n");
    assert_eq!(events.recv().unwrap(), b"dropped");
}

/// Sends what it takes to the test: of the first write ten bytes, nothing of the second, then everything.
#[derive(Clone)]
struct FullOnce {
    taken: mpsc::Sender<Vec<u8>>,
    writes: Arc<AtomicU32>,
}

impl Write for FullOnce {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = match self.writes.fetch_add(1, Ordering::Relaxed) {
            0 => &bytes[..10],
            1 => &bytes[..0],
            _ => bytes,
        };
        let _ = self.taken.send(taken.to_vec());
        match taken.len() {
            0 => Err(io::ErrorKind::StorageFull.into()),
            count => Ok(count),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_that_cannot_be_written_are_counted_and_the_next_one_begins_a_line() {
    let (sender, taken) = mpsc::channel();
    let dropped = Counter::default();
    let full_once = FullOnce {
        taken: sender,
        writes: Arc::default(),
    };
    let sink = LogOutput::new(move || full_once.clone());
    let (writer, flusher) = start(sink, dropped.clone());
    // One batch.
    line(&writer, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n", true);
    assert_eq!(taken.recv().unwrap(), b"{\"n\":1}\n{\"");
    assert_eq!(taken.recv().unwrap(), b"", "an error");
    line(&writer, "{\"n\":4}\n", true);
    drop(flusher);
    let rest: Vec<u8> = taken.try_iter().flatten().collect();
    assert_eq!(rest, b"\n{\"n\":4}\n");
    assert_eq!(dropped.get(), 2);
}

/// A locked output that takes ten bytes of a batch first. Another writer waits for the lock, and has it as soon as it
/// is released.
struct Locked {
    buffer: Vec<u8>,
    output: mpsc::Sender<Vec<u8>>,
}

impl Write for Locked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = if self.buffer.is_empty() {
            10
        } else {
            bytes.len()
        };
        let taken = &bytes[..room];
        self.buffer.extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.output.send(mem::take(&mut self.buffer));
        Ok(())
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.output.send(b"{\"other\":1}\n".to_vec());
    }
}

#[test]
fn output_is_locked_for_a_whole_batch() {
    let (output, written) = mpsc::channel();
    let lock = move || Locked {
        buffer: Vec::new(),
        output: output.clone(),
    };
    let (writer, flusher) = start(LogOutput::new(lock), Counter::default());
    // One batch.
    line(&writer, "{\"n\":1}\n{\"n\":2}\n", true);
    drop(flusher);
    let all: Vec<u8> = written.try_iter().flatten().collect();
    assert_eq!(all, b"{\"n\":1}\n{\"n\":2}\n{\"other\":1}\n");
}
