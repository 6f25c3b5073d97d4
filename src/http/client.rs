//! Where a request comes from.

use std::net::{IpAddr, SocketAddr};
use std::sync::Once;

use actix_web::HttpRequest;
use actix_web::http::header::{HeaderMap, HeaderName};

use super::Front;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client's address: the peer's, or, where the peer is a trusted proxy, the right-most address
/// in `X-Forwarded-For` that is not one itself. What stands left of it anybody may have written.
///
/// Where a proxy wrote what cannot be read, the client is the peer: nobody becomes invisible to
/// what counts by address. `Forwarded` (RFC 7239) is not looked at, because a proxy that knows
/// only one of the two headers passes the other on as its client wrote it.
#[must_use]
pub(super) fn client_address(front: &Front, request: &HttpRequest) -> Option<IpAddr> {
    let peer = request.peer_addr()?.ip().to_canonical();
    Some(behind_proxies(peer, request.headers(), |ip| {
        front.http.trusts(ip)
    }))
}

/// Tells the operator, once, of a peer that forwards for others and is not trusted: all of its
/// clients are one address, and share what one address may do.
pub(super) fn suspect_proxy(front: &Front, request: &HttpRequest) {
    static TOLD: Once = Once::new();
    let Some(peer) = request.peer_addr() else {
        return;
    };
    if request.headers().contains_key(X_FORWARDED_FOR) && !front.http.trusts(peer.ip()) {
        TOLD.call_once(|| {
            tracing::warn!(
                peer.address = %peer.ip(),
                "logins are stopped by address, and this one forwards for others: is it a proxy \
                 that http.trusted_proxies should name?"
            );
        });
    }
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
            let Some(hop) = address_in(hop) else {
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

/// An address, also with a port, as some load balancers write it; IPv6 then is in brackets. One
/// with a zone means something on one machine alone.
fn address_in(hop: &str) -> Option<IpAddr> {
    if hop.contains('%') {
        return None;
    }
    let bare = hop.parse().ok();
    bare.or_else(|| hop.parse().ok().map(|with: SocketAddr| with.ip()))
}

#[cfg(test)]
mod tests;
