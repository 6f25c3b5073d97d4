use std::sync::Mutex;

use actix_web::http::header::{HeaderName, HeaderValue};
use iam_adapters::trace::ChildSpan;
use opentelemetry::trace::FutureExt as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData};

use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Counts up.
#[derive(Debug, Clone, Default)]
struct Ids {
    traces: Arc<AtomicU64>,
    spans: Arc<AtomicU64>,
}

fn next(count: &AtomicU64) -> u64 {
    count.fetch_add(1, Ordering::Relaxed) + 1
}

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        TraceId::from(u128::from(next(&self.traces)))
    }

    fn new_span_id(&self) -> SpanId {
        SpanId::from(next(&self.spans))
    }
}

#[derive(Debug, Clone, Default)]
struct EndedSpans(Arc<Mutex<Vec<SpanData>>>);

impl SpanProcessor for EndedSpans {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.0.lock().unwrap().push(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

fn traces(ratio: f64) -> Traces {
    Traces::new(ratio, Ids::default(), EndedSpans::default())
}

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let value = HeaderValue::from_str(value).unwrap();
        headers.append(HeaderName::from_static(name), value);
    }
    headers
}

fn span() -> SpanBuilder {
    SpanBuilder::from_name("request")
}

fn is_sampled(context: &Context) -> bool {
    context.span().span_context().is_sampled()
}

#[test]
fn ratio_is_the_share_of_the_trace_ids_that_are_sampled() {
    const COUNT: u64 = 10_000;
    // Spread evenly over all values, as random numbers are.
    let ids = || (0..COUNT).map(|number| TraceId::from(u128::from(number * (u64::MAX / COUNT))));
    for (ratio, expected) in [(0.0, 0), (0.01, 100), (0.5, 5000), (1.0, 10_000)] {
        let traces = traces(ratio);
        let sampled = ids().filter(|id| traces.samples(*id)).count();
        assert!(sampled.abs_diff(expected) <= 1, "{ratio}: {sampled}");
        if [0, 10_000].contains(&expected) {
            assert_eq!(
                is_sampled(&traces.begin(None, Duration::ZERO, span)),
                expected > 0
            );
        }
    }
}

#[test]
fn request_that_is_not_sampled_has_no_span() {
    let context = traces(0.0).begin(None, Duration::ZERO, || panic!("a span was described"));
    assert!(!context.has_active_span());
}

#[test]
fn valid_traceparent_decides_instead_of_the_ratio() {
    for (flags, sampled) in [("01", true), ("00", false), ("03", true), ("02", false)] {
        for ratio in [0.0, 1.0] {
            let sent = headers(&[("traceparent", &format!("00-{TRACE}-{PARENT}-{flags}"))]);
            let context = traces(ratio).begin(Some(&sent), Duration::ZERO, span);
            assert_eq!(is_sampled(&context), sampled, "{flags}, {ratio}");
            assert_eq!(context.span().span_context().trace_id().to_string(), TRACE);
        }
    }
}

#[test]
fn proxy_has_ten_requests_sampled_in_a_second_and_continues_the_traces_of_others() {
    let traces = traces(0.0);
    let sent = headers(&[("traceparent", &format!("00-{TRACE}-{PARENT}-01"))]);
    for second in [0, 1, 7] {
        for millis in 0..100 {
            let now = Duration::from_millis(second * 1000 + millis);
            let context = traces.begin(Some(&sent), now, span);
            assert_eq!(is_sampled(&context), millis < 10, "{second} s, {millis} ms");
            assert_eq!(context.span().span_context().trace_id().to_string(), TRACE);
        }
    }
}

#[test]
fn invalid_traceparent_is_ignored() {
    let valid = format!("00-{TRACE}-{PARENT}-01");
    for invalid in [
        "",
        "00",
        "garbage",
        "00-1-1-1",
        &format!("0-{TRACE}-{PARENT}-01"),
        &format!("ff-{TRACE}-{PARENT}-01"),
        &format!("00-{}-{PARENT}-01", &TRACE[1..]),
        &format!("00-0{TRACE}-{PARENT}-01"),
        &format!("00-+{}-{PARENT}-01", &TRACE[1..]),
        &format!("00-{TRACE}-{}-01", &PARENT[1..]),
        &format!("00-{TRACE}-0{PARENT}-01"),
        &format!("00-{TRACE}-{PARENT}-1"),
        &format!("00-{TRACE}-{PARENT}-001"),
        &format!("00-{TRACE}-{PARENT}-01-"),
        &format!("00-{TRACE}-{PARENT}-01-extra"),
        &format!("00-{}-{PARENT}-01", "0".repeat(32)),
        &format!("00-{TRACE}-{}-01", "0".repeat(16)),
        &format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
        &format!("00-{}-{PARENT}-01", "g".repeat(32)),
        &format!("{valid},{valid}"),
    ] {
        let sent = headers(&[("traceparent", invalid)]);
        let context = traces(0.0).begin(Some(&sent), Duration::ZERO, span);
        assert!(!is_sampled(&context), "{invalid}");
        let context = traces(1.0).begin(Some(&sent), Duration::ZERO, span);
        assert_ne!(
            context.span().span_context().trace_id().to_string(),
            TRACE,
            "{invalid}"
        );
    }
    let twice = headers(&[("traceparent", &valid), ("traceparent", &valid)]);
    assert!(!is_sampled(&traces(0.0).begin(
        Some(&twice),
        Duration::ZERO,
        span
    )));
}

#[test]
fn version_of_the_future_is_read_as_the_first_one() {
    let sent = headers(&[("traceparent", &format!("01-{TRACE}-{PARENT}-01-more"))]);
    assert!(is_sampled(&traces(0.0).begin(
        Some(&sent),
        Duration::ZERO,
        span
    )));
}

#[tokio::test]
async fn children_are_below_the_current_span_and_end_with_it_if_their_work_is_cancelled() {
    let ended = EndedSpans::default();
    let traces = Traces::new(1.0, Ids::default(), ended.clone());
    let context = traces.begin(None, Duration::ZERO, span);
    let request = context.span().span_context().clone();
    let work = async {
        let outer = ChildSpan::start(|| SpanBuilder::from_name("outer"));
        let inner = async { ChildSpan::start(|| SpanBuilder::from_name("inner")).end(|_| {}) };
        outer.around(inner).await;
        outer.end(|_| {});
        let _cancelled = ChildSpan::start(|| SpanBuilder::from_name("cancelled"));
    };
    work.with_context(context).await;
    let ended = ended.0.lock().unwrap();
    let parents: Vec<_> = ended
        .iter()
        .map(|span| {
            let parent = ended
                .iter()
                .find(|other| other.span_context.span_id() == span.parent_span_id);
            (
                span.name.as_ref(),
                parent.map_or("", |parent| parent.name.as_ref()),
            )
        })
        .collect();
    let expected = [
        ("inner", "outer"),
        ("outer", "request"),
        ("cancelled", "request"),
        ("request", ""),
    ];
    assert_eq!(parents, expected);
    assert!(
        ended
            .iter()
            .all(|span| span.span_context.trace_id() == request.trace_id())
    );
}

#[tokio::test]
async fn there_are_no_child_spans_outside_of_a_sampled_request() {
    let ended = EndedSpans::default();
    let traces = Traces::new(0.0, Ids::default(), ended.clone());
    for context in [Context::new(), traces.begin(None, Duration::ZERO, span)] {
        async { ChildSpan::start(span).end(|_| panic!("a span was described")) }
            .with_context(context)
            .await;
    }
    assert!(ended.0.lock().unwrap().is_empty());
}
