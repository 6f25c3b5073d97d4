//! `x-request-id`: used if valid, replaced if not, and the same in every place.

use test_support::endpoints::LOGIN;
use test_support::wire::{ALICE, post, with_header};

use super::{check_contract, gateway, send};

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
            let request = with_header(&format!("X-Request-ID: {id}"), &post(LOGIN, body));
            let answer = send(&gateway, request);
            check_contract("POST", LOGIN, &answer);
            assert_eq!(answer.status, status);
            assert_eq!(answer.header("x-request-id"), Some(id));
        }
    }
}
