//! The spans of commands to Redis.

use test_support::scripted_upstream::{Answer, ScriptedUpstream};
use test_support::spans::{self, ExportedSpan, tree};

use crate::fixture::{READ, fixture, log_in, log_out};

#[tokio::test]
async fn commands_of_a_request_to_redis_have_spans() {
    let Some(fixture) = fixture() else { return };
    let collector = ScriptedUpstream::start().await;
    collector.on(spans::PATH, Answer::empty(200));
    let endpoint = collector.url();
    let traces = [
        ("traces.endpoint", endpoint.as_str()),
        ("traces.sample_ratio", "1"),
    ];
    let (one, other) = (fixture.gateway(&traces), fixture.gateway(&traces));
    for gateway in [&one, &other] {
        fixture.synchronized(gateway).await;
    }
    let trace_of = async |name: &str| {
        spans::trace_of(&collector, |span: &ExportedSpan| span.name == name, 3).await
    };
    let session = log_in(&one).await;
    let login = trace_of("POST /api/v1/auth/login").await;
    let expected = [
        "0 POST /api/v1/auth/login Server",
        "1 SET Client",
        "1 iam login Internal",
    ];
    assert_eq!(tree(&login), expected);
    assert_eq!(other.exchange(&session, READ).await.token().scope, READ);
    let exchange = trace_of("POST /api/v1/auth/token").await;
    let expected = [
        "0 POST /api/v1/auth/token Server",
        "1 introspection Internal",
        "2 PIPELINE Client",
    ];
    assert_eq!(tree(&exchange), expected);
    let look_up = exchange.iter().find(|span| span.name == "PIPELINE");
    let attributes = &look_up.expect("a look-up").attributes;
    assert_eq!(attributes["db.system.name"], "redis");
    assert_eq!(attributes["server.address"], "127.0.0.1");
    log_out(&other, &session).await;
    let logout = trace_of("POST /api/v1/auth/logout").await;
    let expected = [
        "0 POST /api/v1/auth/logout Server",
        "1 XADD Client",
        "1 iam logout Internal",
    ];
    assert_eq!(tree(&logout), expected);
}
