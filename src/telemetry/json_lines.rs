//! Lines of JSON: the format of events, and the thread that writes lines.
//!
//! In the log, each event is one object in one line, with time, level, target, the fields of the spans
//! around it and its own fields. Lines are written in a thread of its own, so that no request waits for
//! a disk or for the reader of standard output. The queue before it is bounded. The audit log has such
//! a thread too.
//!
//! Why not the libraries: the formatter of tracing-subscriber (`fmt().json()`) takes 20,200
//! instructions for the line of a request, this one 5,500 (callgrind). It also puts the fields of spans
//! into an object of their own. The writer of tracing-appender writes and wakes its thread for each
//! line, which takes a system call and 0.37 µs more of processor time. It bounds the number of lines,
//! not their bytes. Both together take 1.1 µs more for each request: 2.6 % of an exchange.

use std::cell::RefCell;
use std::convert::Infallible;
use std::error::Error;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Chain;
use jiff::Timestamp;
use parking_lot::{Condvar, Mutex};
use prometheus_client::metrics::counter::Counter;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_log::NormalizeEvent as _;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, MakeWriter};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// The format of an event. As [`FormatFields`] it writes `,"name":value` for each field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // An event of the `log` crate has its target among its fields.
        let normalized = event.normalized_metadata();
        let metadata = normalized.as_ref().unwrap_or_else(|| event.metadata());
        writer.write_str(r#"{"timestamp":""#)?;
        write_time(&mut writer)?;
        writer.write_str(r#"","level":""#)?;
        writer.write_str(metadata.level().as_str())?;
        writer.write_str(r#"","target":""#)?;
        writer.write_str(metadata.target())?;
        writer.write_char('"')?;
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                writer.write_str(&fields.fields)?;
            }
        }
        context.format_fields(writer.by_ref(), event)?;
        writer.write_str("}\n")
    }
}

/// RFC 3339 in UTC, with microseconds. The text of a second is kept until the next one.
#[expect(
    clippy::disallowed_methods,
    reason = "the log has the machine's time, which a test's clock must not move"
)]
fn write_time(writer: &mut Writer<'_>) -> fmt::Result {
    thread_local! {
        static SECOND: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    SECOND.with_borrow_mut(|(second, text)| {
        if *second != now.as_secs() {
            let time = i64::try_from(now.as_secs()).ok();
            let time = time.and_then(|time| Timestamp::from_second(time).ok());
            *text = time.unwrap_or(Timestamp::MAX).strftime("%FT%T").to_string();
            *second = now.as_secs();
        }
        writer.write_str(text)?;
        write!(writer, ".{:06}Z", now.subsec_micros())
    })
}

impl<'writer> FormatFields<'writer> for Json {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        let mut members = Members(String::with_capacity(MEMBERS_CAPACITY));
        fields.record(&mut members);
        writer.write_str(&members.0)
    }
}

/// The usual length of the members of a line, so that the text seldom grows.
const MEMBERS_CAPACITY: usize = 512;

/// The text of the members. A `String`, because [`Writer`] takes a virtual call for each part of it.
struct Members(String);

