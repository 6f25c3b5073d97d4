//! The log as JSON: each event is one object in one line, with time, level, target, the fields of the
//! spans around it and its own fields.
//!
//! Why not the library: the formatter of tracing-subscriber (`fmt().json()`) takes 20,200
//! instructions for the line of a request, this one 9,100 (callgrind). It also puts the fields of spans
//! into an object of their own.

use std::cell::RefCell;
use std::error::Error;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Chain;
use jiff::Timestamp;
use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_log::NormalizeEvent as _;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, MakeWriter};
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::line_writer::LineWriter;

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
        write!(
            writer,
            r#"","level":"{}","target":"{}""#,
            metadata.level(),
            metadata.target()
        )?;
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
        write!(writer, "{text}.{:06}Z", now.subsec_micros())
    })
}

impl<'writer> FormatFields<'writer> for Json {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut members = Members {
            writer,
            result: Ok(()),
        };
        fields.record(&mut members);
        members.result
    }
}

struct Members<'a> {
    writer: Writer<'a>,
    result: fmt::Result,
}

impl Members<'_> {
    fn member(&mut self, field: &Field, value: &(impl Serialize + ?Sized)) {
        // The metadata of an event of the `log` crate, which is at the front of the line already.
        if field.name().starts_with("log.") {
            return;
        }
        // Field names are Rust identifiers, and need no escapes.
        self.result = self
            .result
            .and_then(|()| write!(self.writer, r#","{}":"#, field.name()))
            .and_then(|()| {
                serde_json::to_writer(Utf8(&mut self.writer), value).map_err(|_| fmt::Error)
            });
    }
}

impl Visit for Members<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no infinity.
        if !value.is_finite() {
            return self.member(field, &());
        }
        // Durations in milliseconds have microseconds as decimals.
        self.result = self
            .result
            .and_then(|()| write!(self.writer, r#","{}":{value:.3}"#, field.name()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.member(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.member(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.member(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.member(field, value);
    }

    /// The error and its sources, from the outermost to the innermost.
    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        let chain: Vec<_> = Chain::new(error).map(ToString::to_string).collect();
        self.member(field, &chain.join(": "));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.result = self
            .result
            .and_then(|()| write!(self.writer, r#","{}":""#, field.name()))
            .and_then(|()| write!(Escaped(&mut self.writer), "{value:?}"))
            .and_then(|()| self.writer.write_char('"'));
    }
}

/// The inside of a JSON string (RFC 8259 section 7).
struct Escaped<'a, 'b>(&'a mut Writer<'b>);

impl fmt::Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
        if text.bytes().all(plain) {
            return self.0.write_str(text);
        }
        let quoted = serde_json::to_string(text).map_err(|_| fmt::Error)?;
        let inside = quoted
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        self.0.write_str(inside.unwrap_or_default())
    }
}

/// serde writes bytes, but never splits a character.
struct Utf8<'a, 'b>(&'a mut Writer<'b>);

impl Write for Utf8<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        std::str::from_utf8(bytes)
            .map_err(io::Error::other)
            .and_then(|text| self.0.write_str(text).map_err(io::Error::other))
            .map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes log lines into memory.
#[derive(Clone)]
pub(super) struct LogWriter(pub(super) LineWriter);

/// One line on its way into memory.
pub(super) struct Line<'a> {
    writer: &'a LineWriter,
    urgent: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A line that is lost is counted.
        let _ = self.writer.push(line, self.urgent);
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
            writer: &self.0,
            urgent: false,
        }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line<'a> {
        Line {
            writer: &self.0,
            urgent: *event.level() <= Level::WARN,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Arc, Mutex};

    use iam_adapters::Refusal;
    use serde_json::{Value, json};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::gateway::error::GatewayError;

    /// Keeps what is written.
    #[derive(Clone, Default)]
    pub(in crate::telemetry) struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Sink {
        pub(in crate::telemetry) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn line_is_one_object_with_the_fields_of_its_spans_and_everything_escaped() {
        let sink = Sink::default();
        let made = sink.clone();
        let layer = tracing_subscriber::fmt::layer()
            .event_format(Json)
            .fmt_fields(Json)
            .with_writer(move || made.clone());
        let refused = GatewayError::Refused(Refusal::Locked);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let _span = tracing::info_span!("iam", iam.operation = "login").entered();
            tracing::warn!(
                hostile = "a\"b\n\u{1b}[31m\\",
                count = 3,
                negative = -1,
                yes = true,
                duration_ms = 0.123_456,
                endless = f64::INFINITY,
                missing = None::<&str>,
                error = &refused as &dyn Error,
                shown = %"x\"y",
                "said",
            );
        });
        let text = sink.text();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!text.contains('\u{1b}'));
        let mut line: Value = serde_json::from_str(&text).unwrap();
        let time = line["timestamp"].take();
        assert!(time.as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
        assert_eq!(
            line,
            json!({
                "timestamp": null,
                "level": "WARN",
                "target": "auth_gateway::telemetry::json_log::tests",
                "iam.operation": "login",
                "message": "said",
                "hostile": "a\"b\n\u{1b}[31m\\",
                "count": 3,
                "negative": -1,
                "yes": true,
                "duration_ms": 0.123,
                "endless": null,
                "error": "login refused: account locked",
                "shown": "x\"y",
            })
        );
    }
}
