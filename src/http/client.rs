//! Where a request comes from.

use std::net::IpAddr;

use actix_web::HttpRequest;
use actix_web::http::header::{HeaderMap, HeaderName};

use super::Front;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client's address: the peer's, or, where the peer is a trusted proxy, the right-most address
/// in `X-Forwarded-For` that is not one itself. What stands left of it anybody may have written.
#[must_use]
pub(super) fn client_address(front: &Front, request: &HttpRequest) -> Option<IpAddr> {
    let peer = request.peer_addr()?.ip().to_canonical();
    Some(behind_proxies(peer, request.headers(), |ip| {
        front.http.trusts(ip)
    }))
}

fn behind_proxies(peer: IpAddr, headers: &HeaderMap, trusts: impl Fn(IpAddr) -> bool) -> IpAddr {
    if !trusts(peer) {
        return peer;
    }
    let mut client = peer;
    // Several headers are one list, in their order (RFC 9110 section 5.3).
    let lines: Vec<_> = headers.get_all(X_FORWARDED_FOR).collect();
    for line in lines.into_iter().rev() {
        // Each hop for itself: what a client wrote at the left must not spoil what the proxies added.
        for hop in line.as_bytes().rsplit(|byte| *byte == b',') {
            let hop = std::str::from_utf8(hop.trim_ascii()).unwrap_or_default();
            let Ok(hop) = hop.parse::<IpAddr>() else {
                return peer;
            };
            client = hop.to_canonical();
            if !trusts(client) {
                return client;
            }
        }
    }
    client
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    #[test]
    fn the_client_is_the_right_most_hop_that_is_no_trusted_proxy() {
        const PROXY: &str = "10.0.0.1";
        for (peer, lines, client) in [
            ("192.0.2.1", &["203.0.113.9"][..], "192.0.2.1"),
            (PROXY, &[], PROXY),
            (PROXY, &["203.0.113.9"], "203.0.113.9"),
            (PROXY, &["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
            (PROXY, &["1.1.1.1", "203.0.113.9"], "203.0.113.9"),
            (PROXY, &["203.0.113.9, 10.9.9.9"], "203.0.113.9"),
            (PROXY, &["203.0.113.9", "10.9.9.9,10.8.8.8"], "203.0.113.9"),
            (PROXY, &["10.7.7.7, 10.9.9.9"], "10.7.7.7"),
            (PROXY, &[""], PROXY),
            (PROXY, &["unknown"], PROXY),
            (PROXY, &["203.0.113.9, unknown"], PROXY),
            (PROXY, &["unknown, 203.0.113.9"], "203.0.113.9"),
            (PROXY, &["é, 203.0.113.9"], "203.0.113.9"),
            (PROXY, &["203.0.113.9, é"], PROXY),
            (PROXY, &["203.0.113.9:4711"], PROXY),
            (PROXY, &["2001:db8::7"], "2001:db8::7"),
            (PROXY, &["fe80::1%eth0"], PROXY),
            (PROXY, &["::ffff:203.0.113.9"], "203.0.113.9"),
            (PROXY, &["127.0.0.1"], "127.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(X_FORWARDED_FOR, HeaderValue::from_str(line).unwrap());
            }
            let found = behind_proxies(peer.parse().unwrap(), &headers, |ip| {
                ip.to_string().starts_with("10.")
            });
            assert_eq!(found.to_string(), client, "{peer} {lines:?}");
        }
    }
}
