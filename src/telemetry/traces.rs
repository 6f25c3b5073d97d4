//! Traces of requests: which requests are traced, and the span of each of them.
//!
//! A request that is not sampled has no span; a random number is all that it costs. So whether it is
//! sampled is decided here, before the SDK of OpenTelemetry is called.

mod collector;
mod export;

use std::fmt;
use std::sync::Arc;

use actix_web::http::header::{HeaderMap, HeaderName};
use iam_adapters::trace::Tracer;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use opentelemetry::trace::{
    SpanBuilder, SpanContext, TraceContextExt as _, TraceFlags, TraceId, TraceState, Tracer as _,
    TracerProvider as _,
};
use opentelemetry::{Context, InstrumentationScope};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    IdGenerator, Sampler, SamplingDecision, SdkTracer, SdkTracerProvider, ShouldSample, SpanLimits,
    SpanProcessor,
};

pub use collector::Collector;
pub use export::{SpanExporter, SpanQueue};

const TRACEPARENT: &str = "traceparent";

/// Decides which requests are traced, and starts their spans.
pub struct Traces {
    spans: Arc<Spans>,
    ratio: Sampler,
    /// Of a request without a span. Its children have none either.
    unsampled: Context,
}

impl Traces {
    /// Samples this share of the requests, and gives their spans to the processor.
    #[must_use]
    pub fn new(
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
            unsampled: Context::new().with_value(tracer),
        }
    }

    /// The context of a request, with its span if the request is sampled. `headers`: those of a trusted
    /// proxy, which decides whether its requests are sampled (W3C Trace Context).
    pub fn begin(
        &self,
        headers: Option<&HeaderMap>,
        span: impl FnOnce() -> SpanBuilder,
    ) -> Context {
        let remote = headers.and_then(|headers| self.remote(headers));
        let is_sampled = match &remote {
            Some(remote) => remote.span().span_context().is_sampled(),
            // The SDK draws another id for the span: it accepts none.
            None => self.samples(self.spans.ids.new_trace_id()),
        };
        let context = remote.unwrap_or_else(|| self.unsampled.clone());
        if is_sampled {
            self.spans.start(span(), &context)
        } else {
            context
        }
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
        sent.next().filter(|_| sent.next().is_none())?;
        let received = ReceivedHeaders(headers);
        let context = self
            .spans
            .propagator
            .extract_with_context(&self.unsampled, &received);
        context.span().span_context().is_valid().then_some(context)
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces")
            .field("ratio", &self.ratio)
            .finish_non_exhaustive()
    }
}

/// The headers of a request to the gateway.
struct ReceivedHeaders<'h>(&'h HeaderMap);

impl Extractor for ReceivedHeaders<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
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
