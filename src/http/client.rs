//! The address of the client that sent a request.

use std::net::{IpAddr, SocketAddr};
use std::sync::Once;

use actix_web::HttpRequest;
use actix_web::http::header::{HeaderMap, HeaderName};
use iam_adapters::ClientAddress;
use ipnet::IpNet;

use super::Front;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client's address: the peer's, or, where the peer is a trusted proxy, the right-most address
/// in `X-Forwarded-For` that is not a trusted proxy. Any client can write what is left of it.
///
/// Where a proxy wrote something unreadable, the client is the peer: no client can avoid what is
/// counted by address. `Forwarded` (RFC 7239) is ignored, because a proxy that knows only one of the
/// two headers passes the other on as its client wrote it.
#[must_use]
pub(super) fn client_address(front: &Front, request: &HttpRequest) -> Option<ClientAddress> {
    let peer = request.peer_addr()?.ip().into();
    Some(behind_proxies(
        peer,
        request.headers(),
        &front.trusted_proxies,
    ))
}

/// Warns, once, of a peer that forwards for others and is not trusted: all of its clients have one
/// address, and share the limits of one address.
pub(super) fn warn_of_untrusted_proxy(front: &Front, request: &HttpRequest) {
    static WARNED: Once = Once::new();
    let Some(peer) = request.peer_addr() else {
        return;
    };
    let is_untrusted = !is_in(&front.trusted_proxies, peer.ip().into());
    if request.headers().contains_key(X_FORWARDED_FOR) && is_untrusted {
        WARNED.call_once(|| {
            tracing::warn!(
                peer.address = %peer.ip(),
                "logins are stopped by address, and this one forwards for others: is it a proxy \
                 that http.trusted_proxies should name?"
            );
        });
    }
}

fn behind_proxies(
    peer: ClientAddress,
    headers: &HeaderMap,
    trusted_proxies: &[IpNet],
) -> ClientAddress {
    if !is_in(trusted_proxies, peer) {
        return peer;
    }
    let mut client = peer;
    // Several headers are one list, in their order (RFC 9110 section 5.3).
    let lines: Vec<_> = headers.get_all(X_FORWARDED_FOR).collect();
    for line in lines.into_iter().rev() {
        // Hop by hop: what a client wrote on the left must not invalidate what the proxies added.
        for hop in line.as_bytes().rsplit(|byte| *byte == b',') {
            let hop = std::str::from_utf8(hop.trim_ascii()).unwrap_or_default();
            let Some(hop) = address_in(hop) else {
                return peer;
            };
            client = hop;
            if !is_in(trusted_proxies, client) {
                return client;
            }
        }
    }
    client
}

fn is_in(networks: &[IpNet], address: ClientAddress) -> bool {
    networks
        .iter()
        .any(|network| network.contains(&address.ip()))
}

/// An address, with or without a port, as some load balancers write it; IPv6 is in brackets then.
/// An address with a zone has a meaning on one machine only.
fn address_in(hop: &str) -> Option<ClientAddress> {
    if hop.contains('%') {
        return None;
    }
    let address = hop.parse::<IpAddr>().ok();
    let address = address.or_else(|| hop.parse::<SocketAddr>().ok().map(|hop| hop.ip()));
    address.map(ClientAddress::from)
}

#[cfg(test)]
mod tests;
