//! Spans of the calls that the gateway makes for a request. The [`Context`] of a traced request holds a
//! [`Tracer`]; in any other context there are no spans.
//!
//! These are spans of OpenTelemetry and not of `tracing`, whose layer would create one for every
//! request before it is known whether the request is sampled.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::propagation::Injector;
use opentelemetry::trace::{
    FutureExt as _, SpanBuilder, SpanContext, SpanRef, Status, TraceContextExt as _,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

pub use opentelemetry::Context;

/// Starts spans and sends their ids to other servers.
pub trait Tracer: Send + Sync {
    /// A child of the sampled span in `parent`.
    fn start(&self, span: SpanBuilder, parent: &Context) -> Context;

    /// New ids for a request that is not sampled, so that servers learn that it is not.
    fn unsampled(&self, parent: &Context) -> Context;

    /// Adds `traceparent` and `tracestate` (W3C Trace Context).
    fn propagate(&self, context: &Context, headers: &mut dyn Injector);
}

/// A span below that of the current context; none if that is not sampled. It ends when it is dropped.
#[derive(Debug)]
pub struct ChildSpan(Option<Context>);

impl ChildSpan {
    /// Starts a span in the current context.
    pub fn start(span: impl FnOnce() -> SpanBuilder) -> Self {
        Self(Context::map_current(|current| {
            let tracer = tracer(current)?;
            let parent = current.span();
            let parent = parent.span_context();
            if !parent.is_valid() {
                Some(tracer.unsampled(current))
            } else if parent.is_sampled() {
                Some(tracer.start(span(), current))
            } else {
                None
            }
        }))
    }

    /// Runs a future within the span.
    pub fn around<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        let context = self.0.clone();
        future.with_context(context.unwrap_or_else(Context::current))
    }

    /// Adds the headers that continue the trace at another server.
    pub fn propagate(&self, headers: &mut HeaderMap) {
        let context = self.0.clone().unwrap_or_else(Context::current);
        if let Some(tracer) = tracer(&context) {
            tracer.propagate(&context, &mut SentHeaders(headers));
        }
    }

    /// Ends the span with the result of its work.
    pub fn end(self, describe: impl FnOnce(&SpanRef<'_>)) {
        if let Some(context) = &self.0 {
            let span = context.span();
            if span.is_recording() {
                describe(&span);
            }
            span.end();
        }
    }
}

fn tracer(context: &Context) -> Option<&dyn Tracer> {
    context.get::<Arc<dyn Tracer>>().map(AsRef::as_ref)
}

/// The headers of a request to another server.
struct SentHeaders<'h>(&'h mut HeaderMap);

impl Injector for SentHeaders<'_> {
    fn set(&mut self, name: &str, value: String) {
        let name = HeaderName::from_bytes(name.as_bytes());
        // `tracestate` is empty for most traces, and must not be sent then.
        if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value))
            && !value.is_empty()
        {
            self.0.insert(name, value);
        }
    }
}

/// Marks the work of a span as failed. The kind is one of a fixed set of names.
pub fn fail(span: &SpanRef<'_>, kind: &'static str) {
    span.set_attribute(KeyValue::new("error.type", kind));
    span.set_status(Status::error(""));
}

/// The ids of the current span, for [`link_to`].
#[must_use]
pub fn current_span() -> SpanContext {
    Context::map_current(|current| current.span().span_context().clone())
}

/// Links the current span to a sampled span of another request, whose work it shares.
pub fn link_to(span: &SpanContext) {
    if span.is_valid() && span.is_sampled() {
        Context::map_current(|current| current.span().add_link(span.clone(), Vec::new()));
    }
}
