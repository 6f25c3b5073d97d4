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
        50 => misconfigured(
            Misconfiguration::Other,
            "the service account may not do that: check its rights, and whether its password must be changed",
        ),
        51 => IamError::Throttled { retry_after: None },
        code => IamError::Failed(format!("LDAP result {code}")),
    }
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
        LdapError::Io { source }
            if scheme == "ldaps"
                && matches!(
                    source.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
                ) =>
        {
            IamError::misconfigured(
                Misconfiguration::Tls,
                "the server ended the handshake: this port may be one without TLS",
            )
        }
        LdapError::Io { source } => {
            IamError::Unreachable(Detail::caused_by("the connection failed", source))
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
