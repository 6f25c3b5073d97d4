//! Invalid requests to the control API.

use reqwest::Method;
use serde_json::{Value, json};
use test_support::contract::Contract;

use crate::namespace::{ALICE, Namespace, gateway};

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Every path of the `OpenAPI` document with its methods and values for its parameters.
fn paths() -> Vec<(String, Vec<String>)> {
    let described = Contract::of_the_control().paths();
    let paths = described.into_iter().map(|(template, verbs)| {
        let path = template
            .trim_start_matches("/mock/v1")
            .replace("{email}", ALICE)
            .replace("{id}", "7")
            .replace("{name}", "nowhere");
        (path, verbs)
    });
    let paths: Vec<_> = paths.collect();
    assert!(paths.len() > 20, "{paths:?}");
    paths
}

fn method(name: &str) -> Method {
    Method::from_bytes(name.as_bytes()).expect("a method")
}

#[tokio::test]
async fn wrong_method_is_a_405_with_the_allowed_methods() {
    let mock = Namespace::alone();
    for (path, verbs) in paths() {
        for name in METHODS {
            let has = verbs.iter().any(|verb| verb == name)
                || name == "HEAD" && verbs.iter().any(|verb| verb == "GET");
            if has {
                continue;
            }
            let answer = mock.call(method(name), &path).await;
            assert_eq!(answer.status, 405, "{name} {path}");
            if name != "HEAD" {
                answer.is_error(405, "method_not_allowed");
            }
            let allow: Vec<_> = answer.header("allow").split(", ").collect();
            assert!(
                verbs.iter().all(|verb| allow.contains(&verb.as_str())),
                "{path}"
            );
            assert_eq!(allow.contains(&"GET"), allow.contains(&"HEAD"), "{path}");
        }
    }
}

#[tokio::test]
async fn every_call_refuses_unknown_parameters() {
    let gateway = gateway();
    let mock = Namespace::named(&gateway, "odd");
    for (path, verbs) in paths() {
        for verb in verbs {
            let odd = format!("{path}?nonsense=1");
            let answer = mock.send_json(method(&verb), &odd, &json!({})).await;
            answer.is_error(400, "invalid_request");
            let description = answer.json()["error_description"].to_string();
            assert!(
                description.contains("nonsense"),
                "{verb} {path} got {description}"
            );
        }
    }
    // None of them created the namespace.
    let status = Namespace::unnamed(&gateway).read("/status").await;
    assert_eq!(status["namespaces"], json!(1));
}

#[tokio::test]
async fn call_without_a_body_refuses_a_body() {
    let mock = Namespace::alone();
    for (verb, path) in [
        (Method::POST, "/reset"),
        (Method::POST, "/snapshots"),
        (Method::POST, "/probe"),
        (Method::DELETE, "/sessions"),
        (Method::GET, "/journal"),
    ] {
        let answer = mock.send_json(verb, path, &json!({"all": true})).await;
        answer.is_error(400, "invalid_request");
        assert_eq!(
            answer.json()["error_description"],
            json!("this call takes no body")
        );
    }
}

#[tokio::test]
async fn a_body_is_json_of_bounded_size() {
    let mock = Namespace::alone();
    let json = ("content-type", "application/json");
    for headers in [
        vec![],
        vec![("content-type", "text/plain")],
        vec![("content-type", "application/x-www-form-urlencoded")],
        vec![json, json],
    ] {
        let answer = mock.send(Method::POST, "/faults", &headers, "{}").await;
        answer.is_error(415, "unsupported_media_type");
    }
    let most = 1024 * 1024;
    for (length, status) in [(most, 400), (most + 1, 413), (4 * most, 413)] {
        let answer = mock
            .send(Method::POST, "/faults", &[json], vec![b' '; length])
            .await;
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    for broken in ["", "[]", "{", "{}{}", "{\"operation\":\"login\",}"] {
        let answer = mock.send(Method::POST, "/faults", &[json], broken).await;
        answer.is_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn request_of_another_origin_is_refused() {
    let gateway = gateway();
    let mock = Namespace::unnamed(&gateway);
    let own = gateway.addresses().management.to_string();
    for origin in [
        "null",
        "http://evil.test",
        &format!("http://{own}.evil.test"),
    ] {
        for (verb, path) in [
            (Method::POST, "/reset"),
            (Method::GET, "/users"),
            (Method::DELETE, "/time"),
        ] {
            let answer = mock.send(verb, path, &[("origin", origin)], "").await;
            answer.is_error(403, "forbidden");
        }
    }
    let own = format!("http://{own}");
    let answer = mock
        .send(Method::POST, "/reset", &[("origin", &own)], "")
        .await;
    assert_eq!(answer.status, 204);
}

#[tokio::test]
async fn unknown_path_is_not_found() {
    let mock = Namespace::alone();
    for path in ["", "/", "/user", "/users/", "/users/a@b/session"] {
        let answer = mock.call(Method::GET, path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
}

#[tokio::test]
async fn every_response_has_its_request_id() {
    let mock = Namespace::alone();
    for id in ["of-a-test", &"x".repeat(128)] {
        for (path, status) in [("/status", 200), ("/nowhere", 404)] {
            let named = [("x-request-id", id)];
            let answer = mock.send(Method::GET, path, &named, "").await;
            assert_eq!(answer.status, status);
            assert_eq!(answer.header("x-request-id"), id);
        }
    }
}

#[tokio::test]
async fn openapi_document_is_served_by_the_management_listener_only() {
    let mock = Namespace::alone();
    let served = mock.call(Method::GET, "/openapi.yaml").await;
    let served: Value = serde_saphyr::from_slice(&served.body).expect("YAML");
    assert_eq!(
        served["info"]["title"],
        json!("Control API of the mock IAM")
    );
    let head = mock.call(Method::HEAD, "/status").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    // The public listener has no control API.
    let public = mock.get("/mock/v1/status", &[]).await;
    public.is_error(404, "invalid_request");
}
