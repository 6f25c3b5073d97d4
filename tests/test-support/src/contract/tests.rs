//! Tests of the check itself: what it accepts, and what it must not accept.

use std::collections::BTreeSet;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::pointer::Pointer;
use super::{Contract, read_yaml};
use crate::endpoints::{LOGIN, TOKEN};
use crate::json::without;

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let common = [
        ("content-type", "application/json"),
        ("cache-control", "no-store"),
        ("pragma", "no-cache"),
        ("x-request-id", "r1"),
    ];
    common
        .iter()
        .chain(pairs)
        .map(|(name, value)| {
            (
                HeaderName::try_from(*name).expect("a name"),
                HeaderValue::try_from(*value).expect("a value"),
            )
        })
        .collect()
}

fn token() -> Value {
    json!({"access_token": "a.b.c", "scope": "", "expires_in": 3600, "token_type": "bearer"})
}

fn error(code: &str) -> Value {
    json!({"error": code, "error_description": "No.", "request_id": "r1"})
}

fn check_response(
    method: &str,
    path: &str,
    status: u16,
    headers: &HeaderMap,
    body: &Value,
) -> Result<(), String> {
    Contract::get().check_response(method, path, status, headers, body.to_string().as_bytes())
}

/// Panics unless this response to a POST is refused for this reason.
#[track_caller]
fn refuses(path: &str, status: u16, headers: &HeaderMap, body: &Value, why: &str) {
    refused(check_response("POST", path, status, headers, body), why);
}

/// Panics unless this response to a POST is accepted.
#[track_caller]
fn accepts(path: &str, status: u16, headers: &HeaderMap, body: &Value) {
    assert_eq!(check_response("POST", path, status, headers, body), Ok(()));
}

#[track_caller]
fn refused(result: Result<(), String>, why: &str) {
    let message = result.expect_err(why);
    assert!(message.contains(why), "{message}");
}

#[test]
fn response_as_described_passes() {
    Contract::get().check(
        "POST",
        TOKEN,
        200,
        &headers(&[]),
        token().to_string().as_bytes(),
    );
}

#[test]
#[should_panic(expected = "does not describe")]
fn undescribed_response_panics() {
    Contract::get().check("POST", TOKEN, 201, &headers(&[]), b"{}");
}

#[test]
fn member_of_another_type_is_detected() {
    let mut body = token();
    body["expires_in"] = json!("3600");
    refuses(TOKEN, 200, &headers(&[]), &body, "/expires_in");
}

#[test]
fn missing_or_additional_member_is_detected() {
    let mut body = token();
    body["refresh_token"] = json!("x");
    refuses(TOKEN, 200, &headers(&[]), &body, "refresh_token");
    let challenge = headers(&[("www-authenticate", "Bearer realm=\"auth\"")]);
    let mut body = error("invalid_grant");
    body["hint"] = json!("x");
    refuses(LOGIN, 401, &challenge, &body, "hint");
    let body = without(error("invalid_grant"), "error_description");
    refuses(LOGIN, 401, &challenge, &body, "error_description");
}

/// Adds the names of the schemas that a part of a document uses.
fn used<'d>(document: &'d Value, part: &'d Value, names: &mut BTreeSet<&'d str>) {
    match part {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                let pointer = reference.trim_start_matches('#');
                let name = pointer.strip_prefix("/components/schemas/");
                if name.is_none_or(|name| names.insert(name)) {
                    used(document, document.pointer(pointer).expect(pointer), names);
                }
            }
            for member in members.values() {
                used(document, member, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| used(document, item, names)),
        _ => {}
    }
}

/// Panics unless every object that lists its members is stated to accept others.
fn accepts_others(schema: &Value, name: &str) {
    match schema {
        Value::Object(members) => {
            if members.contains_key("properties") || members.contains_key("allOf") {
                assert_eq!(schema["additionalProperties"], json!(true), "{name}");
            }
            // Its parts restrict the members of the whole.
            let parts = members.iter().filter(|(part, _)| *part != "allOf");
            parts.for_each(|(_, part)| accepts_others(part, name));
        }
        Value::Array(items) => items.iter().for_each(|item| accepts_others(item, name)),
        _ => {}
    }
}