impl Members {
    /// Adds a member, unless it is metadata of an event of the `log` crate: that is at the front of the
    /// line already. In parts, because `write!` takes several times the instructions of `push_str`.
    fn add(&mut self, field: &Field, value: impl FnOnce(&mut String) -> fmt::Result) {
        if field.name().starts_with("log.") {
            return;
        }
        self.0.push_str(r#",""#);
        // Field names are Rust identifiers, and need no escapes.
        self.0.push_str(field.name());
        self.0.push_str(r#"":"#);
        // Writing to a `String` cannot fail.
        let _ = value(&mut self.0);
    }

    fn add_string(&mut self, field: &Field, text: impl FnOnce(&mut Escaped<'_>) -> fmt::Result) {
        self.add(field, |members| {
            members.push('"');
            let written = text(&mut Escaped(members));
            members.push('"');
            written
        });
    }
}

impl Visit for Members {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, |members| {
            if value.is_finite() {
                write!(members, "{value}")
            } else {
                // JSON has no infinity.
                members.write_str("null")
            }
        });
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, |members| write!(members, "{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, |members| write!(members, "{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, |members| write!(members, "{value}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_string(field, |text| text.write_str(value));
    }

    /// The error and its sources, from the outermost to the innermost.
    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        let chain: Vec<_> = Chain::new(error).map(ToString::to_string).collect();
        self.record_str(field, &chain.join(": "));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add_string(field, |text| write!(text, "{value:?}"));
    }
}

/// Writes JSON, and escapes the characters that JSON allows as they are but that change how a terminal
/// or a viewer shows the line: DEL, the C1 controls, the separators of lines and paragraphs, and the
/// controls of direction (UAX #9).
pub(crate) fn write_escaped(json: &str, writer: &mut impl fmt::Write) -> fmt::Result {
    if json.bytes().all(|byte| byte < 0x7f) {
        return writer.write_str(json);
    }
    json.chars().try_for_each(|character| match character {
        '\u{7f}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200e}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => write!(writer, "\\u{:04x}", u32::from(character)),
        _ => writer.write_char(character),
    })
}

/// The inside of a JSON string (RFC 8259 section 7).
struct Escaped<'a>(&'a mut String);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let plain = |byte: u8| (b' '..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
        if text.bytes().all(plain) {
            return self.0.write_str(text);
        }
        let quoted = serde_json::to_string(text).map_err(|_| fmt::Error)?;
        let inside = quoted
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        write_escaped(inside.unwrap_or_default(), self.0)
    }
}

/// How long a line may stay in memory. Urgent lines are written at once.
const LINGER: Duration = Duration::from_millis(100);

/// More than this in memory is written without waiting for the rest of [`LINGER`].
const BATCH_BYTES: usize = 64 * 1024;

/// The most bytes in memory that are not being written. Further lines are dropped and counted.
pub(crate) const BACKLOG_BYTES: usize = 4 * 1024 * 1024;

/// How long a process that stops waits for the reader of standard output. If nobody reads it, a write to it
/// never returns.
pub(crate) const STDOUT_DEADLINE: Duration = Duration::from_secs(2);

/// Where a [`LineWriter`] writes.
pub(crate) trait Sink: Send + 'static {
    /// How long a process that stops waits for the last lines; `None`: until they are written.
    fn final_deadline(&self) -> Option<Duration>;

    /// Writes a batch of whole lines. It may block, but when the queue [stops](LineQueue::wait_for_stop), the
    /// process waits for [`Self::final_deadline`] at most.
    fn write(&mut self, batch: &[u8], queue: &LineQueue);
}

/// The sink of the log. Lines that the writer does not take are lost and counted.
pub(super) struct LogOutput<L> {
    /// Locks the writer.
    lock: L,
    /// Whether it took a part of a line last.
    is_in_line: bool,
}

impl<L> LogOutput<L> {
    pub(super) fn new(lock: L) -> Self {
        Self {
            lock,
            is_in_line: false,
        }
    }
}

impl<W: Write, L: FnMut() -> W + Send + 'static> Sink for LogOutput<L> {
    fn final_deadline(&self) -> Option<Duration> {
        Some(STDOUT_DEADLINE)
    }

    fn write(&mut self, batch: &[u8], queue: &LineQueue) {
        // For the whole batch: the audit log writes to standard output too, and the writer may take a part of a line.
        let mut writer = (self.lock)();
        let end: &[u8] = if self.is_in_line { b"\n" } else { b"" };
        let (mut ended, mut written) = (0, 0);
        // An error cannot be reported: it is the log that cannot be written.
        let _ = write_from(&mut writer, end, &mut ended)
            .and_then(|()| write_from(&mut writer, batch, &mut written))
            .and_then(|()| writer.flush());
        let taken = batch.get(..written).unwrap_or(batch);
        let unwritten = batch.get(written..).unwrap_or_default();
        self.is_in_line = match taken.last() {
            Some(last) => *last != b'\n',
            None => self.is_in_line && ended == 0,
        };
        queue.dropped.inc_by(lines_in(unwritten));
    }
}

