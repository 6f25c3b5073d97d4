//! Headers that the gateway acts on: `X-Forwarded-For` behind a trusted proxy, and `X-Request-Id`.

#![no_main]

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use auth_gateway_fuzz::gateway::{Gateway, is_well_formed};
use libfuzzer_sys::fuzz_target;
use test_support::wire::ALICE;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

// The first line is the request id, every other one an `X-Forwarded-For`.
fuzz_target!(|input: &[u8]| {
    thread_local!(static GATEWAY: RefCell<Gateway> = RefCell::new(Gateway::start(&[
        ("http.trusted_proxies", "127.0.0.1/32,10.0.0.0/8"),
    ])));
    let mut lines = input.split(|byte| *byte == b'\n');
    let id = lines.next().unwrap_or_default();
    let hops: Vec<_> = lines.collect();
    let mut head = b"content-type: application/json\r\nx-request-id: ".to_vec();
    head.extend_from_slice(id);
    for hop in &hops {
        head.extend_from_slice(b"\r\nX-Forwarded-For: ");
        head.extend_from_slice(hop);
    }
    head.extend_from_slice(b"\r\n");
    GATEWAY.with_borrow_mut(|gateway| {
        let Some(answer) = gateway.post("/api/v1/auth/login", &head, ALICE.as_bytes()) else {
            return;
        };
        if answer.status != 200 {
            // Not a request, or a request beyond a limit.
            assert!(matches!(answer.status, 400 | 429 | 431), "{answer:?}");
            is_well_formed(&answer);
            return;
        }
        let request_id = answer.header("x-request-id").expect("an id");
        let fit = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        let id = id.trim_ascii();
        if (1..=128).contains(&id.len()) && id.iter().all(fit) {
            assert_eq!(request_id.as_bytes(), id);
        } else {
            assert!(
                request_id.len() == 16 && request_id.bytes().all(|byte| fit(&byte)),
                "{request_id}"
            );
        }
        assert_eq!(gateway.seen(), Some(client(&hops)), "{hops:?}");
    });
});

/// The first address from the right that is no trusted proxy, or the peer if an entry before it is no
/// address.
fn client(hops: &[&[u8]]) -> IpAddr {
    let list: Vec<&[u8]> = hops
        .iter()
        .flat_map(|line| line.split(|b| *b == b','))
        .collect();
    let mut client = PEER;
    for hop in list.into_iter().rev() {
        let text = std::str::from_utf8(hop.trim_ascii()).unwrap_or_default();
        // Also with a port; never with a zone.
        let with_port = text.parse::<SocketAddr>().map(|with| with.ip());
        let Ok(address) = text.parse::<IpAddr>().or(with_port) else {
            return PEER;
        };
        if text.contains('%') {
            return PEER;
        }
        client = address.to_canonical();
        let trusted = match client {
            IpAddr::V4(v4) => v4 == Ipv4Addr::LOCALHOST || v4.octets()[0] == 10,
            IpAddr::V6(_) => false,
        };
        if !trusted {
            return client;
        }
    }
    client
}
