//! Maps errors of the HTTP client to [`IamError`]. The texts are constant or those of libraries. They
//! contain neither the URL nor text of the server, such as the names in a certificate.

use std::error::Error as StdError;
use std::io;

use rustls::{AlertDescription, CertificateError, Error as TlsError};
use thiserror::Error;

use crate::error::{Detail, IamError, Misconfiguration};

/// The fault that an error of the HTTP client means.
pub(super) fn of(error: reqwest::Error) -> IamError {
    let is_plain = error.url().is_some_and(|url| url.scheme() == "http");
    // A TLS server sends an alert, or ends the connection.
    let hint = if is_plain {
        "; if this port expects TLS, the URL must begin with https"
    } else {
        ""
    };
    let error = error.without_url();
    let chain = || causes(&error);
    if let Some(tls) = chain().find_map(|cause| cause.downcast_ref::<TlsError>()) {
        return IamError::misconfigured(Misconfiguration::Tls, tls_reason(tls));
    }
    let not_http = chain()
        .filter_map(|cause| cause.downcast_ref::<hyper::Error>())
        .any(hyper::Error::is_parse);
    let broken_framing = (error.is_body() || error.is_decode())
        && chain()
            .filter_map(|cause| cause.downcast_ref::<io::Error>())
            .any(|cause| {
                matches!(
                    cause.kind(),
                    io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
                )
            });
    if not_http || broken_framing {
        return IamError::Unreadable(format!("not HTTP/1.1{hint}").into());
    }
    if error.is_builder() {
        return IamError::misconfigured(Misconfiguration::Other, "the request cannot be written");
    }
    if error.is_connect() && error.is_timeout() {
        return IamError::Unreachable("no connection within the connect deadline".into());
    }
    if error.is_connect() {
        return IamError::Unreachable(Detail::caused_by("no connection", InnermostCause(error)));
    }
    let phase = if error.is_body() || error.is_decode() {
        "the connection broke within the response".to_owned()
    } else {
        format!("the connection broke{hint}")
    };
    IamError::Disconnected(Detail::caused_by(phase, InnermostCause(error)))
}

/// An error of the operating system or of hyper. The errors around it have addresses.
#[derive(derive_more::Debug, Error)]
#[debug("{self}")]
#[error("{}", causes(.0).last().map(ToString::to_string).unwrap_or_default())]
struct InnermostCause(reqwest::Error);

/// What servers of TLS say about a request without it, with status 400: nginx, Go, Apache and Tomcat.
const WITHOUT_TLS: [&str; 4] = [
    "sent to HTTPS port",
    "to an HTTPS server",
    "SSL-enabled server port",
    "requires TLS",
];

/// The fault of a response to a request without TLS, if the server expects TLS.
pub(super) fn of_missing_tls(body: &[u8]) -> Option<IamError> {
    let text = String::from_utf8_lossy(body);
    let expects_tls = WITHOUT_TLS.iter().any(|told| text.contains(told));
    let problem = "the server expects TLS on this port: the URL must begin with https";
    expects_tls.then(|| IamError::misconfigured(Misconfiguration::Tls, problem))
}

/// The causes of the error. An `io::Error` that contains another error does not return it as its
/// source, and TLS errors are wrapped in two of them.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(error.source(), |cause| {
        match cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(carried) => Some(carried),
            None => (*cause).source(),
        }
    })
}

pub(crate) const fn tls_reason(error: &TlsError) -> &'static str {
    match error {
        TlsError::InvalidCertificate(certificate) => match certificate {
            CertificateError::UnknownIssuer => {
                "the certificate is signed by an unknown authority: check ca_file"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the certificate has expired"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the certificate is not valid yet"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the certificate is for another host name"
            }
            _ => "the certificate is not acceptable",
        },
        TlsError::InvalidMessage(_) => "the server does not use TLS on this port",
        TlsError::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => {
                "the server requires a client certificate: check client_auth_method"
            }
            // Which of them, servers do not tell: many send one alert for all.
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            // Another authority of the same name.
            | AlertDescription::DecryptError => {
                "the server refused the client certificate, which has expired, is not for clients, or has an \
                 authority that the server does not trust: check client_certificate_file"
            }
            _ => "the server refused the handshake",
        },
        TlsError::PeerIncompatible(_) => "no common TLS version or cipher",
        _ => "the handshake failed",
    }
}
