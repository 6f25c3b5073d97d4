//! The clock of a namespace.

use reqwest::Method;
use serde_json::json;

use crate::namespace::{ALICE, Namespace};

#[tokio::test]
async fn clock_can_be_set_and_reset_to_real_time() {
    let mock = Namespace::alone();
    assert_eq!(mock.read("/time").await["offset_seconds"], json!(0.0));
    let midnight = json!({ "now": "2030-01-01T00:00:00Z" });
    let set = mock.send_json(Method::PUT, "/time", &midnight).await.json();
    assert_eq!(set["now"], json!("2030-01-01T00:00:00.000Z"));
    assert!(set["offset_seconds"].as_f64() > Some(0.0), "{set}");
    let session = mock.session(ALICE).await;
    assert_eq!(session.verified_at, "2030-01-01T00:00:00+00:00");
    mock.advance("90s").await;
    let now = mock.read("/time").await;
    assert_eq!(now["now"], json!("2030-01-01T00:01:30.000Z"));
    // A time with an offset is the same moment.
    let earlier = json!({ "now": "2029-12-31T23:00:00-01:00" });
    let set = mock.send_json(Method::PUT, "/time", &earlier).await.json();
    assert_eq!(set["now"], json!("2030-01-01T00:00:00.000Z"));
    let real = mock.call(Method::DELETE, "/time").await.json();
    assert_eq!(real["offset_seconds"], json!(0.0));
    assert_eq!(mock.read("/time").await, real);
}

#[tokio::test]
async fn invalid_time_changes_nothing() {
    let mock = Namespace::alone();
    let before = mock.read("/time").await;
    for (path, method, body) in [
        ("/time/advance", Method::POST, json!({})),
        ("/time/advance", Method::POST, json!({"by": 60})),
        ("/time/advance", Method::POST, json!({"by": "-1h"})),
        ("/time/advance", Method::POST, json!({"by": "1000y"})),
        (
            "/time/advance",
            Method::POST,
            json!({"by": "1h", "to": "noon"}),
        ),
        ("/time", Method::PUT, json!({"now": "noon"})),
        ("/time", Method::PUT, json!({"now": 1_800_000_000})),
        ("/time", Method::PUT, json!({"now": "1969-12-31T23:59:59Z"})),
        ("/time", Method::PUT, json!({"now": "2300-01-01T00:00:00Z"})),
    ] {
        let answer = mock.send_json(method, path, &body).await;
        answer.is_error(400, "invalid_request");
    }
    assert_eq!(mock.read("/time").await, before);
}

#[tokio::test]
async fn error_names_the_latest_time() {
    let mock = Namespace::alone();
    let late = json!({ "now": "2255-03-14T16:00:00.001Z" });
    let answer = mock.send_json(Method::PUT, "/time", &late).await;
    answer.is_error(400, "invalid_request");
    let latest = "2255-03-14T16:00:00Z";
    assert!(answer.text().contains(latest), "{}", answer.text());
    let set = mock
        .send_json(Method::PUT, "/time", &json!({ "now": latest }))
        .await;
    assert_eq!(set.status, 200, "{}", set.text());
}

#[tokio::test]
async fn jumps_forward_add_up_to_292_years_at_most_until_a_reset() {
    let mock = Namespace::alone();
    let late = json!({ "now": "2250-01-01T00:00:00Z" });
    let set = mock.send_json(Method::PUT, "/time", &late).await;
    assert_eq!(set.status, 200, "{}", set.text());
    let real = mock.call(Method::DELETE, "/time").await.json();
    for (path, method, body) in [
        ("/time/advance", Method::POST, json!({"by": "150y"})),
        ("/time", Method::PUT, late.clone()),
    ] {
        let answer = mock.send_json(method, path, &body).await;
        answer.is_error(409, "conflict");
        assert!(
            answer.text().contains("/mock/v1/reset"),
            "{}",
            answer.text()
        );
    }
    assert_eq!(mock.read("/time").await, real);
    mock.done(Method::POST, "/reset").await;
    let set = mock.send_json(Method::PUT, "/time", &late).await;
    assert_eq!(set.status, 200, "{}", set.text());
}
