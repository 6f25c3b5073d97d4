//! Replicas that start while many sessions are in use, with empty caches.

use std::sync::Arc;

use futures_util::future::join_all;
use iam_adapters::clock::ManualClock;
use test_support::gateway::TestGateway;
use test_support::keys::TestKeys;
use test_support::slow_iam::SlowIam;
use test_support::suite::{IamFixture, READ, session_of};
use test_support::wrapper::wrapped;

const REPLICAS: usize = 4;
const SESSIONS: usize = 150;
/// Concurrent introspections of each replica.
const LIMIT: usize = 3;

#[tokio::test]
async fn cold_replicas_serve_all_sessions_within_the_concurrency_limit_of_the_iam() {
    let fixture = IamFixture::in_memory();
    let keys = TestKeys::new();
    let user = fixture.user(&[READ]).await;
    let warm = fixture.replica(&keys);
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(session_of(&warm, &user).await);
    }
    drop(warm);

    let limit = LIMIT.to_string();
    let settings = [
        &keys.settings()[..],
        // A busy machine is not a slow IAM.
        &[
            ("upstream.introspection_concurrency", limit.as_str()),
            ("upstream.introspection_deadline", "60s"),
            ("session.freshness", "60s"),
            ("permissions.ttl", "60s"),
        ],
    ];
    let settings = settings.concat();
    let replicas = (0..REPLICAS).map(|_| {
        let iam = SlowIam::held(fixture.administrator.adapter());
        let clock = Arc::<ManualClock>::clone(&fixture.clock);
        let gateway = TestGateway::with_adapter(wrapped(&iam), clock, &settings);
        (gateway, iam)
    });
    let replicas: Vec<_> = replicas.collect();

    let everywhere = replicas
        .iter()
        .flat_map(|replica| sessions.iter().map(move |session| (replica, session)));
    let mut waiting: Vec<_> = everywhere.collect();
    while !waiting.is_empty() {
        let before = waiting.len();
        let answers = waiting.iter().map(async |((gateway, iam), session)| {
            let answer = gateway.exchange(session, READ).await;
            if answer.status == 200 {
                assert_eq!(answer.token().scope, READ);
                return false;
            }
            // A request beyond the limit gets Retry-After and succeeds later.
            answer.is_error(503, "temporarily_unavailable");
            answer.header("retry-after");
            // As many introspections as possible are in flight, and as many as possible wait.
            iam.release();
            true
        });
        let mut again = join_all(answers).await.into_iter();
        waiting.retain(|_| again.next() == Some(true));
        assert!(waiting.len() < before, "{before} wait in vain");
    }
    for (_, iam) in &replicas {
        assert_eq!(iam.max_in_flight(), LIMIT);
        assert_eq!(iam.introspections(), SESSIONS);
    }
}
