//! `x-request-id`: used if valid, replaced if not, and the same in every place.

use test_support::endpoints::LOGIN;
use test_support::wire::ALICE;

use super::{check_contract, gateway, send};

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
    let longest = "x".repeat(128);
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