#[test]
fn generated_clients_accept_members_that_a_later_version_adds_to_a_response() {
    for yaml in [
        include_str!("../../../../openapi.yaml"),
        include_str!("../../../../dev/openapi.yaml"),
    ] {
        let document = read_yaml(yaml.as_bytes()).expect("YAML");
        accepts_others(&document["components"]["responses"], "responses");
        let (mut requests, mut responses) = (BTreeSet::new(), BTreeSet::new());
        let paths = document["paths"].as_object().expect("paths");
        for operation in paths
            .values()
            .filter_map(Value::as_object)
            .flat_map(serde_json::Map::values)
        {
            accepts_others(&operation["responses"], "responses");
            used(&document, &operation["requestBody"], &mut requests);
            used(&document, &operation["responses"], &mut responses);
        }
        // A response with a schema of a request returns what a request has sent. `Document` is YAML.
        let own = responses
            .difference(&requests)
            .filter(|name| **name != "Document");
        assert!(own.clone().count() > 10, "{responses:?}");
        for name in own {
            accepts_others(&document["components"]["schemas"][name], name);
        }
    }
}

#[test]
fn missing_or_different_header_is_detected() {
    let refusal = error("invalid_grant");
    refuses(
        LOGIN,
        401,
        &headers(&[]),
        &refusal,
        "WWW-Authenticate is missing",
    );
    let basic = headers(&[("www-authenticate", "Basic realm=\"auth\"")]);
    refuses(LOGIN, 401, &basic, &refusal, "WWW-Authenticate");
    let mut cacheable = headers(&[]);
    cacheable.remove("cache-control");
    refuses(TOKEN, 200, &cacheable, &token(), "Cache-Control is missing");
}

#[test]
fn undescribed_status_is_detected() {
    let body = error("invalid_request");
    refuses(LOGIN, 422, &headers(&[]), &body, "422");
    let challenge = headers(&[("www-authenticate", "Bearer realm=\"auth\"")]);
    let logout = "/api/v1/auth/logout";
    refuses(logout, 401, &challenge, &body, "401");
}

#[test]
fn error_code_of_another_status_is_detected() {
    let challenge = headers(&[("www-authenticate", "Bearer realm=\"auth\"")]);
    let fault = error("server_error");
    refuses(LOGIN, 401, &challenge, &fault, "/error");
}

#[test]
fn only_a_temporary_fault_has_retry_after() {
    let temporary = error("temporarily_unavailable");
    let lasting = error("server_error");
    let (plain, later) = (headers(&[]), headers(&[("retry-after", "1")]));
    accepts(LOGIN, 500, &later, &temporary);
    accepts(LOGIN, 500, &plain, &lasting);
    refuses(LOGIN, 500, &plain, &temporary, "Retry-After");
    refuses(LOGIN, 500, &later, &lasting, "Retry-After");
    let never = headers(&[("retry-after", "0")]);
    refuses(LOGIN, 500, &never, &temporary, "Retry-After");
}

#[test]
fn different_request_ids_in_header_and_body_are_detected() {
    let mut body = error("invalid_request");
    body["request_id"] = json!("r2");
    refuses(LOGIN, 400, &headers(&[]), &body, "request_id");
}

#[test]
fn different_content_type_is_detected() {
    let mut text = headers(&[]);
    text.insert("content-type", HeaderValue::from_static("text/plain"));
    refuses(TOKEN, 200, &text, &token(), "text/plain");
    text.insert(
        "content-type",
        HeaderValue::from_static("application/json; charset=utf-8"),
    );
    accepts(TOKEN, 200, &text, &token());
}

#[test]
fn unknown_path_is_a_404_and_unknown_method_a_405() {
    let body = error("invalid_request");
    let plain = headers(&[]);
    assert_eq!(
        check_response("GET", "/nowhere?a=b", 404, &plain, &body),
        Ok(())
    );
    refused(check_response("GET", "/nowhere", 200, &plain, &body), "404");
    let allow = headers(&[("allow", "POST")]);
    assert_eq!(check_response("GET", LOGIN, 405, &allow, &body), Ok(()));
    refused(check_response("GET", LOGIN, 404, &allow, &body), "405");
    refused(
        check_response("GET", LOGIN, 405, &plain, &body),
        "Allow is missing",
    );
}

