//! Reset and snapshots.

use reqwest::Method;
use serde_json::json;

use crate::namespace::{ALICE, BOB, Namespace, READ, gateway};

#[tokio::test]
async fn reset_restores_the_initial_state() {
    let gateway = gateway();
    let mock = Namespace::named(&gateway, "reset");
    let session = mock.session(ALICE).await;
    mock.done(Method::DELETE, &format!("/users/{BOB}")).await;
    mock.fault(json!({"operation": "login", "answer": "timeout"}))
        .await;
    mock.advance("1h").await;
    mock.call(Method::POST, "/snapshots").await;
    mock.done(Method::POST, "/reset").await;
    let status = mock.read("/status").await;
    for (member, now) in [("users", 2), ("sessions", 0), ("faults", 0), ("calls", 0)] {
        assert_eq!(status[member], json!(now), "{status}");
    }
    assert_eq!(status["time"]["offset_seconds"], json!(0.0));
    assert_eq!(mock.read("/snapshots").await["snapshots"], json!([]));
    let answer = mock.exchange(&session, READ).await;
    answer.is_error(401, "invalid_grant");
    mock.session(BOB).await;
}

#[tokio::test]
async fn reset_of_all_deletes_every_namespace_except_the_default_one() {
    let gateway = gateway();
    let (mock, other) = (
        Namespace::unnamed(&gateway),
        Namespace::named(&gateway, "other"),
    );
    mock.session(ALICE).await;
    other.session(ALICE).await;
    assert_eq!(mock.read("/status").await["namespaces"], json!(2));
    other.done(Method::POST, "/reset?all=true").await;
    let all = mock.read("/namespaces").await;
    let begun = json!({"name": "default", "users": 2, "sessions": 0, "faults": 0, "calls": 0});
    assert_eq!(all["namespaces"], json!([begun]));
}

#[tokio::test]
async fn id_of_a_fault_is_not_used_again_after_a_restore() {
    let gateway = gateway();
    let mock = Namespace::named(&gateway, "ids");
    let taken = mock.call(Method::POST, "/snapshots").await.json();
    let rule = json!({"operation": "login", "answer": "timeout"});
    mock.fault(rule.clone()).await;
    mock.try_log_in(ALICE)
        .await
        .is_error(500, "temporarily_unavailable");
    mock.done(Method::POST, &format!("/snapshots/{}/restore", taken["id"]))
        .await;
    mock.fault(rule).await;
    let faults = mock.read("/faults").await;
    assert_eq!(faults["faults"][0]["id"], json!(2), "{faults}");
    let journal = mock.read("/journal").await;
    assert_eq!(journal["entries"][0]["fault"], json!(1), "{journal}");
}

#[tokio::test]
async fn snapshot_restores_users_sessions_faults_and_time_repeatedly() {
    let gateway = gateway();
    let mock = Namespace::named(&gateway, "snapshot");
    let session = mock.session(ALICE).await;
    mock.advance("1h").await;
    mock.fault(json!({"operation": "login", "times": 2, "answer": "timeout"}))
        .await;
    let taken = mock.call(Method::POST, "/snapshots").await;
    assert_eq!(taken.status, 201);
    let taken = taken.json();
    assert_eq!(mock.read("/snapshots").await["snapshots"], json!([taken]));
    let then = mock.read("/users").await;
    for _ in 0..2 {
        mock.try_log_in(ALICE)
            .await
            .is_error(500, "temporarily_unavailable");
        assert_eq!(mock.log_out(&session).await.status, 200);
        mock.done(Method::DELETE, &format!("/users/{ALICE}")).await;
        mock.advance("1h").await;
        mock.done(Method::POST, &format!("/snapshots/{}/restore", taken["id"]))
            .await;
        assert_eq!(mock.read("/users").await, then);
        assert_eq!(mock.read("/time").await["offset_seconds"], json!(3600.0));
        assert_eq!(
            mock.read("/faults").await["faults"][0]["remaining"],
            json!(2)
        );
        // The new gateway has no revocation of the session.
        assert_eq!(mock.exchange(&session, READ).await.token().scope, READ);
    }
    mock.done(Method::DELETE, &format!("/snapshots/{}", taken["id"]))
        .await;
    for (method, path) in [
        (Method::DELETE, format!("/snapshots/{}", taken["id"])),
        (Method::POST, format!("/snapshots/{}/restore", taken["id"])),
        (Method::POST, "/snapshots/x/restore".to_owned()),
    ] {
        mock.call(method, &path).await.is_error(404, "not_found");
    }
}

#[tokio::test]
async fn journal_continues_after_a_snapshot_is_restored() {
    let mock = Namespace::alone();
    let taken = mock.call(Method::POST, "/snapshots").await.json();
    let session = mock.session(ALICE).await;
    let logins = "/journal?operation=login";
    let before = mock.read(logins).await;
    mock.done(Method::POST, &format!("/snapshots/{}/restore", taken["id"]))
        .await;
    assert_eq!(mock.read("/sessions").await["sessions"], json!([]));
    // With the gateway's id of the session, which the snapshot does not have.
    assert_eq!(mock.read(logins).await, before);
    let of_session = format!("operation=login&session={}", session.session_id);
    assert_eq!(mock.calls(&of_session).await, 1);
    mock.session(BOB).await;
    let last = before["last"].as_u64().expect("a number");
    assert_eq!(
        mock.calls(&format!("operation=login&after={last}")).await,
        1
    );
}

#[tokio::test]
async fn no_more_than_32_snapshots_are_kept() {
    let gateway = gateway();
    let mock = Namespace::unnamed(&gateway);
    for _ in 0..32 {
        assert_eq!(mock.call(Method::POST, "/snapshots").await.status, 201);
    }
    let full = mock.call(Method::POST, "/snapshots").await;
    full.is_error(409, "conflict");
    let elsewhere = Namespace::named(&gateway, "elsewhere");
    let room = elsewhere.call(Method::POST, "/snapshots").await;
    assert_eq!(room.status, 201);
}
