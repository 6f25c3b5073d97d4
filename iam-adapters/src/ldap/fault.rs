//! The faults of a server's results, and of the connection to it.

use std::{error::Error as StdError, io};

use ldap3::{LdapError, LdapResult};

use crate::client::tls_reason;
use crate::error::{Detail, IamError, Misconfiguration};

/// The fault of a result that is not about a user (RFC 4511 section 4.1.9). The text of the server is left out.
pub(super) fn fault_of(result: &LdapResult) -> IamError {
    let misconfigured = |what, detail: &str| IamError::misconfigured(what, detail);
    match result.rc {
        // strongerAuthRequired, confidentialityRequired.
        8 | 13 => misconfigured(
            Misconfiguration::Tls,
            "the server requires TLS: use ldaps or start_tls",
        ),
        10 => misconfigured(
            Misconfiguration::Other,
            "the server refers to another one, which is never followed: name that in urls",
        ),
        32 | 34 => misconfigured(
            Misconfiguration::Other,
            "no such entry, or the service account may not see it: check users_base and groups_base",
        ),
        50 => without_rights(),
        51 => IamError::Throttled { retry_after: None },
        code => IamError::Failed(format!("LDAP result {code}")),
    }
}

/// The fault of the result of a search.
pub(super) fn fault_of_search(result: &LdapResult) -> IamError {
    match result.rc {
        // 389 Directory Server refuses every search of an account whose password must be changed like this.
        53 => without_rights(),
        _ => fault_of(result),
    }
}

fn without_rights() -> IamError {
    IamError::misconfigured(
        Misconfiguration::Other,
        "the service account may not do that: check its rights, and whether its password must be changed",
    )
}

/// The fault of an error of the library. Its text has no text of the server.
pub(super) fn fault(error: LdapError, scheme: &str) -> IamError {
    let mut causes =
        std::iter::successors(
            Some(&error as &(dyn StdError + 'static)),
            |cause| match cause
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref)
            {
                Some(carried) => Some(carried),
                None => (*cause).source(),
            },
        );
    if let Some(tls) = causes.find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
        return IamError::misconfigured(Misconfiguration::Tls, tls_reason(tls));
    }
    match error {
        LdapError::Io { source } => {
            let text = match source.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
                    if scheme == "ldaps" =>
                {
                    "the server ended the TLS handshake: it may be down behind a proxy, or this port may be one \
                     without TLS"
                }
                _ => "the connection failed",
            };
            IamError::Unreachable(Detail::caused_by(text, source))
        }
        LdapError::Timeout { .. } => {
            IamError::Unreachable("no connection within the connect deadline".into())
        }
        LdapError::LdapResult { result } => match fault_of(&result) {
            // The only operation of the library itself is StartTLS.
            IamError::Failed(_) => {
                IamError::misconfigured(Misconfiguration::Tls, "the server refuses StartTLS")
            }
            fault => fault,
        },
        LdapError::FilterParsing => IamError::misconfigured(
            Misconfiguration::Other,
            "a filter cannot be sent: check users_filter and groups_filter",
        ),
        _ => IamError::Disconnected("the connection broke".into()),
    }
}
