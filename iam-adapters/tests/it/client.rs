//! The HTTP client.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::client::{BODY_MAX, Response, UpstreamClient};
use test_support::ManualClock;
use test_support::scripted_upstream::{self, ScriptedUpstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::{advance, pause, resume};
use url::Url;

const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)))
}

fn client() -> UpstreamClient {
    UpstreamClient::new(CONNECT_DEADLINE, None, None, clock()).expect("a client")
}

async fn fetched(upstream: &ScriptedUpstream) -> Result<Response, IamError> {
    let client = client();
    let url = format!("{}/", upstream.url()).parse().expect("a URL");
    client.send(client.get(&url)).await
}

#[tokio::test]
async fn body_over_the_limit_is_unreadable() {
    let upstream = ScriptedUpstream::start().await;
    let padded = |length| scripted_upstream::Answer::padded(200, length);
    for fits in [padded(BODY_MAX), padded(BODY_MAX).chunked()] {
        upstream.on("/", fits);
        assert_eq!(fetched(&upstream).await.expect("read").body.len(), BODY_MAX);
    }
    for too_long in [padded(BODY_MAX + 1), padded(BODY_MAX + 1).chunked()] {
        upstream.on("/", too_long);
        let answer = fetched(&upstream).await;
        assert!(matches!(answer, Err(IamError::Unreadable(_))), "{answer:?}");
    }
}

/// What an HTTPS port answers to plain HTTP.
#[tokio::test]
async fn http_sent_to_a_port_that_expects_tls_is_named() {
    let upstream = ScriptedUpstream::start().await;
    for text in [
        "The plain HTTP request was sent to HTTPS port",
        "Client sent an HTTP request to an HTTPS server.\n",
        "You're speaking plain HTTP to an SSL-enabled server port.",
        "Bad Request\nThis combination of host and port requires TLS.",
    ] {
        upstream.on(
            "/",
            scripted_upstream::Answer::text(400, "text/plain", text),
        );
        let fault = fetched(&upstream).await.expect_err(text).to_string();
        assert!(
            fault.contains("the URL must begin with https"),
            "{text}: {fault}"
        );
    }
    upstream.on(
        "/",
        scripted_upstream::Answer::text(400, "text/plain", "bad"),
    );
    assert_eq!(fetched(&upstream).await.expect("read").status.as_u16(), 400);
    // An alert of TLS 1.2, and the end of the connection.
    for answer in [&b"\x15\x03\x03\x00\x02\x02\x0a"[..], b""] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let server = tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.expect("a connection");
            let mut head = [0; 1024];
            assert_ne!(connection.read(&mut head).await.expect("a request"), 0);
            connection.write_all(answer).await.expect("written");
        });
        let client = client();
        let fault = client.send(client.get(&url.parse().expect("a URL"))).await;
        let fault = fault.expect_err("a fault").to_string();
        assert!(fault.contains("the URL must begin with https"), "{fault}");
        server.await.expect("the server");
    }
}

#[tokio::test]
async fn debug_output_of_a_response_has_no_body() {
    let upstream = ScriptedUpstream::start().await;
    upstream.on(
        "/",
        scripted_upstream::Answer::text(200, "text/plain", "canary"),
    );
    let shown = format!("{:?}", fetched(&upstream).await.expect("read"));
    assert_eq!(
        shown,
        "Response { status: 200, retry_after: None, body_bytes: 6 }"
    );
}

#[tokio::test]
async fn client_has_no_deadline_of_its_own() {
    let upstream = ScriptedUpstream::start().await;
    upstream.on("/", scripted_upstream::Answer::empty(204).held());
    let (answer, ()) = tokio::join!(fetched(&upstream), async {
        upstream.received("/", 1).await;
        pause();
        advance(Duration::from_secs(86_400)).await;
        resume();
        upstream.release();
    });
    assert_eq!(answer.expect("read").status.as_u16(), 204);
}

#[tokio::test]
async fn connection_of_a_cancelled_call_is_not_reused() {
    let upstream = ScriptedUpstream::start().await;
    upstream.on("/", scripted_upstream::Answer::empty(204));
    let client = client();
    let url: Url = format!("{}/", upstream.url()).parse().expect("a URL");
    client.send(client.get(&url)).await.expect("an answer");
    upstream.once("/", scripted_upstream::Answer::hanging());
    let cancelled = tokio::select! {
        answer = client.send(client.get(&url)) => Some(answer),
        () = upstream.received("/", 2) => None,
    };
    assert!(cancelled.is_none(), "{cancelled:?}");
    upstream.disconnected(1).await;
    client.send(client.get(&url)).await.expect("an answer");
    assert_eq!(upstream.requests().len(), 3);
}

/// The first thread keeps its connection open, and does nothing during the second call.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn call_does_not_wait_for_another_thread_that_made_calls_before() {
    let upstream = ScriptedUpstream::start().await;
    upstream.on("/", scripted_upstream::Answer::empty(204));
    let client = client();
    let url: Url = format!("{}/", upstream.url()).parse().expect("a URL");
    let call = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let answer = runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(60), client.send(client.get(&url))).await
        });
        assert!(matches!(answer, Ok(Ok(_))), "{answer:?}");
        runtime
    };
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _runtime = call();
            barrier.wait();
            barrier.wait();
        });
        barrier.wait();
        let second = scope.spawn(|| drop(call())).join();
        barrier.wait();
        second.expect("an answer");
    });
    assert_eq!(upstream.requests().len(), 2);
}
