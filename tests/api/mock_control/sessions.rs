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

#[tokio::test]
async fn session_is_named_by_the_id_of_the_gateway_or_of_the_iam() {
    let mock = Namespace::alone();
    let sessions = [mock.session(ALICE).await, mock.session(ALICE).await];
    let listed = mock.read("/sessions").await;
    let listed = listed["sessions"].as_array().expect("sessions");
    for session in &sessions {
        let id = json!(session.session_id);
        assert!(
            listed.iter().any(|listed| listed["session_id"] == id),
            "{listed:?}"
        );
    }
    let gateway_id = &sessions[0].session_id;
    let own = listed
        .iter()
        .find(|listed| listed["session_id"] == json!(gateway_id));
    let own_id = own
        .and_then(|session| session["id"].as_str())
        .expect("an id");
    let path = format!("/sessions/{gateway_id}?notify=true");
    let ended = mock.call(Method::DELETE, &path).await;
    assert_eq!(ended.json(), json!({"ended": 1, "notified": 1}));
    mock.exchange(&sessions[0], READ)
        .await
        .is_error(401, "invalid_grant");
    assert_eq!(mock.exchange(&sessions[1], READ).await.status, 200);
    assert_eq!(mock.log_out(&sessions[1]).await.status, 200);
    // The journal has those of ended sessions too.
    for id in [gateway_id, own_id] {
        let found = mock.read(&format!("/journal?session={id}")).await;
        let entries = found["entries"].as_array().expect("entries");
        assert_eq!(entries.len(), 1, "{found}");
        assert_eq!(entries[0]["session"], json!(own_id));
        assert_eq!(entries[0]["session_id"], json!(gateway_id));
    }
    let other = &sessions[1].session_id;
    let waited = mock
        .read(&format!("/journal/wait?session={other}&count=2"))
        .await;
    assert_eq!(waited["reached"], json!(true), "login and logout");
}