/// Writes a batch from `written` on, and counts there.
pub(crate) fn write_from(
    writer: &mut impl Write,
    batch: &[u8],
    written: &mut usize,
) -> io::Result<()> {
    while let Some(rest) = batch.get(*written..).filter(|rest| !rest.is_empty()) {
        match writer.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => *written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The number of lines that end in these bytes.
pub(crate) fn lines_in(bytes: &[u8]) -> u64 {
    bytes.split(|byte| *byte == b'\n').skip(1).count() as u64
}

#[derive(Default)]
struct Queue {
    lines: Vec<u8>,
    /// The number of bytes that were ever taken into the queue.
    taken: u64,
    urgent: bool,
    stopped: bool,
}

/// The lines that wait for the thread that writes them.
pub(crate) struct LineQueue {
    queue: Mutex<Queue>,
    woken: Condvar,
    dropped: Counter,
}

/// Takes lines into the queue.
#[derive(Clone)]
pub(crate) struct LineWriter(Arc<LineQueue>);

/// Writes the remaining lines when it is dropped, within the deadline of the sink. Keep it until the process ends.
pub struct Flusher {
    shared: Arc<LineQueue>,
    deadline: Option<Duration>,
    /// Disconnected when the thread has ended.
    running: Receiver<Infallible>,
}

impl LineWriter {
    /// A writer to `sink`, with a thread of this name. Dropped lines are counted in `dropped`.
    pub(crate) fn start(
        thread: &str,
        sink: impl Sink,
        dropped: Counter,
    ) -> io::Result<(Self, Flusher)> {
        let shared = Arc::new(LineQueue {
            queue: Mutex::default(),
            woken: Condvar::new(),
            dropped,
        });
        let deadline = sink.final_deadline();
        let of_thread = Arc::clone(&shared);
        let (runs, running) = mpsc::channel();
        std::thread::Builder::new()
            .name(thread.to_owned())
            .spawn(move || {
                of_thread.write_to(sink);
                drop(runs);
            })?;
        let flusher = Flusher {
            shared: Arc::clone(&shared),
            deadline,
            running,
        };
        Ok((Self(shared), flusher))
    }

    /// The number of bytes of all lines that were taken until now.
    pub(crate) fn position(&self) -> u64 {
        self.0.queue.lock().taken
    }

    /// Takes a line, which ends with a line feed. An urgent one is written without waiting for further
    /// lines.
    pub(crate) fn push(&self, line: &[u8], urgent: bool) {
        let mut queue = self.0.queue.lock();
        let (before, after) = (queue.lines.len(), queue.lines.len() + line.len());
        if after > BACKLOG_BYTES {
            self.0.dropped.inc();
            return;
        }
        queue.lines.extend_from_slice(line);
        queue.taken += line.len() as u64;
        queue.urgent |= urgent;
        drop(queue);
        // Waking costs more than the line. The thread needs it for the first line of a batch only, and
        // when the batch is full.
        if before == 0 || urgent || (before < BATCH_BYTES && after >= BATCH_BYTES) {
            self.0.woken.notify_one();
        }
    }
}

impl LineQueue {
    /// Waits for this duration, or until the process stops. Returns whether it does.
    pub(crate) fn wait_for_stop(&self, pause: Duration) -> bool {
        let mut queue = self.queue.lock();
        (self.woken).wait_while_for(&mut queue, |queue| !queue.stopped, pause);
        queue.stopped
    }

    fn write_to(&self, mut sink: impl Sink) {
        let mut batch = Vec::new();
        loop {
            let mut queue = self.queue.lock();
            let is_idle = |queue: &mut Queue| queue.lines.is_empty() && !queue.stopped;
            self.woken.wait_while(&mut queue, is_idle);
            let may_linger = |queue: &mut Queue| {
                !queue.urgent && !queue.stopped && queue.lines.len() < BATCH_BYTES
            };
            self.woken.wait_while_for(&mut queue, may_linger, LINGER);
            let stopped = queue.stopped;
            queue.urgent = false;
            mem::swap(&mut batch, &mut queue.lines);
            drop(queue);
            if !batch.is_empty() {
                sink.write(&batch, self);
            }
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
        self.shared.queue.lock().stopped = true;
        self.shared.woken.notify_one();
        let _ = match self.deadline {
            Some(deadline) => self.running.recv_timeout(deadline).ok(),
            None => self.running.recv().ok(),
        };
    }
}

/// One line of the log on its way into the queue.
pub(crate) struct LogLine<'a> {
    writer: &'a LineWriter,
    urgent: bool,
}

impl Write for LogLine<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A line that is lost is counted.
        self.writer.push(line, self.urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LineWriter {
    type Writer = LogLine<'a>;

    fn make_writer(&'a self) -> LogLine<'a> {
        LogLine {
            writer: self,
            urgent: false,
        }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> LogLine<'a> {
        LogLine {
            writer: self,
            urgent: *event.level() <= Level::WARN,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
