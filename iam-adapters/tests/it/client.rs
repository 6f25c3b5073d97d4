//! The HTTP client by itself.

use std::time::Duration;

use iam_adapters::IamError;
use iam_adapters::client::{Answer, BODY_MAX, ClientSettings, UpstreamClient};

use crate::scripted_upstream::{self, ScriptedUpstream};

fn client() -> UpstreamClient {
    let settings = ClientSettings {
        connect_deadline: Duration::from_secs(5),
        ca_file: None,
    };
    UpstreamClient::new(&settings).expect("a client")
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
