//! The queue of ended spans, and the task that sends them to the Collector. No request waits for
//! either: spans that do not fit are dropped, and those of a failed export are lost. Both are counted.
//!
//! Not the batch processor of the SDK: it does not count the spans that it drops, and it exports on a
//! thread of its own, where the HTTP client of this program cannot run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use iam_adapters::Clock;
use iam_adapters::client::UpstreamClient;
use opentelemetry::Context;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use parking_lot::Mutex;
use prost::Message as _;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use url::Url;

use crate::config::{ConfigErrors, TraceSettings};
use crate::telemetry::metrics::{Metrics, SpanOutcome};

/// The most spans that wait, and those of one export: the defaults of the SDKs
/// (`OTEL_BSP_MAX_QUEUE_SIZE`, `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`).
const QUEUE_MAX: usize = 2048;
const BATCH_MAX: usize = 512;

/// How long a span waits for others. The SDKs have 5 s; a second costs one request and shows a trace
/// sooner.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a gateway that stops sends the spans that wait.
const FINAL_DEADLINE: Duration = Duration::from_secs(2);

/// How much of a message of the Collector is logged, in characters.
const LOGGED_LENGTH: usize = 200;

/// The ended spans that wait for their export.
#[derive(Debug, Clone)]
pub(crate) struct SpanQueue(Arc<SpanBuffer>);

#[derive(Debug)]
struct SpanBuffer {
    waiting: Mutex<VecDeque<SpanData>>,
    /// A batch is complete.
    full: Notify,
    /// The gateway stops.
    stopped: Notify,
    metrics: Arc<Metrics>,
}

