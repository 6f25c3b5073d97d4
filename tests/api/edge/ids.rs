//! `x-request-id`: used if valid, replaced if not, and the same in every place.

use test_support::endpoints::LOGIN;
use test_support::wire::ALICE;

use super::{check_contract, gateway, in_form, send};

fn login(id: &str, body: &str) -> String {
    format!(
        "POST {LOGIN} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n{id}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn valid_request_id_is_used_on_success_and_on_error() {
    let gateway = gateway();
    let longest = "x".repeat(64);
    for id in [
        "a",
        "0af7651916cd43dd8448eb211c80319c",
        "Req_1.2-3",
        &longest,
    ] {
        for (body, status) in [(ALICE, 200), ("{}", 400)] {
            let answer = send(&gateway, login(&format!("X-Request-ID: {id}\r\n"), body));
            check_contract("POST", LOGIN, &answer);
            assert_eq!(answer.status, status);
            assert_eq!(answer.header("x-request-id"), Some(id));
        }
    }
}

#[test]
fn invalid_request_id_is_replaced_by_a_unique_one() {
    let gateway = gateway();
    let mut made = Vec::new();
    let too_long = format!("x-request-id: {}\r\n", "x".repeat(65));
    for line in [
        "",
        "x-request-id:\r\n",
        "x-request-id: a b\r\n",
        "x-request-id: a\"b\r\n",
        "x-request-id: {\"a\":1}\r\n",
        "x-request-id: \u{e9}\r\n",
        "x-request-id: a%0d%0aset-cookie:b\r\n",
        "x-request-id: \u{1b}[31m\r\n",
        &too_long,
    ] {
        for (body, status) in [(ALICE, 200), ("{}", 400)] {
            let answer = send(&gateway, login(line, body));
            // A control character makes the header and the request malformed.
            if line.contains('\u{1b}') {
                assert_eq!(answer.status, 400);
                in_form(&answer);
            } else {
                assert_eq!(answer.status, status, "{line:?}");
                check_contract("POST", LOGIN, &answer);
            }
            let id = answer.header("x-request-id").expect("an id").to_owned();
            assert!(id.len() == 16 && !line.contains(&id), "{line:?}: {id}");
            made.push(id);
        }
    }
    let all = made.len();
    made.sort();
    made.dedup();
    assert_eq!(made.len(), all);
}
