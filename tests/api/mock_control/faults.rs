//! Every fault of the list, as a client of the gateway sees it.

use reqwest::Method;
use serde_json::{Value, json};
use test_support::client::Response;

use crate::namespace::{ALICE, BOB, BROWSE, Namespace, READ, gateway};

/// A fault of the IAM, the status and code of the response to clients, and the outcome in the journal.
fn faults() -> Vec<(Value, u16, &'static str, &'static str)> {
    let later = "temporarily_unavailable";
    let throttled = json!({"throttled": {"retry_after": "3s"}});
    vec![
        (json!("unreachable"), 500, later, "unreachable"),
        (json!("timeout"), 500, later, "timed_out"),
        (json!("throttled"), 429, later, "throttled"),
        (throttled, 429, later, "throttled"),
        (json!("server_error"), 500, later, "failed"),
        (json!("unreadable"), 500, "server_error", "unreadable"),
        (json!("misconfigured"), 500, "server_error", "misconfigured"),
    ]
}

/// The response of an operation while the IAM has this fault.
async fn call_with_fault(mock: &Namespace, operation: &str, fault: &Value) -> Response {
    let session = mock.session(ALICE).await;
    mock.advance("61s").await;
    mock.fault(json!({"operation": operation, "answer": fault}))
        .await;
    match operation {
        "login" => mock.try_log_in(ALICE).await,
        "introspection" => mock.exchange(&session, READ).await,
        _ => mock.log_out(&session).await,
    }
}

#[tokio::test]
async fn no_fault_of_the_iam_is_a_401() {
    let gateway = gateway();
    for operation in ["login", "introspection", "logout"] {
        for (number, (fault, status, code, outcome)) in faults().iter().enumerate() {
            // One namespace each, so that no circuit opens.
            let mock = Namespace::named(&gateway, &format!("{operation}-{number}"));
            let answer = call_with_fault(&mock, operation, fault).await;
            answer.is_error(*status, code);
            let pause = (*fault != json!("throttled")).then_some("3");
            if answer.status == 429 {
                assert_eq!(answer.header("retry-after"), pause.unwrap_or("5"));
            }
            let query = format!("operation={operation}&outcome={outcome}");
            let found = mock.read(&format!("/journal?{query}")).await;
            assert!(found["count"].as_u64() > Some(0), "{query}: {found}");
            assert_eq!(found["entries"][0]["fault"], json!(1), "{found}");
            // Without the fault the operation succeeds.
            mock.done(Method::DELETE, "/faults").await;
            mock.session(ALICE).await;
        }
    }
}

#[tokio::test]
async fn inactive_ends_a_session_and_an_answer_about_another_one_is_a_fault() {
    let gateway = gateway();
    for (answer, status, code) in [
        ("inactive", 401, "invalid_grant"),
        ("another_session", 500, "server_error"),
    ] {
        let mock = Namespace::named(&gateway, answer);
        let message = call_with_fault(&mock, "introspection", &json!(answer)).await;
        message.is_error(status, code);
    }
}

#[tokio::test]
async fn fault_applies_to_a_number_of_calls_of_one_user() {
    let mock = Namespace::alone();
    let rule = json!({"operation": "login", "user": "Alice@example.test", "times": 2,
        "answer": "server_error"});
    let fault = mock.fault(rule).await;
    assert_eq!(
        (&fault["applied"], &fault["remaining"]),
        (&json!(0), &json!(2))
    );
    mock.session(BOB).await;
    mock.try_log_in(ALICE)
        .await
        .is_error(500, "temporarily_unavailable");
    let left = mock.read("/faults").await;
    assert_eq!(left["faults"][0]["remaining"], json!(1));
    mock.try_log_in(ALICE)
        .await
        .is_error(500, "temporarily_unavailable");
    mock.session(ALICE).await;
    assert_eq!(mock.read("/faults").await["faults"], json!([]));
}

#[tokio::test]
async fn fault_without_a_count_applies_until_it_is_removed() {
    let mock = Namespace::alone();
    let first = mock
        .fault(json!({"operation": "login", "answer": "unreadable"}))
        .await;
    let second = mock
        .fault(json!({"operation": "login", "answer": "unreachable"}))
        .await;
    assert_eq!(first["remaining"], json!(null));
    for _ in 0..3 {
        mock.try_log_in(ALICE).await.is_error(500, "server_error");
    }
    mock.done(Method::DELETE, &format!("/faults/{}", first["id"]))
        .await;
    mock.try_log_in(ALICE)
        .await
        .is_error(500, "temporarily_unavailable");
    mock.done(Method::DELETE, &format!("/faults/{}", second["id"]))
        .await;
    mock.session(ALICE).await;
    for removed in [format!("/faults/{}", first["id"]), "/faults/x".to_owned()] {
        let answer = mock.call(Method::DELETE, &removed).await;
        answer.is_error(404, "not_found");
    }
}

#[tokio::test]
async fn delay_alone_changes_no_response() {
    let mock = Namespace::alone();
    for delay in [
        json!({"fixed": "10ms"}),
        json!({"uniform": ["1ms", "10ms"]}),
        json!({"lognormal": {"median": "5ms", "sigma": 0.5}}),
    ] {
        mock.fault(json!({"operation": "login", "times": 1, "delay": delay}))
            .await;
        mock.session(ALICE).await;
    }
    let found = mock.read("/journal?operation=login").await;
    assert!(
        found["entries"][0]["took_ms"].as_f64() >= Some(10.0),
        "{found}"
    );
    assert_eq!(found["entries"][2]["fault"], json!(3));
}

#[tokio::test]
async fn probe_and_readiness_report_an_outage() {
    let gateway = gateway();
    let mock = Namespace::named(&gateway, "outage");
    let probed = mock.call(Method::POST, "/probe").await;
    assert_eq!(probed.json(), json!({"outcome": "ok"}));
    mock.fault(json!({"operation": "probe", "answer": "unreachable"}))
        .await;
    let probed = mock.call(Method::POST, "/probe").await;
    assert_eq!(probed.json(), json!({"outcome": "unreachable"}));
    let ready = mock.ready().await.json();
    assert_eq!(ready["status"], json!("degraded"), "{ready}");
    let elsewhere = Namespace::unnamed(&gateway).ready().await.json();
    assert_ne!(elsewhere["status"], json!("degraded"), "{elsewhere}");
}

#[tokio::test]
async fn contradictory_rule_is_refused_with_the_reason() {
    let mock = Namespace::alone();
    for (rule, message) in [
        (json!({"operation": "login"}), "`delay`, an `answer`"),
        (json!({"answer": "timeout"}), "missing field `operation`"),
    ] {
        let answer = mock.post("/faults", &rule).await;
        answer.is_error(400, "invalid_request");
        let description = answer.json()["error_description"].to_string();
        assert!(description.contains(message), "{rule} got {description}");
    }
    assert_eq!(mock.read("/faults").await["faults"], json!([]));
    let session = mock.session(BOB).await;
    assert_eq!(mock.exchange(&session, BROWSE).await.status, 200);
}
