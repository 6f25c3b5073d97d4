//! The spans that a gateway exports.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;

use crate::scripted_upstream::ScriptedUpstream;
use crate::wait::until_ok;

/// The path to which a gateway sends spans.
pub const PATH: &str = "/v1/traces";

/// A span as the Collector receives it.
#[derive(Debug, Clone)]
pub struct ExportedSpan {
    /// 32 hexadecimal digits.
    pub trace_id: String,
    /// 16 hexadecimal digits.
    pub span_id: String,
    /// Those of the parent, or empty.
    pub parent_id: String,
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: SpanKind,
    /// Whether its status is an error.
    pub is_error: bool,
    /// The attributes as text.
    pub attributes: BTreeMap<String, String>,
    /// The ids of the spans of its links.
    pub links: Vec<String>,
    /// The attributes of the process as text.
    pub resource: BTreeMap<String, String>,
}

/// The spans of one export.
pub fn decode(body: &[u8]) -> Vec<ExportedSpan> {
    let request = ExportTraceServiceRequest::decode(body).expect("an export");
    let mut spans = Vec::new();
    for of_resource in request.resource_spans {
        let resource = texts(of_resource.resource.expect("a resource").attributes);
        let exported = of_resource.scope_spans.into_iter();
        for span in exported.flat_map(|scope| scope.spans) {
            spans.push(ExportedSpan {
                kind: span.kind(),
                trace_id: hex(&span.trace_id),
                span_id: hex(&span.span_id),
                parent_id: hex(&span.parent_span_id),
                name: span.name,
                // `STATUS_CODE_ERROR`.
                is_error: span.status.is_some_and(|status| status.code == 2),
                attributes: texts(span.attributes),
                links: span.links.iter().map(|link| hex(&link.span_id)).collect(),
                resource: resource.clone(),
            });
        }
    }
    spans
}

/// The spans that a receiver has.
pub fn exported(collector: &ScriptedUpstream) -> Vec<ExportedSpan> {
    let exports = collector.requests_to(PATH);
    let decoded = exports.iter().flat_map(|export| decode(&export.body));
    decoded.collect()
}

/// The spans of the trace that contains such a span, once the receiver has this number of them.
pub async fn trace_of(
    collector: &ScriptedUpstream,
    is_in: impl Fn(&ExportedSpan) -> bool,
    count: usize,
) -> Vec<ExportedSpan> {
    until_ok(&format!("{count} spans of a trace"), async || {
        let mut spans = exported(collector);
        let trace = spans.iter().find(|span| is_in(span));
        let trace = trace.ok_or_else(Vec::new)?.trace_id.clone();
        spans.retain(|span| span.trace_id == trace);
        if spans.len() == count {
            Ok(spans)
        } else {
            Err(tree(&spans))
        }
    })
    .await
}

/// The spans as a tree, one line for each: its depth, name and kind. Spans of equal depth are sorted.
pub fn tree(spans: &[ExportedSpan]) -> Vec<String> {
    fn below(spans: &[ExportedSpan], parent: &str, depth: usize, lines: &mut Vec<String>) {
        let mut children: Vec<_> = spans
            .iter()
            .filter(|span| span.parent_id == parent)
            .collect();
        children.sort_by(|one, other| one.name.cmp(&other.name));
        for span in children {
            lines.push(format!("{depth} {} {:?}", span.name, span.kind));
            below(spans, &span.span_id, depth + 1, lines);
        }
    }
    let is_root = |span: &&ExportedSpan| spans.iter().all(|other| other.span_id != span.parent_id);
    let root = spans.iter().find(is_root).expect("a root");
    let mut lines = Vec::new();
    below(spans, &root.parent_id, 0, &mut lines);
    lines
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    let attributes = attributes.into_iter();
    attributes
        .map(|attribute| (attribute.key, text(attribute.value)))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
