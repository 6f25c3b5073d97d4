//! A hundred tests at once in one process.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

use crate::namespace::{ALICE, BOB, BROWSE, Namespace, READ, WRITE, gateway};

/// One independent test, which sees only its own effects. `number` varies it.
async fn a_test(mock: Namespace, number: u64) {
    let (locked, standing) = (number.is_multiple_of(2), number % 3);
    if locked {
        let locked = json!({ "state": "locked" });
        let bob = format!("/users/{BOB}");
        mock.send_json(Method::PATCH, &bob, &locked).await;
    }
    let carol = json!({"email": "carol@example.test", "password": "carol-pass",
        "permissions": [format!("urn:test:{number}")]});
    assert_eq!(mock.post("/users", &carol).await.status, 201);
    for _ in 0..standing {
        mock.fault(json!({"operation": "introspection", "answer": "unreadable"}))
            .await;
    }

    let alice = mock.session(ALICE).await;
    let carol = mock.session("carol@example.test").await;
    let bob = mock.try_log_in(BOB).await.status;
    assert_eq!(bob, if locked { 401 } else { 200 });
    mock.advance(&format!("{}s", 100 + number)).await;
    let wanted = format!("urn:test:{number} urn:test:{}", number + 1);
    let own = mock.exchange(&carol, &wanted).await;
    if standing > 0 {
        own.is_error(500, "server_error");
        mock.done(Method::DELETE, "/faults").await;
    } else {
        assert_eq!(own.token().scope, format!("urn:test:{number}"));
    }
    let requested = format!("{READ} {WRITE} {BROWSE}");
    let granted = mock.exchange(&alice, &requested).await.token().scope;
    assert_eq!(granted, format!("{READ} {WRITE}"));

    let status = mock.read("/status").await;
    assert_eq!(status["namespace"], json!(format!("test-{number}")));
    assert_eq!(status["users"], json!(3));
    assert_eq!(status["sessions"], json!(if locked { 2 } else { 3 }));
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let ahead = 100.0 + number as f64;
    assert_eq!(status["time"]["offset_seconds"], json!(ahead));
    assert_eq!(mock.calls("operation=login").await, 3);
    assert_eq!(
        mock.calls("operation=introspection&outcome=ok").await,
        if standing > 0 { 1 } else { 2 }
    );
}

#[tokio::test]
async fn a_hundred_parallel_tests_do_not_affect_each_other() {
    let gateway = gateway();
    let tests = (0..100).map(|number| {
        let mock = Namespace::named(&gateway, &format!("test-{number}"));
        a_test(mock, number)
    });
    join_all(tests).await;
    // None of them affected the default namespace.
    let mock = Namespace::unnamed(&gateway);
    let status = mock.read("/status").await;
    assert_eq!(
        (&status["users"], &status["sessions"]),
        (&json!(2), &json!(0))
    );
    assert_eq!(mock.calls("operation=login").await, 0);
    assert_eq!(status["namespaces"], json!(101));
}
