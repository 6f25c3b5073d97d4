//! Sessions that end at the IAM, with and without a logout token.

use reqwest::Method;
use serde_json::json;

use crate::namespace::{ALICE, BOB, BROWSE, Namespace, READ, gateway};

#[tokio::test]
async fn active_sessions_are_listed_newest_first() {
    let mock = Namespace::alone();
    mock.session(ALICE).await;
    mock.advance("1s").await;
    mock.session(BOB).await;
    let all = mock.read("/sessions").await;
    let all = all["sessions"].as_array().expect("sessions");
    let users: Vec<_> = all.iter().map(|session| &session["user"]).collect();
    assert_eq!(users, [&json!(BOB), &json!(ALICE)]);
    let of_bob = mock.read(&format!("/sessions?user={BOB}")).await;
    assert_eq!(of_bob["sessions"], json!([all[0]]));
    let unknown = mock.call(Method::GET, "/sessions?user=unknown@x").await;
    unknown.is_error(404, "not_found");
    // A session has a lifetime of eight hours.
    mock.advance("7h 59m 59s").await;
    assert_eq!(mock.read("/sessions").await["sessions"], json!([all[0]]));
}

#[tokio::test]
async fn ended_session_with_a_logout_token_is_refused_at_once() {
    let mock = Namespace::alone();
    let session = mock.session(ALICE).await;
    let neighbour = mock.session(BOB).await;
    let listed = mock.read(&format!("/sessions?user={ALICE}")).await;
    let id = listed["sessions"][0]["id"].as_str().expect("an id");
    let path = format!("/sessions/{id}?notify=true");
    let ended = mock.call(Method::DELETE, &path).await;
    assert_eq!(ended.json(), json!({"ended": 1, "notified": 1}));
    let answer = mock.exchange(&session, READ).await;
    answer.is_error(401, "invalid_grant");
    // Because of the token, not of an introspection.
    assert_eq!(mock.calls("operation=introspection").await, 0);
    assert_eq!(mock.exchange(&neighbour, BROWSE).await.status, 200);
    let again = mock.call(Method::DELETE, &path).await;
    again.is_error(404, "not_found");
}

#[tokio::test]
async fn ended_session_without_a_logout_token_is_refused_after_the_freshness() {
    let gateway = gateway();
    let mock = Namespace::unnamed(&gateway);
    let session = mock.session(ALICE).await;
    let ended = mock.call(Method::DELETE, "/sessions").await;
    assert_eq!(ended.json(), json!({"ended": 1, "notified": 0}));
    assert_eq!(mock.read("/sessions").await["sessions"], json!([]));
    // As with any IAM, the gateway uses fresh cached data.
    assert_eq!(mock.exchange(&session, READ).await.status, 200);
    mock.advance("31s").await;
    let answer = mock.exchange(&session, READ).await;
    answer.is_error(401, "invalid_grant");
    assert_eq!(
        mock.calls("operation=introspection&outcome=inactive").await,
        1
    );
}

#[tokio::test]
async fn all_sessions_of_a_user_end_with_one_logout_token_each() {
    let mock = Namespace::alone();
    let sessions = [mock.session(ALICE).await, mock.session(ALICE).await];
    let neighbour = mock.session(BOB).await;
    let path = format!("/users/{ALICE}/sessions?notify=true");
    let ended = mock.call(Method::DELETE, &path).await;
    assert_eq!(ended.json(), json!({"ended": 2, "notified": 2}));
    for session in &sessions {
        let answer = mock.exchange(session, READ).await;
        answer.is_error(401, "invalid_grant");
    }
    assert_eq!(mock.exchange(&neighbour, BROWSE).await.status, 200);
    // The user can log in again.
    let back = mock.session(ALICE).await;
    assert_eq!(mock.exchange(&back, READ).await.status, 200);
    let unknown = mock.call(Method::DELETE, "/users/unknown@x/sessions").await;
    unknown.is_error(404, "not_found");
}

#[tokio::test]
async fn logout_token_that_the_gateway_refuses_is_not_counted_as_notified() {
    let mock = Namespace::alone();
    mock.session(ALICE).await;
    mock.fault(json!({"operation": "keys", "answer": "unreachable"}))
        .await;
    let ended = mock.call(Method::DELETE, "/sessions?notify=true").await;
    assert_eq!(ended.json(), json!({"ended": 1, "notified": 0}));
}