impl SpanQueue {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self(Arc::new(SpanBuffer {
            waiting: Mutex::default(),
            full: Notify::new(),
            stopped: Notify::new(),
            metrics,
        }))
    }

    fn batch(&self) -> Vec<SpanData> {
        let mut waiting = self.0.waiting.lock();
        let count = waiting.len().min(BATCH_MAX);
        waiting.drain(..count).collect()
    }
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        let mut waiting = self.0.waiting.lock();
        if waiting.len() >= QUEUE_MAX {
            self.0.metrics.spans(SpanOutcome::Dropped, 1);
            return;
        }
        waiting.push_back(span);
        let count = waiting.len();
        drop(waiting);
        if count == BATCH_MAX {
            self.0.full.notify_one();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Sends the spans of a queue to the Collector.
#[derive(Debug, Clone)]
pub struct SpanExporter {
    queue: SpanQueue,
    collector: Arc<ArcSwap<Collector>>,
    resource: Resource,
}

impl SpanExporter {
    /// An exporter of the spans of a process that has these attributes.
    pub(crate) fn new(queue: SpanQueue, collector: Collector, resource: Resource) -> Self {
        Self {
            queue,
            collector: Arc::new(ArcSwap::from_pointee(collector)),
            resource,
        }
    }

    /// From now on, exports with other secrets or certificates.
    pub(crate) fn replace(&self, collector: Collector) {
        self.collector.store(Arc::new(collector));
    }

    /// Exports the spans periodically, and once more when the gateway [stops](Self::finish).
    pub(crate) async fn run(&self) {
        let (mut is_failing, mut is_stopped) = (false, false);
        while !is_stopped {
            tokio::select! {
                () = sleep(INTERVAL) => {}
                () = self.queue.0.full.notified() => {}
                () = self.queue.0.stopped.notified() => is_stopped = true,
            }
            self.export_all(&mut is_failing).await;
        }
    }

    /// Lets the task that [runs](Self::run) export the spans that wait, within a deadline. An export in
    /// progress is not cancelled: its spans have left the queue.
    pub(crate) async fn finish(&self, running: JoinHandle<()>) {
        self.queue.0.stopped.notify_one();
        let _ = timeout(FINAL_DEADLINE, running).await;
    }

    async fn export_all(&self, is_failing: &mut bool) {
        loop {
            let batch = self.queue.batch();
            if batch.is_empty() {
                return;
            }
            self.export(batch, is_failing).await;
        }
    }

    async fn export(&self, batch: Vec<SpanData>, is_failing: &mut bool) {
        let count = batch.len() as u64;
        let resource = ResourceAttributesWithSchema::from(&self.resource);
        let request = ExportTraceServiceRequest {
            resource_spans: group_spans_by_resource_and_scope(batch, &resource),
        };
        let metrics = &self.queue.0.metrics;
        let collector = self.collector.load_full();
        let (failed, error) = match collector.send(request.encode_to_vec()).await {
            Ok(partial) => rejection(&partial, count),
            Err(error) => (count, Some(error)),
        };
        metrics.spans(SpanOutcome::Exported, count - failed);
        metrics.spans(SpanOutcome::Failed, failed);
        let was_failing = std::mem::replace(is_failing, error.is_some());
        match error {
            Some(error) if !was_failing => {
                tracing::warn!(error, "spans cannot be exported and are lost");
            }
            None if was_failing => tracing::info!("spans are exported again"),
            Some(_) | None => {}
        }
    }
}

/// The number of spans that the Collector rejected of an export with `count`, and why.
fn rejection(partial: &ExportTracePartialSuccess, count: u64) -> (u64, Option<String>) {
    // With 0, all were accepted, and a message is advice (OTLP, section "Partial Success").
    let rejected = u64::try_from(partial.rejected_spans).unwrap_or_default();
    if rejected == 0 {
        return (0, None);
    }
    let rejected = rejected.min(count);
    let message: String = partial.error_message.chars().take(LOGGED_LENGTH).collect();
    let error = format!("the Collector rejected {rejected} of {count} spans: {message}");
    (rejected, Some(error))
}

/// A client of the receiver of spans: OTLP over HTTP with protobuf. Its headers are secrets.
#[derive(derive_more::Debug)]
#[debug("Collector {{ host: {:?}, .. }}", url.host_str())]
pub(crate) struct Collector {
    client: UpstreamClient,
    url: Url,
    headers: Vec<(String, SecretString)>,
    deadline: Duration,
}

impl Collector {
    /// A client; does not connect. `None` if traces are off, or with a problem.
    pub(crate) fn new(
        settings: &TraceSettings,
        clock: Arc<dyn Clock>,
        problems: &mut ConfigErrors,
    ) -> Option<Self> {
        let url = settings.url()?;
        let ca_file = settings.ca_file.as_deref();
        let client = UpstreamClient::new(settings.timeout, ca_file, None, clock);
        let refused = |error| problems.add_lines(&format!("traces.{error}"));
        Some(Self {
            client: client.map_err(refused).ok()?,
            url,
            // The settings were checked when they were read.
            headers: settings.header_list().unwrap_or_default(),
            deadline: settings.timeout,
        })
    }

    /// Sends an export; returns how many spans were rejected and the Collector's message, or why nothing was
    /// accepted.
    async fn send(&self, body: Vec<u8>) -> Result<ExportTracePartialSuccess, String> {
        let mut request = self.client.post(&self.url).body(body);
        request = request.header("content-type", "application/x-protobuf");
        for (name, value) in &self.headers {
            request = request.header(name, value.expose_secret());
        }
        let response = match timeout(self.deadline, self.client.send(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(fault)) => return Err(fault.about("the Collector").to_string()),
            Err(_) => return Err("the Collector did not respond in time".to_owned()),
        };
        if !response.status.is_success() {
            return Err(format!("the Collector returned {}", response.status));
        }
        let decoded = ExportTraceServiceResponse::decode(&*response.body).unwrap_or_default();
        Ok(decoded.partial_success.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{SpanBuilder, TraceContextExt as _};
    use opentelemetry_sdk::trace::RandomIdGenerator;
    use test_support::ManualClock;
    use test_support::log;
    use test_support::scripted_upstream::{Answer, ScriptedUpstream};
    use test_support::spans::PATH;

    use super::*;
    use crate::telemetry::traces::Traces;

    /// Ends this number of spans.
    fn end_spans(queue: &SpanQueue, count: usize) {
        let traces = Traces::new(1.0, RandomIdGenerator::default(), queue.clone());
        for _ in 0..count {
            let span = || SpanBuilder::from_name("request");
            traces.begin(None, Duration::ZERO, span).span().end();
        }
    }

    fn count(metrics: &Metrics, outcome: &'static str) -> u64 {
        let labels = [("outcome", outcome)];
        metrics.families.spans.get_or_create(&labels).get()
    }

    #[test]
    fn spans_beyond_the_queue_are_dropped_and_counted() {
        let metrics = Arc::new(Metrics::new(&[]));
        let queue = SpanQueue::new(Arc::clone(&metrics));
        end_spans(&queue, QUEUE_MAX + 3);
        assert_eq!(count(&metrics, "dropped"), 3);
        let batches: Vec<_> = std::iter::repeat_with(|| queue.batch().len())
            .take(QUEUE_MAX / BATCH_MAX + 1)
            .collect();
        assert_eq!(batches, [BATCH_MAX, BATCH_MAX, BATCH_MAX, BATCH_MAX, 0]);
    }

    /// An exporter to this Collector, with an empty queue.
    fn exporter(collector: &ScriptedUpstream) -> (SpanExporter, SpanQueue, Arc<Metrics>) {
        let settings = TraceSettings {
            endpoint: Some(collector.url().try_into().unwrap()),
            ..TraceSettings::default()
        };
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Duration::ZERO));
        let collector = Collector::new(&settings, clock, &mut ConfigErrors::default()).unwrap();
        let metrics = Arc::new(Metrics::new(&[]));
        let queue = SpanQueue::new(Arc::clone(&metrics));
        let resource = Resource::builder_empty().build();
        let exporter = SpanExporter::new(queue.clone(), collector, resource);
        (exporter, queue, metrics)
    }

    #[tokio::test]
    async fn export_in_progress_and_the_spans_that_wait_are_finished_at_a_stop() {
        let server = ScriptedUpstream::start().await;
        server.once(PATH, Answer::empty(200).held());
        server.on(PATH, Answer::empty(200));
        let (exporter, queue, metrics) = exporter(&server);
        let running = exporter.clone();
        let running = tokio::spawn(async move { running.run().await });
        end_spans(&queue, BATCH_MAX);
        server.received(PATH, 1).await;
        end_spans(&queue, 3);
        let release = async { server.release() };
        tokio::join!(exporter.finish(running), release);
        assert_eq!(count(&metrics, "exported"), BATCH_MAX as u64 + 3);
    }

    /// What a Collector states about an export.
    fn partial(rejected_spans: i64, message: &str) -> ExportTracePartialSuccess {
        ExportTracePartialSuccess {
            rejected_spans,
            error_message: message.to_owned(),
        }
    }

    #[tokio::test]
    async fn spans_that_the_collector_rejects_are_logged_with_its_message_until_it_accepts_all() {
        let (lines, _captured) = log::capture_lines();
        let server = ScriptedUpstream::start().await;
        let (exporter, queue, metrics) = exporter(&server);
        let mut is_failing = false;
        for partial in [
            partial(2, "too old"),
            partial(3, "too old"),
            partial(0, "advice"),
        ] {
            let response = ExportTraceServiceResponse {
                partial_success: Some(partial),
            };
            let body = String::from_utf8(response.encode_to_vec()).unwrap();
            server.once(PATH, Answer::text(200, "application/x-protobuf", &body));
            end_spans(&queue, 3);
            exporter.export_all(&mut is_failing).await;
        }
        assert_eq!(count(&metrics, "failed"), 5);
        assert_eq!(count(&metrics, "exported"), 4);
        let logged = lines.text();
        let [failing, working] = logged.lines().collect::<Vec<_>>()[..] else {
            panic!("{logged}");
        };
        let error = "the Collector rejected 2 of 3 spans: too old";
        for part in ["WARN", "spans cannot be exported and are lost", error] {
            assert!(failing.contains(part), "{failing}");
        }
        assert!(working.contains("spans are exported again"), "{working}");
    }

    #[test]
    fn message_of_the_collector_is_bounded_and_so_is_the_number_of_rejected_spans() {
        let (rejected, error) = rejection(&partial(i64::MAX, &"ä".repeat(201)), 3);
        let message = "ä".repeat(200);
        let expected = format!("the Collector rejected 3 of 3 spans: {message}");
        assert_eq!((rejected, error), (3, Some(expected)));
        assert_eq!(rejection(&partial(-1, "too old"), 3), (0, None));
    }
}
