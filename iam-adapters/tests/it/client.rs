//! The HTTP client by itself.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::client::{Answer, BODY_MAX, ClientSettings, UpstreamClient};
use iam_adapters::clock::ManualClock;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use test_support::scripted_upstream::{self, ScriptedUpstream};
use url::Url;

fn settings() -> ClientSettings {
    ClientSettings {
        connect_deadline: Duration::from_secs(5),
        ca_file: None,
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Duration::from_secs(1_800_000_000)))
}

fn client() -> UpstreamClient {
    UpstreamClient::new(&settings(), clock()).expect("a client")
}

async fn fetched(upstream: &ScriptedUpstream) -> Result<Answer, IamError> {
    let client = client();
    let url = format!("{}/", upstream.url()).parse().expect("a URL");
    client.send(client.get(&url)).await
}

#[tokio::test]
async fn a_body_is_read_up_to_the_bound_and_not_a_byte_further() {
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

#[tokio::test]
async fn an_answer_shows_no_body() {
    let upstream = ScriptedUpstream::start().await;
    upstream.on(
        "/",
        scripted_upstream::Answer::text(200, "text/plain", "canary"),
    );
    let shown = format!("{:?}", fetched(&upstream).await.expect("read"));
    assert_eq!(
        shown,
        "Answer { status: 200, retry_after: None, body_bytes: 6 }"
    );
}

#[tokio::test]
async fn an_answer_is_waited_for_as_long_as_the_caller_waits() {
    let upstream = ScriptedUpstream::start().await;
    upstream.on("/", scripted_upstream::Answer::empty(204).held());
    let (answer, ()) = tokio::join!(fetched(&upstream), async {
        upstream.received("/", 1).await;
        upstream.release();
    });
    assert_eq!(answer.expect("read").status.as_u16(), 204);
}

/// A name service that knows one host, and tells where it is now.
struct NameService(Mutex<SocketAddr>);

impl NameService {
    fn tell(&self, upstream: &ScriptedUpstream) {
        *self.0.lock().expect("the address") = address(upstream);
    }
}

impl Resolve for NameService {
    fn resolve(&self, _: Name) -> Resolving {
        let address = *self.0.lock().expect("the address");
        Box::pin(async move { Ok(Box::new(std::iter::once(address)) as Addrs) })
    }
}

fn address(upstream: &ScriptedUpstream) -> SocketAddr {
    let address = upstream.url().replace("http://", "");
    address.parse().expect("an address")
}

/// The host that moves. Without a port of its own, so that the name service's is taken.
const MOVING: &str = "http://iam.test/";

/// Never idle, so no connection ever ends by itself.
#[tokio::test]
async fn a_busy_client_follows_a_name_that_moves_within_thirty_seconds_and_fails_no_call() {
    let (old, new) = (
        ScriptedUpstream::start().await,
        ScriptedUpstream::start().await,
    );
    for upstream in [&old, &new] {
        upstream.on("/", scripted_upstream::Answer::empty(204));
    }
    let names = Arc::new(NameService(Mutex::new(address(&old))));
    let clock = clock();
    let client = UpstreamClient::with_resolver(
        &settings(),
        Arc::<ManualClock>::clone(&clock),
        Arc::<NameService>::clone(&names),
    );
    let client = client.expect("a client");
    let url: Url = MOVING.parse().expect("a URL");
    let call = async || {
        let answer = client.send(client.get(&url)).await;
        assert_eq!(answer.expect("an answer").status.as_u16(), 204);
    };
    for _ in 0..30 {
        call().await;
        clock.advance(Duration::from_millis(999));
    }
    names.tell(&new);
    // One call is under way while the client turns to the new address.
    old.on("/", scripted_upstream::Answer::empty(204).held());
    let ((), ()) = tokio::join!(call(), async {
        old.received("/", 31).await;
        clock.advance(Duration::from_millis(30));
        call().await;
        assert_eq!(new.requests().len(), 1, "the new address is found");
        old.release();
    });
    for _ in 0..10 {
        call().await;
    }
    assert_eq!((old.requests().len(), new.requests().len()), (31, 11));
}

/// A connection whose other end has gone silent is not used for the next call.
#[tokio::test]
async fn a_connection_on_which_an_answer_did_not_come_is_not_used_again() {
    let upstream = ScriptedUpstream::start().await;
    upstream.on("/", scripted_upstream::Answer::empty(204));
    let client = client();
    let url: Url = format!("{}/", upstream.url()).parse().expect("a URL");
    client.send(client.get(&url)).await.expect("an answer");
    upstream.once("/", scripted_upstream::Answer::hanging());
    let given_up = tokio::select! {
        answer = client.send(client.get(&url)) => Some(answer),
        () = upstream.received("/", 2) => None,
    };
    assert!(given_up.is_none(), "{given_up:?}");
    upstream.hung_up(1).await;
    client.send(client.get(&url)).await.expect("an answer");
    assert_eq!(upstream.requests().len(), 3);
}