#[test]
fn private_key_in_the_key_set_is_detected() {
    let mut keys = headers(&[("etag", "\"1\"")]);
    keys.insert(
        "content-type",
        HeaderValue::from_static("application/jwk-set+json"),
    );
    keys.insert(
        "cache-control",
        HeaderValue::from_static("public, max-age=300"),
    );
    let coordinate = "A".repeat(43);
    let mut key = json!({"kty": "OKP", "use": "sig", "alg": "EdDSA", "kid": "k",
        "crv": "Ed25519", "x": coordinate});
    let path = "/.well-known/jwks.json";
    assert_eq!(
        check_response("GET", path, 200, &keys, &json!({"keys": [key.clone()]})),
        Ok(())
    );
    key["d"] = json!(coordinate);
    refused(
        check_response("GET", path, 200, &keys, &json!({"keys": [key]})),
        "/keys/0",
    );
}

#[test]
fn path_with_a_parameter_is_checked_as_its_template() {
    let contract = Contract::of_the_control();
    let body = error("not_found");
    let check_response = |method: &str, path: &str, status| {
        contract.check_response(
            method,
            path,
            status,
            &headers(&[]),
            body.to_string().as_bytes(),
        )
    };
    assert_eq!(check_response("DELETE", "/mock/v1/faults/7", 404), Ok(()));
    assert_eq!(
        check_response("DELETE", "/mock/v1/sessions/a?notify=true", 404),
        Ok(())
    );
    refused(check_response("DELETE", "/mock/v1/faults/7", 409), "409");
    refused(check_response("GET", "/mock/v1/status", 404), "404");
    for nowhere in ["/mock/v1/faults/", "/mock/v1/faults/7/8", "/mock/v1"] {
        assert_eq!(check_response("GET", nowhere, 404), Ok(()), "{nowhere}");
    }
}

#[test]
fn every_path_of_the_documents_has_a_method() {
    for contract in [Contract::get(), Contract::of_the_control()] {
        for (path, methods) in contract.paths() {
            assert!(!methods.is_empty(), "{}: {path}", contract.name);
        }
    }
}

#[test]
fn documents_have_the_version_of_the_program() {
    for contract in [Contract::get(), Contract::of_the_control()] {
        let version = contract.document.pointer("/info/version");
        assert_eq!(version, Some(&json!(env!("CARGO_PKG_VERSION"))));
    }
}

/// Every `examples` of a media type and every `example` of a header, with the schema beside it.
fn examples(at: &Pointer, value: &Value, found: &mut Vec<(Pointer, Value)>) {
    if let Value::Object(members) = value {
        if members.contains_key("schema") {
            let named = members.get("examples").and_then(Value::as_object);
            let values = named.into_iter().flat_map(|named| named.values());
            let examples = values.filter_map(|example| example.get("value"));
            for example in examples.chain(members.get("example")) {
                found.push((at.child("schema"), example.clone()));
            }
        }
        for (name, member) in members {
            examples(&at.child(name), member, found);
        }
    }
}

#[test]
fn every_example_in_the_documents_matches_its_schema() {
    for contract in [Contract::get(), Contract::of_the_control()] {
        let mut found = Vec::new();
        examples(&Pointer::root(), &contract.document, &mut found);
        let (name, count) = (contract.name, found.len());
        assert!(count > 30, "{name} has {count} examples");
        for (schema, example) in found {
            assert_eq!(contract.validate(&schema, &example), Ok(()), "{schema:?}");
        }
    }
}

#[test]
fn document_describes_its_own_endpoint() {
    let mut yaml = headers(&[("etag", "\"1\"")]);
    yaml.insert(
        "cache-control",
        HeaderValue::from_static("public, max-age=300"),
    );
    yaml.insert("content-type", HeaderValue::from_static("application/yaml"));
    let document = include_bytes!("../../../../openapi.yaml");
    let contract = Contract::get();
    contract.check("GET", "/openapi.yaml", 200, &yaml, document);
    contract.check("HEAD", "/openapi.yaml", 200, &yaml, b"");
    contract.check("GET", "/openapi.yaml", 304, &yaml, b"");
    refused(
        contract.check_response("HEAD", "/openapi.yaml", 201, &yaml, b""),
        "201",
    );
}
