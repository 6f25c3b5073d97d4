//! Traces of requests: which requests are traced, and the span of each of them.
//!
//! A request that is not sampled has no span; a random number is all that it costs. So whether it is
//! sampled is decided here, before the SDK of OpenTelemetry is called.

mod export;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_web::http::header::HeaderMap;
use iam_adapters::trace::Tracer;
use opentelemetry::propagation::{Injector, TextMapPropagator as _};
use opentelemetry::trace::{
    SpanBuilder, SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
    Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, InstrumentationScope};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    IdGenerator, Sampler, SamplingDecision, SdkTracer, SdkTracerProvider, ShouldSample, SpanLimits,
    SpanProcessor,
};

pub(crate) use export::{Collector, SpanExporter, SpanQueue};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The most requests that trusted proxies can have sampled in each second. A proxy may pass on what its
/// clients send.
const PROXY_SAMPLED_MAX: u64 = 10;

/// Decides which requests are traced, and starts their spans.
#[derive(derive_more::Debug)]
#[debug("Traces {{ ratio: {ratio:?}, .. }}")]
pub struct Traces {
    spans: Arc<Spans>,
    ratio: Sampler,
    /// A second of the monotonic clock, and in the lowest 16 bits how many requests trusted proxies had
    /// sampled in it.
    proxy_sampled: AtomicU64,
    /// Of a request without a span. Its children have none either.
    unsampled: Context,
}

impl Traces {
    /// Samples this share of the requests, and gives their spans to the processor.
    pub(crate) fn new(
        sample_ratio: f64,
        ids: impl IdGenerator + Clone + 'static,
        processor: impl SpanProcessor + 'static,
    ) -> Self {
        // All settings are here: the SDK takes others from the environment.
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
            .with_id_generator(ids.clone())
            .with_span_limits(SpanLimits::default())
            .with_span_processor(processor)
            .build();
        let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        let spans = Arc::new(Spans {
            tracer: provider.tracer_with_scope(scope),
            ids: Box::new(ids),
            propagator: TraceContextPropagator::new(),
        });
        let tracer: Arc<dyn Tracer> = Arc::<Spans>::clone(&spans);
        Self {
            spans,
            ratio: Sampler::TraceIdRatioBased(sample_ratio),
            proxy_sampled: AtomicU64::default(),
            unsampled: Context::new().with_value(tracer),
        }
    }

    /// The context of a request, with its span if the request is sampled. `headers`: those of a trusted
    /// proxy, which decides whether its requests are sampled (W3C Trace Context), up to ten in each second of
    /// `now`, the time of a monotonic clock.
    pub(crate) fn begin(
        &self,
        headers: Option<&HeaderMap>,
        now: Duration,
        span: impl FnOnce() -> SpanBuilder,
    ) -> Context {
        let Some(remote) = headers.and_then(|headers| self.remote(headers)) else {
            // The SDK draws another id for the span: it accepts none.
            return if self.samples(self.spans.ids.new_trace_id()) {
                self.spans.start(span(), &self.unsampled)
            } else {
                self.unsampled.clone()
            };
        };
        let parent = remote.span().span_context().clone();
        if !parent.is_sampled() {
            remote
        } else if self.admits_sampled(now) {
            self.spans.start(span(), &remote)
        } else {
            // The IAM does not sample its calls either.
            remote.with_remote_span_context(SpanContext::new(
                parent.trace_id(),
                parent.span_id(),
                TraceFlags::NOT_SAMPLED,
                true,
                parent.trace_state().clone(),
            ))
        }
    }

    /// Whether a proxy can have one more request sampled in this second.
    fn admits_sampled(&self, now: Duration) -> bool {
        let second = now.as_secs() << 16;
        let counted = |last: u64| match last.checked_sub(second) {
            Some(count) if count >= PROXY_SAMPLED_MAX => None,
            Some(_) => Some(last + 1),
            None => Some(second + 1),
        };
        self.proxy_sampled
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted)
            .is_ok()
    }

    fn samples(&self, trace_id: TraceId) -> bool {
        let sampled = self.ratio.should_sample(
            None,
            trace_id,
            "",
            &opentelemetry::trace::SpanKind::Server,
            &[],
            &[],
        );
        sampled.decision == SamplingDecision::RecordAndSample
    }

    /// The context that a proxy sent, if it is valid.
    fn remote(&self, headers: &HeaderMap) -> Option<Context> {
        let mut sent = headers.get_all(TRACEPARENT);
        // A list of trace contexts is not valid.
        let sent = sent.next().filter(|_| sent.next().is_none())?;
        let (trace_id, span_id, flags) = parse_traceparent(sent.to_str().ok()?)?;
        let state = trace_state(headers).unwrap_or_default();
        let parent = SpanContext::new(trace_id, span_id, flags, true, state);
        let is_valid = parent.is_valid();
        is_valid.then(|| self.unsampled.with_remote_span_context(parent))
    }
}

/// The fields of `traceparent` (W3C Trace Context section 3.2). Of the flags, only the sampled one is kept. Not
/// `TraceContextPropagator::extract`: it accepts fields of any length.
fn parse_traceparent(traceparent: &str) -> Option<(TraceId, SpanId, TraceFlags)> {
    let is_hex = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let mut fields = traceparent.splitn(5, '-');
    let mut field = |length| {
        let text = fields.next()?;
        (text.len() == length && text.bytes().all(is_hex)).then_some(text)
    };
    let (version, trace_id, span_id, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
    // Version ff is forbidden, and only later versions than 00 may have more fields.
    if version == "ff" || (version == "00" && fields.next().is_some()) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
    Some((
        TraceId::from_hex(trace_id).ok()?,
        SpanId::from_hex(span_id).ok()?,
        flags & TraceFlags::SAMPLED,
    ))
}

/// `tracestate`; `None`: it is not valid. Several headers are one list (W3C Trace Context section 3.3).
fn trace_state(headers: &HeaderMap) -> Option<TraceState> {
    let lists = headers.get_all(TRACESTATE).map(|list| list.to_str().ok());
    let lists: Vec<_> = lists.collect::<Option<_>>()?;
    lists.join(",").parse().ok()
}

/// Starts spans with the SDK.
struct Spans {
    tracer: SdkTracer,
    ids: Box<dyn IdGenerator>,
    propagator: TraceContextPropagator,
}

impl Tracer for Spans {
    fn start(&self, span: SpanBuilder, parent: &Context) -> Context {
        parent.with_span(self.tracer.build_with_context(span, parent))
    }

    fn unsampled(&self, parent: &Context) -> Context {
        parent.with_remote_span_context(SpanContext::new(
            self.ids.new_trace_id(),
            self.ids.new_span_id(),
            TraceFlags::NOT_SAMPLED,
            false,
            TraceState::NONE,
        ))
    }

    fn propagate(&self, context: &Context, headers: &mut dyn Injector) {
        self.propagator.inject_context(context, headers);
    }
}

#[cfg(test)]
mod tests;
