//! Logouts with Redis.

use crate::fixture::{fixture, log_out, refuses, serves};
use crate::metrics::introspections;

#[tokio::test]
async fn logout_at_one_replica_takes_effect_at_all_others_despite_fresh_data() {
    let Some(fixture) = fixture() else { return };
    let replicas: [_; 3] = fixture.replicas().await;
    let all: Vec<_> = replicas.iter().collect();
    let other = fixture.known_session(&all).await;
    let calls = async || {
        let mut count = 0;
        for replica in &all {
            count += introspections(replica).await;
        }
        count
    };
    for round in 0..6 {
        let session = fixture.known_session(&all).await;
        let before = calls().await;
        log_out(all[round % 3], &session).await;
        assert!(!serves(all[round % 3], &session).await);
        for replica in &all {
            refuses(replica, &session).await;
            // The revocation is kept.
            assert!(!serves(replica, &session).await);
            log_out(replica, &session).await;
        }
        assert_eq!(calls().await, before, "no introspection is needed");
    }
    for replica in &all {
        assert!(serves(replica, &other).await);
    }
}
